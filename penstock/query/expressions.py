"""Lower SQL expressions to typed expression nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from sqlglot import exp

from ..errors import PenstockError, QueryError, SchemaError
from ..expr import ops
from ..expr.node import Expr, Op
from ..expr.ops import ExprTypeError
from ..expr.periods import PERIODS, Tumbling, period_start
from ..plan.linear import as_integer
from ..plan.simplify import simplify
from ..types import TIMES, TIMESTAMPS, UNIT_NS, Kind
from ..user_functions import PairFunction, Udf
from . import nodes
from .constants import cast_type, interval, months_of, number, param, time_literal
from .dialect import beyond, misfit, not_compared, place, refused, snippet, written
from .operators import (
    ARGUMENTS,
    BINARY_OPS,
    BY_NAME,
    BY_TYPE,
    JUNCTIONS,
    TIME_FUNCTIONS,
    TIME_OPS,
    later_by_months,
    whole_quotient,
)
from .scope import Scope
from .time_rules import OF_DATES, SHORT, TRUNCATIONS, TimeRules, truncation
from .window_function import (
    equal_windows,
    is_session,
    is_window,
    read_session,
    read_window,
    window_field,
)

#: Types that a text beside a date or timestamp is read as.
_TIME_NAMES = {
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMP_NTZ: "TIMESTAMPNTZ",
}

#: Most branches of a CASE, and most values of LEAST, GREATEST or COALESCE: each is tested for NULL
#: together with all before it.
_MOST_CHOICES = 250


class Lowering:
    """Lowers the expressions of one query level.

    Parameters
    ----------
    scope : Scope
        Where columns are looked up.
    params : mapping
        Values of names that are not columns, such as the ``diff`` of paper 1's queries.
    functions : mapping of str to function
        Of users.
    rules : TimeRules
        How times of different kinds are compared and moved.
    """

    #: Makes the error about values that do not fit.
    misfit_error = staticmethod(misfit)

    def __init__(
        self,
        scope: Scope,
        params: Mapping[str, Any],
        functions: Mapping[str, Udf],
        rules: TimeRules,
    ) -> None:
        self.scope = scope
        self.params = params
        self.functions = {name.lower(): one for name, one in functions.items()}
        self.rules = rules
        # By the id of a tree, which is kept: one that is made on the way, such as the interval in a
        # window's size, would leave its id to the next.
        self._lowered: dict[int, tuple[exp.Expr, Expr]] = {}
        # Whoever tries the parts of a tree asks for each of them again.
        self._refused: dict[int, tuple[exp.Expr, PenstockError]] = {}
        self._window_times: dict[Expr, None] = {}

    def lower(self, tree: exp.Expr) -> Expr:
        """Lower a SQL expression.

        Raises
        ------
        QueryError
            Unknown column or construct, or operands that do not fit; with the place in the text.
        """
        if id(tree) not in self._lowered:
            if id(tree) in self._refused:
                raise self._refused[id(tree)][1].with_traceback(None)
            try:
                self._lowered[id(tree)] = tree, self._lower(tree)
            except ExprTypeError as error:
                self._refused[id(tree)] = tree, self.misfit_error(error, tree)
                raise self._refused[id(tree)][1] from None
            except (QueryError, SchemaError) as error:
                self._refused[id(tree)] = tree, error
                raise
        return self._lowered[id(tree)][1]

    def condition(self, tree: exp.Expr) -> Expr:
        """Lower an expression that must be a condition."""
        result = self.lower(tree)
        if result.type.kind not in (Kind.BOOL, Kind.NULL):
            raise self.misfit_error(f"a condition is needed, not {result.type}", tree)
        return ops.and_(result)

    def _lower(self, tree: exp.Expr) -> Expr:
        kind = type(tree)
        nodes.check_function(tree)
        if kind in JUNCTIONS:
            return JUNCTIONS[kind](*map(self.lower, self._members(tree)))
        if isinstance(tree, exp.EQ) and (is_window(tree.this) or is_window(tree.expression)):
            return self._equal_windows(tree)
        if kind in (exp.Add, exp.Sub) and (moved := self._later_by_months(tree)) is not None:
            return moved
        if kind in BINARY_OPS or kind in TIME_OPS:
            a, b = self._in_units(*self._operands(tree))
            if kind in TIME_OPS:
                return TIME_OPS[kind](self.rules, a, b)
            return BINARY_OPS[kind](a, b)
        if kind in TIME_FUNCTIONS:
            args = [self.lower(a) for k in ARGUMENTS if (a := tree.args.get(k)) is not None]
            return TIME_FUNCTIONS[kind](self.rules, tree, args)
        if kind in BY_TYPE:
            return self._function(tree)
        if kind not in _FORMS:
            raise beyond(f"{written(tree)} is not supported", tree)
        return _FORMS[kind](self, tree)

    def _later_by_months(self, tree: exp.Expr) -> Expr | None:
        """``time + INTERVAL n MONTHS``; None for other sums."""
        parts = [(tree.this, tree.expression, 1 if isinstance(tree, exp.Add) else -1)]
        if isinstance(tree, exp.Add):
            parts.append((tree.expression, tree.this, 1))
        for time, span, sign in parts:
            months = months_of(span)
            if months is not None:
                moved = self.lower(time)
                if moved.type.kind not in TIMES:
                    raise ExprTypeError(f"a date or timestamp is needed, not {moved.type}")
                return later_by_months(self.rules, moved, ops.const(sign * months))
        return None

    def _operands(self, tree: exp.Expr) -> tuple[Expr, Expr]:
        """Lower both operands; a text that is compared with a time is one, too."""
        parts = tree.this, tree.expression
        a, b = map(self.lower, parts)
        if isinstance(tree, exp.Predicate):
            return self._as_time(parts[0], a, b), self._as_time(parts[1], b, a)
        return a, b

    def _as_time(self, tree: exp.Expr, value: Expr, other: Expr) -> Expr:
        """Read a constant text beside a date or timestamp as that, as Spark does."""
        is_text = isinstance(tree, exp.Literal) and tree.is_string
        name = _TIME_NAMES.get(other.type.kind)
        if not is_text or name is None:
            return value
        return time_literal(str(tree.this), cast_type(exp.cast(tree, name)), self.rules, tree)

    def _members(self, tree: exp.Expr) -> list[exp.Expr]:
        """Members of a chain of AND or OR, without recursion: a long chain is a deep tree."""
        members, current = [], tree
        while type(current) is type(tree):
            members.append(current.expression)
            current = current.this
        return [current, *reversed(members)]

    def _in_units(self, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """Turn an INTERVAL beside integers of a declared unit into a number of that unit."""
        return self.in_unit_of(b, a), self.in_unit_of(a, b)

    def in_unit_of(self, count: Expr, span: Expr) -> Expr:
        """Turn a constant INTERVAL into a number, where ``count`` has a declared unit."""
        if span.type.kind is not Kind.DURATION or not span.is_const or count.type.kind != Kind.INT:
            return span
        unit = self.scope.unit_of(count)
        if unit is None:
            return span
        number_of, remainder = divmod(span.attr * UNIT_NS[span.type.unit], UNIT_NS[unit])
        if remainder:
            raise ExprTypeError(f"the INTERVAL is not a whole number of {unit}")
        return ops.const(number_of)

    # -- leaves -----------------------------------------------------------------------------------

    def value(self, tree: exp.Expr) -> Expr:
        """Lower an expression; a plain column may be of any type."""
        return self.column(tree) if isinstance(tree, exp.Column) else self.lower(tree)

    def column(self, tree: exp.Column) -> Expr:
        """Look up a column, of any type, or a parameter."""
        if isinstance(tree.this, exp.Star):
            raise refused("* is not a value", tree)
        if tree.args.get("db"):
            raise beyond("fields of structs are computed of one table, before a join", tree)
        try:
            value = self.scope.find(tree.table or None, tree.name)
        except QueryError as error:
            raise refused(error, tree) from None
        if value is not None:
            return value
        if not tree.table and tree.name in self.params:
            return param(tree.name, self.params[tree.name])
        raise refused(self.scope.unknown(tree.table or None, tree.name), tree)

    def _column(self, tree: exp.Column) -> Expr:
        value = self.column(tree)
        if value.type.nested:
            raise beyond(not_compared(snippet(tree), value.type.nested), tree)
        if value.type.kind is Kind.OTHER:
            raise SchemaError(
                f"column {tree.name} is {value.type.unit}, which cannot be computed with; leave it "
                f"out of the predicate and of computed columns ({place(tree)})"
            )
        return value

    def _literal(self, tree: exp.Literal) -> Expr:
        return ops.const(str(tree.this)) if tree.is_string else number(str(tree.this))

    def _placeholder(self, tree: exp.Placeholder) -> Expr:
        """Look up ``:name``."""
        name = str(tree.this or "")
        if name in self.params:
            return param(name, self.params[name])
        raise refused(f"parameter :{name} has no value; give params={{{name!r}: ...}}", tree)

    def _hex(self, tree: exp.HexString) -> Expr:
        try:
            return ops.const(bytes.fromhex(str(tree.this)))
        except ValueError:
            raise refused("a hexadecimal text has two digits a byte", tree) from None

    # -- forms ------------------------------------------------------------------------------------

    def _between(self, tree: exp.Between) -> Expr:
        value, low, high = (self.lower(tree.args[k]) for k in ("this", "low", "high"))
        low, high = (
            self._as_time(tree.args[k], end, value) for k, end in (("low", low), ("high", high))
        )
        return ops.and_(
            ops.le(*self.rules.alike(*self._in_units(low, value))),
            ops.le(*self.rules.alike(*self._in_units(value, high))),
        )

    def _in(self, tree: exp.In) -> Expr:
        if tree.args.get("query") or tree.args.get("unnest"):
            raise beyond(
                "IN takes a subquery in WHERE beside AND only, of a query over one table; "
                "elsewhere it takes constants",
                tree,
            )
        value = self.lower(tree.this)
        options = [self._as_time(e, self.lower(e), value) for e in tree.expressions]
        value, *options = self.rules.alike(value, *options)
        return ops.is_in(value, [o if o.is_const or o.sides else simplify(o) for o in options])

    def _is(self, tree: exp.Is) -> Expr:
        if isinstance(tree.expression, exp.Boolean):
            condition = self.condition(tree.this)
            wanted = condition if tree.expression.this else ops.not_(condition)
            return ops.case([(wanted, ops.TRUE)], ops.FALSE)
        if not isinstance(tree.expression, exp.Null):
            raise refused("IS takes NULL, TRUE or FALSE, and NOT before them", tree)
        return ops.is_null(self.lower(tree.this))

    def _case(self, tree: exp.Case) -> Expr:
        _check_count(len(tree.args["ifs"]), "CASE", "branches", tree)
        operand = None if tree.this is None else self.lower(tree.this)
        pairs = []
        for branch in tree.args["ifs"]:
            test = self.lower(branch.this)
            if operand is not None:
                test = ops.eq(*self.rules.alike(operand, test))
            pairs.append((test, self.lower(branch.args["true"])))
        return self._choice(pairs, self._else(tree, "default"))

    def _else(self, tree: exp.Expr, name: str) -> Expr:
        otherwise = tree.args.get(name)
        return ops.const(None) if otherwise is None else self.lower(otherwise)

    def _choice(self, pairs: Sequence[tuple[Expr, Expr]], otherwise: Expr) -> Expr:
        """Make a CASE; times among its values become one kind."""
        *values, last = self.rules.alike(*(value for _, value in pairs), otherwise)
        return ops.case(list(zip((c for c, _ in pairs), values, strict=True)), last)

    def _if(self, tree: exp.If) -> Expr:
        pair = self.lower(tree.this), self.lower(tree.args["true"])
        return self._choice([pair], self._else(tree, "false"))

    def _coalesce(self, tree: exp.Coalesce) -> Expr:
        _check_count(1 + len(tree.expressions), "COALESCE", "values", tree)
        *values, last = [self.lower(a) for a in (tree.this, *tree.expressions)]
        return self._choice([(ops.not_(ops.is_null(v)), v) for v in values], last)

    def _extreme(self, tree: exp.Least | exp.Greatest) -> Expr:
        _check_count(1 + len(tree.expressions), type(tree).__name__.upper(), "values", tree)
        args = self.rules.alike(*(self.lower(a) for a in (tree.this, *tree.expressions)))
        return (ops.least if isinstance(tree, exp.Least) else ops.greatest)(*args)

    def _like(self, tree: exp.Like) -> Expr:
        pattern = tree.expression
        text = pattern.this if isinstance(pattern, exp.Literal) and pattern.is_string else None
        if text is None or "%" in text[:-1] or "_" in text or "\\" in text:
            raise beyond("LIKE takes a constant prefix such as 'abc%'", tree)
        value = self.lower(tree.this)
        if text.endswith("%"):
            return ops.prefix(value, ops.const(text[:-1]))
        return ops.eq(value, ops.const(text))

    def window(self, tree: exp.Anonymous) -> Tumbling:
        """Read a call of ``window``."""
        window = read_window(tree, self)
        self._window_times[window.time] = None
        return window

    def timed(self, untested: Set[Expr] = frozenset()) -> tuple[Expr, ...]:
        """Conditions on the rows: as in Spark, one without a time is in no window.

        Parameters
        ----------
        untested
            Times of windows that are not tested.
        """
        times = [t for t in self._window_times if t not in untested and t.type.nullable]
        return tuple(ops.not_(ops.is_null(time)) for time in times)

    def _equal_windows(self, tree: exp.EQ) -> Expr:
        """Lower ``window(l.t, ...) = window(r.t, ...)``."""
        calls = tree.this, tree.expression
        if not all(is_window(call) for call in calls):
            raise refused(
                "a window equals only another one, as in window(l.t, '10 seconds') = window(r.t, "
                "'10 seconds'); compare window(...).start with a time",
                tree,
            )
        left, right = (read_window(call, self) for call in calls)
        a, b = equal_windows(left, right, tree)
        return ops.eq(*self.rules.alike(a, b))

    def session(self, tree: exp.Expr) -> Tumbling:
        """Read a call of ``session_window``, as a window from its time on."""
        return read_session(tree, self)

    def _dot(self, tree: exp.Dot) -> Expr:
        """Lower a field of ``window(...)``."""
        if not is_window(tree.this):
            raise beyond("fields of structs are not supported", tree)
        return window_field(self.window(tree.this), tree.expression.name, tree)

    def _anonymous(self, tree: exp.Anonymous) -> Expr:
        if is_window(tree):
            raise self.misfit_error(
                "a window is not one value; take window.start or window.end, or compare it with "
                "another window by =",
                tree,
            )
        if is_session(tree):
            raise self.misfit_error(
                "a session is not one value: group by session_window(t, '10 seconds'), or join by "
                "session_window(l.t, '10 seconds') = session_window(r.t, '10 seconds') in ON, "
                "beside AND",
                tree,
            )
        function = self.functions.get(tree.name.lower())
        if isinstance(function, PairFunction):
            return function.call(*map(self.lower, tree.expressions))
        if function is not None:
            raise beyond(
                f"{tree.name} is a function of columns: it takes those of one side, before or "
                "after the join",
                tree,
            )
        count, form = BY_NAME.get(tree.name.lower(), (0, None))
        if form is not None:
            if len(tree.expressions) != count:
                raise refused(f"{tree.name} takes {count} arguments", tree)
            return form(*map(self.lower, tree.expressions))
        hint = ""
        if tree.name.lower() in ("time_bucket", "tumble", "tumble_start", "tumble_end"):
            hint = "; write window(t, '10 seconds') in GROUP BY, window.start in SELECT"
        raise beyond(f"function {tree.name} is not supported{hint}", tree)

    def _function(self, tree: exp.Expr) -> Expr:
        """Lower a function of numbers; what other dialects add to it is refused."""
        keys = {key for key, arg in tree.args.items() if isinstance(arg, exp.Expr)}
        if keys - set(ARGUMENTS):
            raise beyond(f"{written(tree)} with these arguments is not supported", tree)
        trees = [tree.args[key] for key in ARGUMENTS if key in keys]
        try:
            return BY_TYPE[type(tree)](*map(self.lower, trees))
        except TypeError:
            raise refused(f"{written(tree)} takes another number of arguments", tree) from None

    def _nullif(self, tree: exp.Nullif) -> Expr:
        a, b = self._operands(tree)
        return ops.case([(ops.eq(*self.rules.alike(a, b)), ops.const(None))], a)

    def _truncation(self, tree: exp.TimestampTrunc | exp.DateTrunc) -> Expr:
        name, time = truncation(tree.args["unit"].name), self.lower(tree.this)
        known = (*TRUNCATIONS, *PERIODS, *SHORT)
        if name not in known or time.type.kind not in TIMES:
            raise beyond(
                f"date_trunc takes one of {', '.join(known)} and a date or timestamp, not "
                f"{name} and {time.type}",
                tree,
            )
        if isinstance(tree, exp.DateTrunc):  # trunc, which gives a date
            if name not in OF_DATES:
                raise beyond(f"trunc takes one of {', '.join(OF_DATES)}, not {name}", tree)
            date = self.rules.date(time)
            if name in PERIODS:
                return period_start(name, date)
            return self.rules.date(self.rules.truncated(name, date))
        return self.rules.truncated(name, time)

    def _to_date(self, tree: exp.TsOrDsToDate) -> Expr:
        """Lower ``to_date(time)``; of texts it is computed around joins."""
        time = self.lower(tree.this)
        if tree.args.get("format") or time.type.kind not in TIMES:
            raise beyond(f"{written(tree)} of a {time.type} is not supported", tree)
        return self.rules.date(time)

    def _cast(self, tree: exp.Cast) -> Expr:
        literal = tree.this
        if isinstance(literal, exp.Literal) and literal.is_string:
            return time_literal(str(literal.this), cast_type(tree), self.rules, tree)
        value, to = self.lower(literal), cast_type(tree)
        if to.is_float and value.type.kind in TIMESTAMPS:  # seconds, with their fraction
            count = as_integer(self.rules.instant(value))
            return ops.cast(
                ops.divide(count, ops.const(UNIT_NS["s"] // UNIT_NS[value.type.unit])), to
            )
        quotient = whole_quotient(value) if to.kind is Kind.INT else None
        result = self.rules.cast(value if quotient is None else ops.div(*quotient), to)
        if tree.args.get("safe") and result.op is Op.CAST:
            raise refused(
                "TRY_CAST of a value that may not fit is computed of one table, before or after "
                "the join; write CASE WHEN ... BETWEEN ... THEN CAST(...) END",
                tree,
            )
        return result


def _check_count(count: int, name: str, parts: str, tree: exp.Expr) -> None:
    """Refuse choices among too many: each is tested for NULL together with all before it."""
    if count > _MOST_CHOICES:
        raise refused(
            f"{name} has {count} {parts}, more than {_MOST_CHOICES}; look them up in a table that "
            "is joined before, or nest several",
            tree,
        )


_FORMS: dict[type[exp.Expr], Callable[[Lowering, Any], Expr]] = {
    exp.Column: Lowering._column,
    exp.Literal: Lowering._literal,
    exp.Null: lambda lowering, tree: ops.const(None),
    exp.Boolean: lambda lowering, tree: ops.const(bool(tree.this)),
    exp.HexString: Lowering._hex,
    exp.Placeholder: Lowering._placeholder,
    exp.Paren: lambda lowering, tree: lowering.lower(tree.this),
    exp.Interval: lambda lowering, tree: interval(tree),
    exp.Between: Lowering._between,
    exp.In: Lowering._in,
    exp.Is: Lowering._is,
    exp.Case: Lowering._case,
    exp.If: Lowering._if,
    exp.Coalesce: Lowering._coalesce,
    exp.Least: Lowering._extreme,
    exp.Nullif: Lowering._nullif,
    exp.Greatest: Lowering._extreme,
    exp.Like: Lowering._like,
    exp.Anonymous: Lowering._anonymous,
    exp.Cast: Lowering._cast,
    exp.DateTrunc: Lowering._truncation,
    exp.Dot: Lowering._dot,
    exp.TimestampTrunc: Lowering._truncation,
    exp.TryCast: Lowering._cast,
    exp.TsOrDsToDate: Lowering._to_date,
}
