"""SQL expressions to typed expression nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from penstock.errors import QueryError, SchemaError
from penstock.expr import build
from penstock.expr.build import ExprTypeError
from penstock.expr.node import Expr
from penstock.query.constants import cast_type, interval, number, param
from penstock.query.dialect import place
from penstock.query.scope import Scope
from penstock.query.session import TRUNCATIONS, Session
from penstock.query.times import time_literal
from penstock.query.tumbling import Tumbling, is_window, read_window, window_field
from penstock.rewrite.fold import fold
from penstock.types import (
    TIMES,
    UNIT_NS,
    Kind,
)

_BINARY_OPS: dict[type[exp.Expr], Callable[[Expr, Expr], Expr]] = {
    exp.Mul: build.mul,
    exp.Mod: build.mod,
    exp.BitwiseAnd: build.bit_and,
    exp.BitwiseOr: build.bit_or,
    exp.BitwiseXor: build.bit_xor,
    exp.BitwiseLeftShift: build.shl,
    exp.BitwiseRightShift: build.shr,
    exp.EQ: build.eq,
    exp.NEQ: build.ne,
    exp.LT: build.lt,
    exp.LTE: build.le,
    exp.GT: lambda a, b: build.lt(b, a),
    exp.GTE: lambda a, b: build.le(b, a),
    exp.StartsWith: build.prefix,
}
_JUNCTIONS: dict[type[exp.Expr], Callable[..., Expr]] = {exp.And: build.and_, exp.Or: build.or_}
_COMPARISONS = frozenset({exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE})
_UNARY_OPS: dict[type[exp.Expr], Callable[[Expr], Expr]] = {
    exp.Neg: build.neg,
    exp.Abs: build.absolute,
    exp.BitwiseNot: build.bit_not,
    exp.Not: build.not_,
}


#: Branches of a CASE, and values that LEAST, GREATEST or COALESCE choose among, at most: each is
#: tested for NULL together with all before it.
MOST_CHOICES = 250


class Lowering:
    """Lowers the expressions of one query level.

    Parameters
    ----------
    scope : Scope
        Where columns are looked up.
    params : mapping
        Values of names that are not columns, such as the ``diff`` of paper 1's queries.
    session : Session
        Says what times mean where they meet.
    """

    def __init__(self, scope: Scope, params: Mapping[str, Any], session: Session) -> None:
        self.scope = scope
        self.params = params
        # By the id of a tree, which is kept: one that is made on the way, such as the interval in a
        # window's size, would leave its id to the next.
        self._lowered: dict[int, tuple[exp.Expr, Expr]] = {}
        self.session = session

    def lower(self, tree: exp.Expr) -> Expr:
        """Typed expression of a SQL expression.

        Raises
        ------
        QueryError
            Unknown column or construct, or operands that do not fit; with the place in the text.
        """
        if id(tree) not in self._lowered:
            try:
                self._lowered[id(tree)] = tree, self._lower(tree)
            except ExprTypeError as error:
                raise QueryError(f"{error} ({place(tree)})") from None
        return self._lowered[id(tree)][1]

    def condition(self, tree: exp.Expr) -> Expr:
        """A lowered expression that must be a condition."""
        result = self.lower(tree)
        if result.type.kind not in (Kind.BOOL, Kind.NULL):
            raise QueryError(f"a condition is needed, not {result.type} ({place(tree)})")
        return build.and_(result)

    def _lower(self, tree: exp.Expr) -> Expr:
        kind = type(tree)
        if kind in _JUNCTIONS:
            return _JUNCTIONS[kind](*map(self.lower, self._members(tree)))
        if kind in _BINARY_OPS:
            a, b = self.lower(tree.this), self.lower(tree.expression)
            a, b = self._in_units(a, b)
            if kind in _COMPARISONS:
                a, b = self.session.alike(a, b)
            return _BINARY_OPS[kind](a, b)
        if kind in (exp.Add, exp.Sub):
            a, b = self._in_units(self.lower(tree.this), self.lower(tree.expression))
            return self.session.add(a, b) if kind is exp.Add else self.session.sub(a, b)
        if kind in _UNARY_OPS:
            return _UNARY_OPS[kind](self.lower(tree.this))
        rule = _RULES.get(kind)
        if rule is None:
            what = kind.__name__.upper()
            shown = f"function {what}" if isinstance(tree, exp.Func) else what
            raise QueryError(f"{shown} is not supported ({place(tree)})")
        return rule(self, tree)

    def _members(self, tree: exp.Expr) -> list[exp.Expr]:
        """What AND or OR joins: a chain of a thousand is a thousand levels deep in the tree."""
        members = []
        current = tree
        while type(current) is type(tree):
            members.append(current.expression)
            current = current.this
        return [current, *reversed(members)]

    def _in_units(self, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """Turn an INTERVAL beside integers of a declared unit into a number of that unit."""
        for x, y, swap in ((a, b, False), (b, a, True)):
            if x.type.kind is Kind.DURATION and x.is_const and y.type.kind is Kind.INT:
                unit = self.scope.unit_of(y)
                if unit is None:
                    continue
                count, rest = divmod(x.attr * UNIT_NS[x.type.unit], UNIT_NS[unit])
                if rest:
                    raise ExprTypeError(f"the INTERVAL is not a whole number of {unit}")
                return (y, build.const(count)) if swap else (build.const(count), y)
        return a, b

    # -- leaves -----------------------------------------------------------------------------------

    def column(self, tree: exp.Column) -> Expr:
        """A column as it is, of any type, or a parameter."""
        if isinstance(tree.this, exp.Star):
            raise QueryError(f"* is not a value ({place(tree)})")
        try:
            found = self.scope.find(tree.table or None, tree.name)
        except QueryError as error:
            raise QueryError(f"{error} ({place(tree)})") from None
        if found is not None:
            return found
        if not tree.table and tree.name in self.params:
            return param(tree.name, self.params[tree.name])
        raise QueryError(f"{self.scope.unknown(tree.table or None, tree.name)} ({place(tree)})")

    def _column(self, tree: exp.Column) -> Expr:
        found = self.column(tree)
        if found.type.kind is Kind.OTHER:
            raise SchemaError(
                f"column {tree.name} has a type that cannot be computed with; leave it out of the "
                f"predicate and of computed columns ({place(tree)})"
            )
        return found

    def _literal(self, tree: exp.Literal) -> Expr:
        text = str(tree.this)
        if tree.is_string:
            return build.const(text)
        return number(text)

    def _null(self, tree: exp.Null) -> Expr:
        return build.const(None)

    def _boolean(self, tree: exp.Boolean) -> Expr:
        return build.const(bool(tree.this))

    def _hex(self, tree: exp.HexString) -> Expr:
        try:
            return build.const(bytes.fromhex(str(tree.this)))
        except ValueError:
            raise QueryError(f"a hexadecimal text has two digits a byte ({place(tree)})") from None

    def _paren(self, tree: exp.Paren) -> Expr:
        return self.lower(tree.this)

    def _interval(self, tree: exp.Interval) -> Expr:
        return interval(tree)

    # -- forms ------------------------------------------------------------------------------------

    def _between(self, tree: exp.Between) -> Expr:
        value, low, high = (self.lower(tree.args[k]) for k in ("this", "low", "high"))
        return build.and_(
            build.le(*self.session.alike(*self._in_units(low, value))),
            build.le(*self.session.alike(*self._in_units(value, high))),
        )

    def _in(self, tree: exp.In) -> Expr:
        if tree.args.get("query") or tree.args.get("unnest"):
            raise QueryError(f"IN takes constants, not a subquery ({place(tree)})")
        value = self.lower(tree.this)
        options = [self.lower(e) for e in tree.expressions]
        for option, source in zip(options, tree.expressions, strict=True):
            if option.sides:
                raise QueryError(f"IN takes constants, not columns ({place(source)})")
        value, *options = self.session.alike(value, *options)
        return build.is_in(value, [o if o.is_const else fold(o) for o in options])

    def _is(self, tree: exp.Is) -> Expr:
        if not isinstance(tree.expression, exp.Null):
            raise QueryError(f"IS takes NULL or NOT NULL ({place(tree)})")
        return build.is_null(self.lower(tree.this))

    def _case(self, tree: exp.Case) -> Expr:
        _check_count(len(tree.args["ifs"]), "CASE", "branches", tree)
        operand = None if tree.this is None else self.lower(tree.this)
        pairs = []
        for branch in tree.args["ifs"]:
            test = self.lower(branch.this)
            if operand is not None:
                test = build.eq(*self.session.alike(operand, test))
            pairs.append((test, self.lower(branch.args["true"])))
        default = tree.args.get("default")
        return self._choice(pairs, None if default is None else self.lower(default))

    def _choice(self, pairs: Sequence[tuple[Expr, Expr]], otherwise: Expr | None) -> Expr:
        """CASE, its values as one kind of time."""
        last = build.const(None) if otherwise is None else otherwise
        *values, last = self.session.alike(*(value for _, value in pairs), last)
        return build.case(list(zip((c for c, _ in pairs), values, strict=True)), last)

    def _if(self, tree: exp.If) -> Expr:
        false = tree.args.get("false")
        pair = (self.lower(tree.this), self.lower(tree.args["true"]))
        return self._choice([pair], None if false is None else self.lower(false))

    def _coalesce(self, tree: exp.Coalesce) -> Expr:
        _check_count(1 + len(tree.expressions), "COALESCE", "values", tree)
        *values, last = [self.lower(a) for a in (tree.this, *tree.expressions)]
        return self._choice([(build.not_(build.is_null(v)), v) for v in values], last)

    def _extreme(self, tree: exp.Least | exp.Greatest) -> Expr:
        _check_count(1 + len(tree.expressions), type(tree).__name__.upper(), "values", tree)
        args = self.session.alike(*(self.lower(a) for a in (tree.this, *tree.expressions)))
        return (build.least if isinstance(tree, exp.Least) else build.greatest)(*args)

    def _like(self, tree: exp.Like) -> Expr:
        pattern = tree.expression
        text = pattern.this if isinstance(pattern, exp.Literal) and pattern.is_string else None
        if text is None or "%" in text[:-1] or "_" in text or "\\" in text:
            raise QueryError(f"LIKE takes a constant prefix such as 'abc%' ({place(tree)})")
        value = self.lower(tree.this)
        if text.endswith("%"):
            return build.prefix(value, build.const(text[:-1]))
        return build.eq(value, build.const(text))

    def window(self, tree: exp.Anonymous) -> Tumbling:
        """The tumbling window of a call of ``window``."""
        return read_window(
            tree, self._window_argument, lambda span, time: self._in_units(span, time)[0]
        )

    def _window_argument(self, tree: exp.Expr) -> Expr:
        found = self.lower(tree)
        return self.session.instant(found) if found.type.kind is Kind.DATE else found

    def _dot(self, tree: exp.Dot) -> Expr:
        """A field of ``window(...)``."""
        if not is_window(tree.this):
            raise QueryError(f"fields of structs are not supported ({place(tree)})")
        return window_field(self.window(tree.this), tree.expression.name, tree)

    def _anonymous(self, tree: exp.Anonymous) -> Expr:
        if is_window(tree):
            raise QueryError(
                f"a window is not one value; take window.start or window.end ({place(tree)})"
            )
        hint = ""
        if tree.name.lower() in ("time_bucket", "tumble", "tumble_start", "tumble_end"):
            hint = "; write window(t, '10 seconds') in GROUP BY, window.start in SELECT"
        raise QueryError(f"function {tree.name} is not supported{hint} ({place(tree)})")

    def _truncation(self, tree: exp.TimestampTrunc | exp.DateTrunc) -> Expr:
        name, time = tree.args["unit"].name, self.lower(tree.this)
        if name.upper() not in TRUNCATIONS or time.type.kind not in TIMES:
            raise QueryError(
                f"date_trunc takes one of {', '.join(TRUNCATIONS)} and a date or timestamp, not "
                f"{name} and {time.type} ({place(tree)})"
            )
        return self.session.truncated(name.upper(), time)

    def _cast(self, tree: exp.Cast) -> Expr:
        literal = tree.this
        if isinstance(literal, exp.Literal) and literal.is_string:
            return time_literal(str(literal.this), cast_type(tree), self.session, tree)
        return self.session.cast(self.lower(literal), cast_type(tree))


def _check_count(count: int, what: str, parts: str, tree: exp.Expr) -> None:
    """Refuse choices among so many that the tests for NULL of each would not end."""
    if count > MOST_CHOICES:
        raise QueryError(
            f"{what} has {count} {parts}, more than {MOST_CHOICES}; look them up in a table that "
            f"is joined before, or nest several ({place(tree)})"
        )


_RULES: dict[type[exp.Expr], Callable[[Lowering, Any], Expr]] = {
    exp.Column: Lowering._column,
    exp.Literal: Lowering._literal,
    exp.Null: Lowering._null,
    exp.Boolean: Lowering._boolean,
    exp.HexString: Lowering._hex,
    exp.Paren: Lowering._paren,
    exp.Interval: Lowering._interval,
    exp.Between: Lowering._between,
    exp.In: Lowering._in,
    exp.Is: Lowering._is,
    exp.Case: Lowering._case,
    exp.If: Lowering._if,
    exp.Coalesce: Lowering._coalesce,
    exp.Least: Lowering._extreme,
    exp.Greatest: Lowering._extreme,
    exp.Like: Lowering._like,
    exp.Anonymous: Lowering._anonymous,
    exp.Cast: Lowering._cast,
    exp.DateTrunc: Lowering._truncation,
    exp.Dot: Lowering._dot,
    exp.TimestampTrunc: Lowering._truncation,
    exp.TryCast: Lowering._cast,
}
