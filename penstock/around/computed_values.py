"""The expressions of a SELECT around joins, of columns that Penstock computes for DuckDB.

Each largest expression of numbers, decimals, truth values and times becomes a call of a function
that :mod:`penstock.expr` evaluates, with columns, and values that DuckDB computes, as arguments. So
a value and its type hang on the expression alone, not on which engine runs what is around it.
Functions of texts and nested values, aggregates and window functions stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from ..errors import BeyondError, PenstockError, QueryError
from ..expr import ops
from ..expr.node import Expr, Op, node, walk
from ..expr.ops import ExprTypeError
from ..expr.ops.align import EXACT, to_unit
from ..expr.ops.decimals import spark_integer
from ..expr.ops.typed_nodes import typed
from ..expr.vector import fits_int64
from ..query.aggregates import average_type
from ..query.ansi import checked, may_fail
from ..query.dialect import Penstock, beyond, refused
from ..query.expressions import Lowering
from ..query.operators import members
from ..query.scope import Scope
from ..query.window_function import is_session, is_window, read_span
from ..types import BOOL, FLOAT64, MOST_DIGITS, Kind, Type, int_of, integer
from .carried import (
    Known,
    carried,
    element_of,
    in_words,
    is_coded,
    known_by_name,
    type_of_engines,
    window_of,
)
from .computed_calls import (
    AROUND_CALLS,
    AS_WRITTEN,
    COMPARING,
    OF_PENSTOCK,
    OF_SEVERAL_ROWS,
    OF_TIMES,
    call,
    carries,
    is_around,
    is_cast_of_text,
    is_number_of_name,
    is_of_text,
    is_over_doubles,
    is_test_of_null,
    ours,
)
from .parts import NoJoinError
from .qualified import type_name, unread
from .shapes import slides

if TYPE_CHECKING:
    from .computing import Computing

#: Evaluates an expression of columns for the engine: its name there, by the expression and the
#: columns.
Register = Callable[[Expr, tuple[Expr, ...]], str]
#: Prefix of the names of Penstock's expressions.
COMPUTED = "ps_computed_"
#: The side of columns that are arguments.
ARGUMENT = "x"
#: What DuckDB compares alike, of two values of one type.
_COMPARISONS = {Op.EQ: exp.EQ, Op.LT: exp.LT, Op.LE: exp.LTE}
Columns = Mapping[str, Known | None]


@dataclass
class Level:
    """A SELECT: the columns that its expressions name, and its groups.

    Parameters
    ----------
    outer : Level, optional
        The SELECT around it, of whose rows it may speak.
    tables : mapping of alias to columns
    outputs : mapping of name to what is known
        Of the SELECT list.
    keys : mapping of text to expression and what is known
        Keys of GROUP BY, as the query writes them.
    counts : mapping of text to column
        Of a row that stands once for each of the sliding windows that it is in: how many begin
        after this one and before its time.
    names : mapping of name to what is known
        Of the element for which a function of lists computes a value.
    """

    outer: Level | None = None
    tables: dict[str, Columns] = field(default_factory=dict)
    outputs: dict[str, Known | None] = field(default_factory=dict)
    keys: dict[str, tuple[exp.Expr, Known | None]] = field(default_factory=dict)
    counts: dict[str, exp.Column] = field(default_factory=dict)
    names: dict[str, Known | None] = field(default_factory=dict)

    def column(self, tree: exp.Column) -> Known | None:
        """Return the type of a column; None if it is not known."""
        level: Level | None = self
        while level is not None:
            if tree.table in level.tables:
                return level.tables[tree.table].get(tree.name)
            if not tree.table and tree.name in level.outputs:
                return level.outputs[tree.name]
            level = level.outer
        return None


class Values(Lowering):
    """Rewrites the expressions of one SELECT.

    Parameters
    ----------
    level : Level
    around : Computing
        Rewrites the queries in expressions.
    """

    misfit_error = staticmethod(refused)

    def __init__(self, level: Level, around: Computing) -> None:
        super().__init__(Scope(()), {}, around.functions, around.rules)
        self.level, self._around = level, around
        #: Columns, and values that DuckDB computes, by the expressions that stand for them.
        self._arguments: dict[Expr, tuple[exp.Expr, Known]] = {}
        #: These expressions, by the text of what they stand for.
        self._by_text: dict[str, Expr] = {}
        # By the id of a tree, which is kept, as what is lowered: a tree whose type is not known is
        # asked for twice, and so would each in it.
        self._natives: dict[int, tuple[exp.Expr, exp.Expr, Known | None]] = {}

    # -- values ------------------------------------------------------------------------------------

    def rewritten(self, tree: exp.Expr) -> tuple[exp.Expr, Known | None]:
        """Return an expression with calls of Penstock's in it, and its type, None if not known."""
        if isinstance(tree, exp.Column) and not self._key(tree):
            return tree, self._known_column(tree)
        if isinstance(tree, exp.Paren):
            inner, known = self.rewritten(tree.this)
            return exp.paren(inner, copy=False), known
        key = self._key(tree)
        if key is not None:
            return key[0].copy(), key[1]
        if isinstance(tree, exp.Anonymous) and is_window(tree):
            return self._window(tree)
        if is_test_of_null(tree):
            return tree, Known(BOOL)
        try:
            lowered = self.lower(tree)
        except BeyondError:
            return self._native(tree)
        if lowered.type.kind is Kind.DURATION and lowered.type.unit == "D":
            lowered = to_unit(lowered, "s")  # Arrow has no durations of days
        if lowered in self._arguments:
            known = self._arguments[lowered][1]
        else:
            known = Known(spark_integer(lowered) if lowered.type.kind is Kind.INT else lowered.type)
        return self._written(lowered, tree), known

    def tested(self, tree: exp.Expr) -> exp.Expr:
        """A condition: comparisons of columns stay so, as DuckDB joins by them."""
        tests = [self._member(one) for one in members(tree)]
        if len(tests) > 1 and self._around.ansi:
            with suppress(BeyondError):
                whole = self.lower(tree)
                if may_fail(whole):  # DuckDB tests members in any order
                    tests = [one for one in tests if isinstance(one, tuple(_COMPARISONS.values()))]
                    tests.append(self._written(whole, tree))
        return exp.and_(*tests, copy=False) if len(tests) > 1 else tests[0]

    def _member(self, tree: exp.Expr) -> exp.Expr:
        if isinstance(tree, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
            try:
                lowered = self.lower(tree)
            except BeyondError:
                return self._native(tree)[0]
            kind = _COMPARISONS.get(lowered.op)
            if kind is not None and all(map(self._reads, lowered.args)):
                a, b = (self._written(one, None) for one in _comparable(*lowered.args))
                return kind(this=a, expression=b)
            return self._written(lowered, tree)
        if isinstance(tree, exp.Or):
            parts = [self._member(one) for one in (tree.this, tree.expression)]
            return exp.paren(exp.Or(this=parts[0], expression=parts[1]), copy=False)
        return self.rewritten(tree)[0]

    def _reads(self, expr: Expr) -> bool:
        return any(one in self._arguments for one in walk(expr))

    def elements(self, tree: exp.Expr) -> Known | None:
        """Rewrite a list in its place; return the type of its elements, None if it is not known."""
        rewritten, known = self.rewritten(tree)
        if rewritten is not tree:
            tree.replace(rewritten)
        return element_of(known)

    def _window(self, tree: exp.Anonymous) -> tuple[exp.Expr, Known | None]:
        """``window(t, size)``, which is a struct of two times."""
        start, end = self._ends(tree)
        span = call("ps_span", self._written(start, None), self._written(end, None))
        return span, window_of(start.type, self.rules.zone.label)

    def _ends(self, tree: exp.Anonymous) -> tuple[Expr, Expr]:
        """Return a window's start and end."""
        count = self.level.counts.get(tree.sql(dialect=Penstock))
        if count is None:
            window = self.window(tree)
            return window.start, window.end
        first, size, slide = self.slides(tree)
        start = ops.sub(first, ops.mul(self.lower(count), slide))
        return start, ops.add(start, size)

    def slides(self, tree: exp.Anonymous) -> tuple[Expr, Expr, Expr]:
        """Return the start of the last sliding window that has a time, its size, and its slide."""
        time, size, *slide_args = tree.expressions
        alone = exp.Anonymous(this="window", expressions=[time, slide_args[0], *slide_args])
        last = self.window(alone)
        length = read_span(size, last.time, tree, self)
        return last.start, length, last.size

    # -- lowering ----------------------------------------------------------------------------------

    def _lower(self, tree: exp.Expr) -> Expr:
        key = self._key(tree)
        if key is not None:
            return self._as_given(key[0], key[1], tree)
        if is_session(tree):
            raise NoJoinError("sessions are Penstock's")
        if isinstance(tree, OF_SEVERAL_ROWS) or is_cast_of_text(tree):
            return self._average(tree) or self._hole(tree)
        if isinstance(tree, exp.Dot) and is_window(tree.this):
            if self._key(tree.this):
                return self._hole(tree)
            if slides(tree.this):
                start, end = self._ends(tree.this)
                return start if tree.expression.name.lower() == "start" else end
        if isinstance(tree, exp.DateDiff) and tree.args.get("unit") is not None:
            return self.lower(_timestamp_diff(tree))
        if isinstance(tree, exp.Identifier):  # of an element, in a function of lists
            return self._as_given(tree, self.level.names.get(tree.name), tree)
        if isinstance(tree, OF_TIMES):
            tree = self._of_read_times(tree)
        try:
            lowered = super()._lower(tree)
        except BeyondError as error:
            if isinstance(tree, OF_PENSTOCK) or is_number_of_name(tree):
                raise QueryError(str(error)) from None
            return self._hole(tree)
        except ExprTypeError:
            is_engines = isinstance(tree, COMPARING) and any(
                map(self._is_text, tree.iter_expressions())
            )
            if is_engines:
                return self._hole(tree)
            raise
        if not isinstance(tree, exp.Column | exp.Literal) and is_of_text(lowered):
            return self._hole(tree)
        return lowered

    def _of_read_times(self, tree: exp.Expr) -> exp.Expr:
        """A function of times, whose texts are read as such."""
        function = tree
        for key in ("this", "expression"):
            if self.lower(tree.args[key]).type.is_text:
                function = function.copy() if function is tree else function
                to = exp.DataType.build("timestamp", dialect=Penstock)
                read = exp.Cast(this=function.args[key], to=to)
                read.type = to.copy()
                function.set(key, read)
        return function

    def _is_text(self, tree: exp.Expr) -> bool:
        try:
            return is_of_text(self.lower(tree))
        except PenstockError:
            return True

    def column(self, tree: exp.Column) -> Expr:
        if isinstance(tree.this, exp.Star):
            raise refused("* is not a value", tree)
        return self._as_given(tree, self._known_column(tree), tree)

    def _known_column(self, tree: exp.Column) -> Known | None:
        known = self.level.column(tree) or self._named(tree)
        if known is None or known.type.kind not in EXACT:
            return known
        # An integer that DuckDB computes may have fewer digits than its type.
        is_read = known.type.kind is Kind.DECIMAL or known.arrow is not None
        if is_read and known.type.precision > MOST_DIGITS:
            raise refused(unread(tree.name, known.arrow or known.type), tree)
        return known

    def _named(self, tree: exp.Expr) -> Known | None:
        return known_by_name(tree.type, self.rules.zone.label)

    def _key(self, tree: exp.Expr) -> tuple[exp.Expr, Known | None] | None:
        """A key of the groups, where the expression is one."""
        keys = self.level.keys
        if not keys or not isinstance(tree, exp.Condition):
            return None
        return keys.get(tree.sql(dialect=Penstock))

    def _hole(self, tree: exp.Expr) -> Expr:
        """Return the argument that stands for a value that DuckDB computes."""
        native, known = self._native(tree)
        return self._as_given(native, known, tree)

    def _as_given(self, source: exp.Expr, known: Known | None, tree: exp.Expr) -> Expr:
        if known is None or (known.type.kind is Kind.OTHER and not isinstance(tree, exp.Column)):
            raise beyond("its type is not known: CAST it to the type that it has", tree)
        text = source.sql(dialect=Penstock)
        if text not in self._by_text:
            argument = ops.column(ARGUMENT, text, known.type)
            value = source if isinstance(source, exp.Column) else _cast(source, known)
            self._by_text[text] = argument
            self._arguments[argument] = value, known
        return self._by_text[text]

    def _average(self, tree: exp.Expr) -> Expr | None:
        """``avg`` of decimals as a quotient, as DuckDB's is a float; None for anything else."""
        inner = tree
        while isinstance(inner, AROUND_CALLS):
            inner = inner.this
        if not isinstance(inner, exp.Avg):
            return None
        value = inner.this.expressions[0] if isinstance(inner.this, exp.Distinct) else inner.this
        try:
            to = average_type(self.lower(value).type)
        except BeyondError:
            return None
        if to.kind is not Kind.DECIMAL:
            return None
        total, count = (self._hole(_instead_of_avg(tree, kind)) for kind in (exp.Sum, exp.Count))
        return ops.divided(total, count, to.precision, to.scale)

    # -- what DuckDB computes ----------------------------------------------------------------------

    def _native(self, tree: exp.Expr) -> tuple[exp.Expr, Known | None]:
        """An expression that DuckDB computes, of parts that may be Penstock's."""
        if id(tree) not in self._natives:
            native = tree.copy()
            if isinstance(tree, exp.CountIf):
                one = exp.Case(ifs=[exp.If(this=native.this, true=exp.Literal.number(1))])
                native = exp.Count(this=one)
            native.type = tree.type
            known = type_of_engines(native, self.inside(native), self._named(tree))
            self._natives[id(tree)] = tree, native, known
        _, native, known = self._natives[id(tree)]
        return native, known

    def inside(self, tree: exp.Expr) -> dict[str, Known | None]:
        """Rewrite the parts of an expression in place; return their types by argument."""
        types: dict[str, Known | None] = {}
        is_sum = isinstance(tree.parent if isinstance(tree, exp.Distinct) else tree, exp.Sum)
        for child in list(tree.iter_expressions()):
            is_argument = isinstance(tree, exp.AggFunc) or carries(tree)
            is_argument = is_argument and not isinstance(tree, exp.Is | exp.In)
            if isinstance(child, exp.Paren) and is_argument:
                child = child.replace(child.unnest())
            is_span = isinstance(child, exp.Interval) and carries(tree)
            is_sum_of_null = is_sum and isinstance(child, exp.Null)
            if isinstance(child, AS_WRITTEN) and not (is_span or is_sum_of_null):
                if isinstance(child, exp.Literal):
                    types[str(child.arg_key)] = Known(self.lower(child).type)
                continue
            if isinstance(child, exp.Query | exp.Subquery):
                outputs = self._around.query(child, self.level)
                types[str(child.arg_key)] = next(iter(outputs.values()), None)
                continue
            if isinstance(child, exp.Where):
                child.set("this", self.tested(child.this))
                continue
            if isinstance(child, exp.Lambda):
                self._lambda(child, types.get("this"))
                continue
            if is_around(child, tree) and not is_span:
                inner = self.inside(child)
                first = inner.get("this") or inner.get("expressions") or inner.get("true")
                types[str(child.arg_key)] = first
                continue
            if isinstance(tree, AROUND_CALLS) and child.arg_key == "this":
                rewritten, types["this"] = self._native(child)
                child.replace(rewritten)
                continue
            key = str(child.arg_key)
            rewritten, known = self.rewritten(child)
            if is_sum and known is not None and known.type.kind is Kind.NULL:
                known = Known(FLOAT64)  # as in Spark
                rewritten = _cast(rewritten.copy(), known)
            types.setdefault(key, known)
            if known is not None and is_coded(known.type) and not carries(tree):
                rewritten = self._decoded(rewritten, known, child)
            is_wide = known is not None and _is_wide(known.type) and not carries(tree)
            is_float = is_over_doubles(tree, key) or (is_wide and isinstance(tree, exp.Avg))
            if is_wide and not is_float:
                rewritten = ours(exp.Cast(this=rewritten, to=exp.DataType.build("bigint")))
            if known is not None and known.type.kind in EXACT and is_float:
                exact = self._as_given(rewritten, known, child)
                rewritten = self._written(ops.cast(exact, FLOAT64), None)
            if rewritten is not child:
                child.replace(rewritten)
        return types

    def _lambda(self, tree: exp.Lambda, list_type: Known | None) -> None:
        """Rewrite the value that a function of lists computes for each element."""
        names = [one.name for one in tree.expressions]
        element = element_of(list_type)
        known = {names[0]: element} if len(names) == 1 else {}
        value, _ = Values(Level(self.level, names=known), self._around).rewritten(tree.this)
        tree.set("this", value)

    def _decoded(self, source: exp.Expr, known: Known, tree: exp.Expr) -> exp.Expr:
        """A value that DuckDB has as a number, as a time of microseconds."""
        if known.type.kind is Kind.DURATION:
            raise refused(f"a {known.type} is no argument here; count it in microseconds", tree)
        column = self._as_given(source, known, source)
        return self._written(typed(Op.CAST, (column,), known.type.in_unit("us")), None)

    def _written(self, expr: Expr, tree: exp.Expr | None) -> exp.Expr:
        """The column, constant or call that gives DuckDB an expression's value."""
        if expr in self._arguments:
            return self._arguments[expr][0].copy()
        is_written = isinstance(tree, exp.Literal | exp.Neg | exp.Null | exp.Boolean)
        if expr.is_const and is_written and not is_coded(expr.type):
            return tree
        if self._around.ansi:
            expr = checked(expr, {ARGUMENT: ""})
        columns = {one: self._arguments[one][0] for one in walk(expr) if one in self._arguments}
        written = in_words(expr, columns)
        if written is None:
            name = self._around.register(expr, tuple(columns))
            # A function of nothing would not know of how many rows its value is.
            written = call(name, *([one.copy() for one in columns.values()] or [0]))
        dtype = int_of(64) if expr.type.kind is Kind.INT else expr.type
        name = type_name(carried(dtype, self.rules.zone.label))
        written.type = exp.DataType.build(name, dialect=Penstock)
        return written


def _timestamp_diff(tree: exp.DateDiff) -> exp.Expr:
    """``datediff(unit, from, to)``, whose times the parser makes dates: that is for days alone."""
    later, earlier = tree.this.this, tree.expression.this
    diff = exp.TimestampDiff(this=later, expression=earlier, unit=tree.args["unit"])
    diff.type = exp.DataType.build("bigint")
    return diff


def _instead_of_avg(tree: exp.Expr, kind: type[exp.Expr]) -> exp.Expr:
    """Return a call of ``avg``, and the calls around it, with another aggregate."""
    copy = tree.copy()
    if isinstance(tree, exp.Avg):
        return kind(this=copy.this)
    copy.set("this", _instead_of_avg(tree.this, kind))
    return copy


def _is_wide(dtype: Type) -> bool:
    """Whether an integer may need more than 64 bits, which functions of DuckDB do not take."""
    return dtype.kind is Kind.INT and not fits_int64(dtype.lo, dtype.hi)


def _comparable(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Return two times, as plain integers if either may need more than 64 bits."""
    if not a.type.unit or all(fits_int64(one.type.lo, one.type.hi) for one in (a, b)):
        return a, b

    def counted(expr: Expr) -> Expr:
        dtype = expr.type
        return node(Op.RAW, (expr,), integer(dtype.lo, dtype.hi, nullable=dtype.nullable))

    return counted(a), counted(b)


def _cast(tree: exp.Expr, known: Known) -> exp.Expr:
    """A number that DuckDB computes, in the type that it is known to have."""
    is_number = known.type.kind in (Kind.INT, Kind.DECIMAL, Kind.FLOAT64)
    if not is_number and not is_coded(known.type):
        return tree
    name = type_name(carried(known.type))
    return ours(exp.Cast(this=tree, to=exp.DataType.build(name, dialect=Penstock)))
