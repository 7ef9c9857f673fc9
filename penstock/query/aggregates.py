"""Single aggregates of a SELECT: their functions, arguments and types."""

from __future__ import annotations

from sqlglot import exp

from ..expr import ops
from ..expr.node import Expr
from ..expr.ops import ExprTypeError
from ..expr.ops.align import NUMBERS
from ..plan.query import Aggregate
from ..types import FLOAT64, MOST_DIGITS, Kind, Type, decimal, int_of
from .dialect import beyond, misfit, refused, snippet
from .expressions import Lowering

#: Names of the aggregates that Penstock folds, by the parser's types.
FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.Avg: "avg",
    exp.ArgMin: "min_by",
    exp.ArgMax: "max_by",
}
_BY = ("min_by", "max_by")
_COUNT = int_of(64).within(0, (1 << 63) - 1).as_nullable(False)
#: Digits that a sum of decimals has more than its terms, and that an average has after the point.
_MORE_DIGITS, _MORE_PLACES = 10, 4

#: What to write instead of an aggregate that there is not, over two tables.
OF_PAIRS_INSTEAD = (
    "group by columns of one table, or write a query without GROUP BY, which gives the pairs, and "
    "aggregate its result"
)


def _instead(exprs: list[exp.Expr], plain: Lowering) -> str:
    """Advice in place of an aggregate of some expressions, by the number of tables."""
    if len(plain.scope.sources) > 1:
        return OF_PAIRS_INSTEAD
    keys = ", ".join(map(snippet, exprs))
    return f"add {keys} to GROUP BY, and aggregate the rows that the query gives"


def has_aggregate(tree: exp.Expr) -> bool:
    nodes = tree.walk(prune=lambda one: isinstance(one, exp.Query))  # one of a subquery is its own
    return any(isinstance(one, exp.AggFunc) for one in nodes)


def read_aggregate(tree: exp.AggFunc, plain: Lowering) -> Aggregate:
    """Read one aggregate; ``plain`` lowers its arguments.

    Raises
    ------
    QueryError
        There is no such aggregate, or its argument does not fit.
    """
    name, text = FUNCTIONS.get(type(tree)), snippet(tree)
    if name is None:
        known = ", ".join(FUNCTIONS.values())
        raise beyond(f"{text} is not supported; the aggregates are {known}", tree)
    try:
        function, value, by, dtype = _read(name, tree, plain)
    except ExprTypeError as error:
        raise misfit(error, tree) from None
    return Aggregate(function, value, by, dtype, text)


def check_arguments(tree: exp.Expr) -> None:
    """Refuse an aggregate of :data:`FUNCTIONS` without its arguments, or with another dialect's."""
    name = FUNCTIONS[type(tree)]
    keys = ("this", "expression") if name in _BY else ("this",)
    if any(tree.args.get(key) is None for key in keys):
        raise refused(f"{name} lacks an argument", tree)
    # A mark of the parser's that each count has.
    if any(arg for key, arg in tree.args.items() if key not in (*keys, "big_int")):
        raise refused(
            f"{name} takes {'two expressions' if len(keys) > 1 else 'one expression'}", tree
        )


def _read(
    name: str, tree: exp.AggFunc, plain: Lowering
) -> tuple[str, Expr | None, Expr | None, Type]:
    """Function, value, order value and type of an aggregate."""
    if name == "count" and tree.expressions:
        raise refused("count takes * or one expression", tree)
    check_arguments(tree)
    argument = tree.this
    if isinstance(argument, exp.Distinct):
        instead = _instead(argument.expressions, plain)
        raise beyond(f"DISTINCT inside an aggregate is not supported: {instead}", tree)
    if name == "count" and isinstance(argument, exp.Star):
        return "count", None, None, _COUNT
    if name == "count_if":
        one = ops.case([(plain.condition(argument), ops.const(1))], None)
        return "count", one, None, _COUNT
    if name in _BY:
        by = _ordered(name, tree.expression, plain, tree)
        is_column = isinstance(argument, exp.Column)
        value = plain.column(argument) if is_column else _argument(argument, plain)
        return name, value, by, value.type.as_nullable(True)
    if name in ("min", "max"):
        value = _ordered(name, argument, plain, tree)
        return name, value, None, value.type.as_nullable(True)
    value = _argument(argument, plain)
    if name == "count":
        is_never_null = value.is_const and not value.is_null_const
        return name, None if is_never_null else value, None, _COUNT
    if value.type.kind is Kind.NULL:  # a DOUBLE, as in Spark
        value = ops.cast(value, FLOAT64)
    if value.type.kind not in NUMBERS:
        raise refused(f"{name} needs a number, not {value.type}", tree)
    return name, value, None, (average_type if name == "avg" else sum_type)(value.type)


def _argument(tree: exp.Expr, plain: Lowering) -> Expr:
    if has_aggregate(tree):
        raise refused("an aggregate inside an aggregate", tree)
    return plain.lower(tree)


def _ordered(name: str, argument: exp.Expr, plain: Lowering, tree: exp.Expr) -> Expr:
    """Lower a value that an aggregate orders."""
    value = _argument(argument, plain)
    if not value.type.is_integral and not value.type.is_float:
        instead = _instead([argument], plain)
        raise beyond(f"{name} orders numbers, dates and times, not {value.type}: {instead}", tree)
    if name == "max_by" and value.type.is_float:
        raise beyond(
            "max_by over a floating-point value is not supported, since NaN is above all "
            "others; use min_by of its negative where there is no NaN",
            tree,
        )
    return value


def sum_type(dtype: Type) -> Type:
    """BIGINT for integers; decimals get ten more digits, as in Spark."""
    if dtype.kind is not Kind.DECIMAL:
        return FLOAT64 if dtype.is_float else int_of(64)
    return decimal(min(dtype.precision + _MORE_DIGITS, MOST_DIGITS), dtype.scale)


def average_type(dtype: Type) -> Type:
    """DOUBLE; of decimals, a decimal of four more digits after the point, as in Spark."""
    if dtype.kind is not Kind.DECIMAL or dtype.precision > MOST_DIGITS:
        return FLOAT64
    places = min(dtype.scale + _MORE_PLACES, MOST_DIGITS)
    return decimal(min(dtype.precision + _MORE_PLACES, MOST_DIGITS), places)
