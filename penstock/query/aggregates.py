"""Aggregates per group: what a SELECT with GROUP BY asks for.

The output is computed from two kinds of columns that no table has: ``("key", k)``, the group's
k-th key, and ``("agg", k)``, its k-th aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr import build
from penstock.expr.build import ExprTypeError
from penstock.expr.node import Expr, Op
from penstock.query.dialect import place, snippet
from penstock.query.expressions import Lowering
from penstock.query.output import check_output
from penstock.query.plan import Aggregate, Aggregation
from penstock.query.tumbling import Tumbling, is_window, window_field
from penstock.types import FLOAT64, Kind, Type, int_of

_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.Avg: "avg",
    exp.ArgMin: "min_by",
    exp.ArgMax: "max_by",
}
#: Digits of Spark's widest decimal, and how many more than its terms a sum of decimals has.
_MOST_DIGITS, _MORE_DIGITS = 38, 10

#: Values computed from both tables that one query may aggregate: the first time, each takes some
#: half a second to compile.
MOST_COMPUTED = 8

_WHAT_INSTEAD = (
    "group by columns of one table, or write a query without GROUP BY, which gives the pairs, and "
    "aggregate its result"
)


def is_aggregate(tree: exp.Select) -> bool:
    """Whether the query gives groups rather than pairs."""
    clauses = any(tree.args.get(key) for key in ("group", "having", "distinct"))
    return clauses or any(item.find(exp.AggFunc) is not None for item in tree.expressions)


def read_aggregation(tree: exp.Select, plain: Lowering) -> Aggregation:
    """The aggregates of a SELECT.

    Raises
    ------
    QueryError
        A column is neither a key nor in an aggregate, or an aggregate
        cannot be computed.
    """
    windows: list[Tumbling] = []
    keys = _keys(tree, plain, windows)
    sides = frozenset().union(*(key.sides for key in keys)) if keys else frozenset()
    lowering = _GroupLowering(plain, keys, windows)
    having = tree.args.get("having")
    lowering.mark(*tree.expressions, *([] if having is None else [having.this]))
    select = []
    for item in tree.expressions:
        if isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        ):
            raise QueryError(f"* cannot be grouped; list the keys ({place(item)})")
        value = item.this if isinstance(item, exp.Alias) else item
        name = item.alias or (value.name if isinstance(value, exp.Column) else value.sql("spark"))
        select.append((name, lowering.lower(value)))
    check_output(select, tree)
    condition = build.TRUE if having is None else lowering.condition(having.this)
    side = None if len(sides) > 1 else next(iter(sides), "l")
    made = Aggregation(side, keys, tuple(lowering.aggregates), tuple(select), condition)
    computed = {a.value for a in made.aggregates if a.value is not None and len(a.value.sides) > 1}
    if len(computed) > MOST_COMPUTED:
        raise QueryError(
            f"the query has aggregates of {len(computed)} values that are computed from both "
            f"tables, more than {MOST_COMPUTED}: each is a program of its own; ask for some of "
            f"them in a second query ({place(tree)})"
        )
    for one in made.aggregates:
        if side is None and one.by is not None:
            raise QueryError(
                f"{one.text} over groups of columns of both tables is not supported: "
                f"{_WHAT_INSTEAD} ({place(tree.args['group'])})"
            )
    return made


def _keys(tree: exp.Select, plain: Lowering, windows: list[Tumbling]) -> tuple[Expr, ...]:
    """Keys of the groups; windows among them are added to ``windows``."""
    group = tree.args.get("group")
    if tree.args.get("distinct"):
        if group or any(item.find(exp.AggFunc) is not None for item in tree.expressions):
            raise QueryError(f"DISTINCT beside aggregates is not supported ({place(tree)})")
        if tree.args["distinct"].args.get("on"):
            raise QueryError(f"DISTINCT ON is not supported ({place(tree)})")
        items = [i.this if isinstance(i, exp.Alias) else i for i in tree.expressions]
    elif group is None:
        return ()
    else:
        for name, part in group.args.items():
            if part and name != "expressions":
                raise QueryError(
                    f"GROUP BY {name.upper().replace('_', ' ')} is not supported; list the keys "
                    f"({place(group)})"
                )
        items = [_referred(item, tree, plain) for item in group.expressions]
    keys: dict[Expr, None] = {}
    for item in items:
        if isinstance(item, exp.Anonymous) and is_window(item):
            windows.append(_lowered(plain.window, item))
            keys[windows[-1].start] = None
        else:
            keys[plain.column(item) if isinstance(item, exp.Column) else plain.lower(item)] = None
    return tuple(keys)


def _lowered(read: Callable[[exp.Anonymous], Tumbling], tree: exp.Anonymous) -> Tumbling:
    try:
        return read(tree)
    except ExprTypeError as error:
        raise QueryError(f"{error} ({place(tree)})") from None


def _referred(item: exp.Expr, tree: exp.Select, plain: Lowering) -> exp.Expr:
    """What a key of GROUP BY stands for: itself, an output column by number, or one by name."""
    if isinstance(item, exp.Literal) and not item.is_string:
        text = str(item.this)
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
        if not 1 <= number <= len(tree.expressions):
            raise QueryError(
                f"GROUP BY {item.this}: there are {len(tree.expressions)} output columns "
                f"({place(tree)})"
            )
        found = tree.expressions[number - 1]
    elif isinstance(item, exp.Column) and not item.table:
        if plain.scope.find(None, item.name) is not None:
            return item
        alike = [e for e in tree.expressions if e.alias.lower() == item.name.lower()]
        found = alike[0] if alike else item
    else:
        return item
    found = found.this if isinstance(found, exp.Alias) else found
    if found.find(exp.AggFunc) is not None:
        raise QueryError(f"an aggregate cannot be a key of GROUP BY ({place(found)})")
    return found


class _GroupLowering(Lowering):
    """Lowers output expressions over keys and aggregates."""

    def __init__(
        self, plain: Lowering, keys: tuple[Expr, ...], windows: Sequence[Tumbling]
    ) -> None:
        super().__init__(plain.scope, plain.params, plain.session)
        self.plain = plain
        self.windows = windows
        self.keys = {key: k for k, key in enumerate(keys)}
        #: Trees, by id, with an aggregate or a field of a window in them.
        self.special: set[int] = set()
        self.aggregates: list[Aggregate] = []
        # Aggregates without their text by number, so that the same one is computed once.
        self.numbers: dict[Aggregate, int] = {}

    def mark(self, *trees: exp.Expr) -> None:
        """Note where aggregates and fields of windows are, for trees that are to be lowered."""
        for tree in trees:
            for part in tree.walk():
                if isinstance(part, exp.AggFunc) or self._is_field(part):
                    while part is not None and id(part) not in self.special:
                        self.special.add(id(part))
                        part = part.parent

    def _members(self, tree: exp.Expr) -> list[exp.Expr]:
        if any(key.op in (Op.AND, Op.OR) for key in self.keys):
            return [tree.this, tree.expression]  # the first members may be a key together
        return super()._members(tree)

    def lower(self, tree: exp.Expr) -> Expr:
        if isinstance(tree, exp.AggFunc):
            return self._aggregate(tree)
        field = self._window_field(tree)
        if field is not None:
            return field
        if id(tree) not in self.special:
            is_column = isinstance(tree, exp.Column)
            known = self.plain.column(tree) if is_column else self.plain.lower(tree)
            if known in self.keys:
                return build.column("key", str(self.keys[known]), known.type)
            if not known.sides:
                return known
            if is_column:
                raise QueryError(
                    f"{snippet(tree)} is neither a key of GROUP BY nor inside an aggregate; add it "
                    f"to GROUP BY, or take min, max or min_by of it ({place(tree)})"
                )
        return super().lower(tree)

    def _window_field(self, tree: exp.Expr) -> Expr | None:
        """``window.start``, or ``window(...).start`` of a window that is a key."""
        made = None
        if self._is_bare(tree):
            raise QueryError(
                f"a window is not one value; take window.start or window.end ({place(tree)})"
            )
        if self._is_field(tree):
            if len(self.windows) != 1:
                count = "no" if not self.windows else "more than one"
                raise QueryError(
                    f"GROUP BY has {count} window(...); write window(t, '10 seconds')."
                    f"{tree.name} of one that it has ({place(tree)})"
                )
            (made,) = self.windows
        elif isinstance(tree, exp.Dot) and is_window(tree.this):
            called = self.plain.window(tree.this)
            made = next((w for w in self.windows if w.start is called.start), None)
        if made is None:
            return None
        start = build.column("key", str(self.keys[made.start]), made.start.type)
        known = replace(made, start=start)
        return window_field(known, tree.name, tree)

    def _is_field(self, tree: exp.Expr) -> bool:
        """Whether it is ``window.something``, and no table is named so."""
        is_named = isinstance(tree, exp.Column) and tree.table.lower() == "window"
        return is_named and self.plain.scope.source("window") is None

    def _is_bare(self, tree: exp.Expr) -> bool:
        """Whether it is ``window`` alone, and no column is named so."""
        is_named = isinstance(tree, exp.Column) and not tree.table and tree.name.lower() == "window"
        return is_named and bool(self.windows) and self.plain.scope.find(None, tree.name) is None

    def _aggregate(self, tree: exp.AggFunc) -> Expr:
        name = _FUNCTIONS.get(type(tree))
        text = snippet(tree)
        if name is None:
            known = ", ".join(_FUNCTIONS.values())
            raise QueryError(f"{text} is not supported; the aggregates are {known} ({place(tree)})")
        try:
            made = self._made(name, tree, text)
        except ExprTypeError as error:
            raise QueryError(f"{error} ({place(tree)})") from None
        same = replace(made, text="")
        if same not in self.numbers:
            self.numbers[same] = len(self.aggregates)
            self.aggregates.append(made)
        return build.column("agg", str(self.numbers[same]), made.type)

    def _made(self, name: str, tree: exp.AggFunc, text: str) -> Aggregate:
        count = int_of(64).within(0, (1 << 63) - 1).as_nullable(False)
        argument = tree.this
        if isinstance(argument, exp.Distinct):
            raise QueryError(
                f"DISTINCT inside an aggregate is not supported: {_WHAT_INSTEAD} ({place(tree)})"
            )
        if name == "count":
            if tree.expressions:
                raise QueryError(f"count takes * or one expression ({place(tree)})")
            if isinstance(argument, exp.Star):
                return Aggregate("count", None, None, count, text)
            value = self._argument(argument)
            return Aggregate("count", None if value.is_const and value.attr is not None else value,
                             None, count, text)  # fmt: skip
        if name == "count_if":
            condition = self.plain.condition(argument)
            one = build.case([(condition, build.const(1))], None)
            return Aggregate("count", one, None, count, text)
        if name in ("min_by", "max_by"):
            by = self._argument(tree.expression)
            self._check_order(name, by, tree)
            is_column = isinstance(argument, exp.Column)
            value = self.plain.column(argument) if is_column else self._argument(argument)
            return Aggregate(name, value, by, value.type.as_nullable(True), text)
        value = self._argument(argument)
        if name in ("min", "max"):
            self._check_order(name, value, tree)
            return Aggregate(name, value, None, value.type.as_nullable(True), text)
        if value.type.kind not in (Kind.INT, Kind.DECIMAL, Kind.FLOAT32, Kind.FLOAT64):
            raise QueryError(f"{name} needs a number, not {value.type} ({place(tree)})")
        dtype = FLOAT64 if name == "avg" or value.type.is_float else _sum_type(value.type)
        return Aggregate(name, value, None, dtype, text)

    def _argument(self, tree: exp.Expr) -> Expr:
        if tree.find(exp.AggFunc) is not None:
            raise QueryError(f"an aggregate inside an aggregate ({place(tree)})")
        return self.plain.lower(tree)

    def _check_order(self, name: str, value: Expr, tree: exp.Expr) -> None:
        if not value.type.is_integral and not value.type.is_float:
            raise QueryError(
                f"{name} orders numbers, dates and times, not {value.type}: {_WHAT_INSTEAD} "
                f"({place(tree)})"
            )
        if name == "max_by" and value.type.is_float:
            raise QueryError(
                "max_by over a floating-point value is not supported, since NaN is above all "
                f"others; use min_by of its negative where there is no NaN ({place(tree)})"
            )


def _sum_type(dtype: Type) -> Type:
    """BIGINT for integers; decimals get ten more digits, as in Spark."""
    if dtype.kind is Kind.INT:
        return int_of(64)
    digits = max(len(str(abs(dtype.lo))), len(str(abs(dtype.hi))), dtype.scale)
    bound = 10 ** min(digits + _MORE_DIGITS, _MOST_DIGITS) - 1
    return dtype.within(-bound, bound).as_nullable(True)
