"""General form: a predicate that is no band keeps its expression DAG, over prepared keys.

A sub-expression of one side is computed once per tuple (hoisted to a prepared key), not once per
pair. Keys are never NULL: zero stands in, and a boolean key guards every comparison that could
have seen NULL. Text becomes codes whose order is the order of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..errors import QueryError
from ..expr import ops
from ..expr.node import Expr, Op, node, remembered, show, transform
from ..program import GeneralProgram
from ..types import BOOL, Kind, Type, integer
from .band import BandTest, NotBandError, band_form
from .logic import guarded, when_true, without_null, zero_filled
from .simplify import simplify

#: Width of the codes that stand for text.
CODE_BITS = 32
_CODE = integer(0, (1 << CODE_BITS) - 1, nullable=False)


@dataclass(frozen=True)
class KeySource:
    """Source of a prepared key: an expression, and its use.

    Parameters
    ----------
    kind : str
        "value" (zero where NULL), "flag" (whether a condition is TRUE), or for text "code" (of the
        window tuple), "lo", "hi" (of the stream tuple).
    expr : Expr
        One-sided expression, for "value" and "flag"; the test's key otherwise.
    test : BandTest or None
        The text test, for codes.
    """

    kind: str
    expr: Expr
    test: BandTest | None = None

    @property
    def type(self) -> Type:
        """Type of the key, before its values are seen."""
        if self.kind == "flag":
            return BOOL.as_nullable(False)
        return _plain_type(self.expr.type) if self.kind == "value" else _CODE


@dataclass(frozen=True)
class GeneralForm:
    """A predicate over prepared keys, the sources of the keys, and the value to fold."""

    window: str
    stream_keys: tuple[KeySource, ...]
    window_keys: tuple[KeySource, ...]
    predicate: Expr
    value: Expr | None = None

    def program(
        self,
        stream: Sequence[Type],
        window: Sequence[Type],
        constants: Mapping[tuple[str, int], bool],
    ) -> GeneralProgram:
        """The device program for keys as they really are.

        Parameters
        ----------
        stream, window : sequence of Type
            Types of the keys, with bounds that may be narrower than declared.
        constants : mapping of ("s" | "w", index) to bool
            Flags that have one value in all rows, such as "not NULL" of a column without NULL.
        """
        types = tuple(stream), tuple(window)
        return _program(self.predicate, self.value, *types, tuple(constants.items()))


@lru_cache(maxsize=64)
def _program(
    predicate: Expr,
    value: Expr | None,
    stream: tuple[Type, ...],
    window: tuple[Type, ...],
    constants: tuple[tuple[tuple[str, int], bool], ...],
) -> GeneralProgram:
    types, known = {"s": stream, "w": window}, dict(constants)

    def retype(expr: Expr, args: tuple[Expr, ...]) -> Expr:
        if expr.op is Op.KEY:
            if expr.attr in known:
                return ops.const(known[expr.attr])
            side, index = expr.attr
            return ops.key(side, index, types[side][index])
        return ops.two_valued(expr, args)

    def retyped(expr: Expr) -> Expr:
        return simplify(transform(expr, retype))

    return GeneralProgram(
        tuple(t.as_nullable(False) for t in stream),
        tuple(t.as_nullable(False) for t in window),
        retyped(predicate),
        None if value is None else retyped(value),
    )


class NoFormError(QueryError):
    """A device cannot compute a part of the predicate.

    Parameters
    ----------
    reason : str
        The reason, with ``{}`` for the part.
    part : Expr
    """

    def __init__(self, reason: str, part: Expr) -> None:
        self._reason, self._part = reason, part
        super().__init__(reason.format(f"`{part!r}`"))

    def named(self, names: Mapping[str, str]) -> QueryError:
        """The error with the sides called by these names."""
        return QueryError(self._reason.format(f"`{show(self._part, names)}`"))


def general_form(formula: Expr, window: str, value: Expr | None = None) -> GeneralForm:
    """General form of a ``when_true`` formula with the side ``window`` flowing past the other.

    ``value`` is a number to fold over the matches; where it is NULL the formula must be false.

    Raises
    ------
    QueryError
        The predicate casts a value of both sides in a way that may fail or round, or compares text
        in a way that codes cannot express.
    """
    hoister = _Hoister(window)
    values = hoister.values(transform(formula, _with_true_conditions))
    predicate = _zero_filled(hoister.flags(guarded(values)))
    if value is not None:
        values = hoister.values(transform(value, _with_true_conditions))
        value = _zero_filled(hoister.flags(without_null(values)))
    for side, keys in hoister.keys.items():
        if not keys:  # devices take at least one key of each side
            hoister.key(side, KeySource("flag", ops.TRUE))
    stream_keys, window_keys = (tuple(hoister.keys[side]) for side in "sw")
    return GeneralForm(window, stream_keys, window_keys, predicate, value)


def _with_true_conditions(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    """Rewrite the conditions of CASE without NOT, so that their one-sided parts can be flags."""
    if expr.op is Op.CASE:
        conditions = map(when_true, args[:-1:2])
        pairs = zip(conditions, args[1::2], strict=True)
        args = (*(x for pair in pairs for x in pair), args[-1])
    return ops.remake(expr, args)


class _Hoister:
    """Replaces one-sided sub-expressions by keys, each distinct one by one key."""

    def __init__(self, window: str) -> None:
        self.window = window
        #: Keys of the stream and of the window tuple, with their numbers.
        self.keys: dict[str, dict[KeySource, int]] = {"s": {}, "w": {}}
        self.sources: dict[Expr, Expr] = {}
        # A node may be used in many places.
        self.values = remembered(self._values)
        self.flags = remembered(self._flags)

    def key(self, side: str, source: KeySource) -> Expr:
        numbers = self.keys[side]
        key = node(Op.KEY, (), source.type, (side, numbers.setdefault(source, len(numbers))))
        # A flag is FALSE where its condition is NULL, and so must be what stands for it.
        whole = source.expr
        if source.kind == "flag" and whole.type.nullable:
            whole = ops.case([(whole, ops.TRUE)], ops.FALSE)
        self.sources[key] = whole
        return key

    def side_of(self, expr: Expr) -> str:
        return "w" if expr.sides == {self.window} else "s"

    def _values(self, expr: Expr) -> Expr:
        """Hoist one-sided values and conditions; text comparisons become comparisons of codes."""
        if expr.is_const:
            return ops.const(expr.attr) if expr.type.is_integral else expr
        if len(expr.sides) == 1:
            if expr.type.kind is Kind.BOOL:
                return self.flag(expr)
            return self.key(self.side_of(expr), KeySource("value", expr))
        if expr.op in (Op.AND, Op.OR):
            return self.junction(expr)
        inner = expr.args[0] if expr.op is Op.NOT else expr
        if inner.op in (Op.LT, Op.LE, Op.EQ, Op.PREFIX) and inner.args[0].type.is_text:
            return self.text(expr)
        if expr.op is Op.RAW:
            return self.values(expr.args[0])
        if expr.op is Op.CAST:
            return self.cast(expr)
        if expr.op in (Op.LOCAL, Op.INSTANT):
            raise NoFormError(
                f"{{}} is read in the time zone {expr.attr[0]} and computed from both sides; "
                "devices know no time zones: compute it from the columns of one side",
                expr,
            )
        rebuilt = ops.remake(expr, [self.values(a) for a in expr.args])
        return node(rebuilt.op, rebuilt.args, _plain_type(rebuilt.type), rebuilt.attr)

    def cast(self, expr: Expr) -> Expr:
        """Keep a CAST of a value of both sides if it can neither round nor overflow."""
        source, target = expr.args[0].type, expr.type
        if target.is_float and (source.is_float or source.kind is Kind.INT):
            return ops.remake(expr, [self.values(expr.args[0])])
        if ops.keeps_raw(source, target):
            return self.values(expr.args[0])
        if source.kind is Kind.BOOL:
            value = self.values(expr.args[0])
            return ops.case([(value, ops.const(1)), (ops.not_(value), ops.const(0))])
        raise NoFormError(
            "{} casts a value computed from both sides in a way that may round or overflow; cast "
            "the columns of each side instead",
            expr,
        )

    def flag(self, condition: Expr) -> Expr:
        return self.key(self.side_of(condition), KeySource("flag", condition))

    def junction(self, expr: Expr) -> Expr:
        join = ops.and_ if expr.op is Op.AND else ops.or_
        by_side: dict[frozenset[str], list[Expr]] = {}
        for arg in expr.args:
            by_side.setdefault(arg.sides if len(arg.sides) == 1 else frozenset(), []).append(arg)
        parts = []
        for sides, group in by_side.items():
            parts += [self.flag(join(*group))] if sides else [self.values(a) for a in group]
        return join(*parts)

    def text(self, atom: Expr) -> Expr:
        """Comparison of text as comparisons of codes.

        Text that is computed from both sides, and a prefix taken from the side that holds the
        window, have no codes: their keys are the text itself.
        """
        try:
            form = band_form(atom, self.window)
        except NotBandError:
            return ops.remake(atom, [self.values(a) for a in atom.args])
        tests = []
        for test in form.tests:
            code = self.key("w", KeySource("code", test.key, test))
            lo = self.key("s", KeySource("lo", test.key, test))
            hi = self.key("s", KeySource("hi", test.key, test))
            tests.append(ops.and_(ops.order(Op.LE, lo, code), ops.order(Op.LE, code, hi)))
        return ops.and_(*tests) if form.table == 1 << ((1 << len(tests)) - 1) else ops.or_(*tests)

    def _flags(self, expr: Expr) -> Expr:
        """Hoist parts that are one-sided after guarding: tests for NULL and their combinations."""
        if expr.is_const or expr.op is Op.KEY:
            return expr
        if len(expr.sides) == 1 and expr.type.kind is Kind.BOOL:
            (side,) = expr.sides
            original = transform(
                expr, lambda e, a: self.sources[e] if e.op is Op.KEY else ops.remake(e, a)
            )
            return self.key(side, KeySource("flag", original))
        if expr.op in (Op.AND, Op.OR):
            return self._grouped_flags(expr)
        return ops.remake(expr, [self.flags(a) for a in expr.args])

    def _grouped_flags(self, expr: Expr) -> Expr:
        join = ops.and_ if expr.op is Op.AND else ops.or_
        nulls: dict[frozenset[str], list[Expr]] = {}
        parts = []
        for arg in expr.args:
            if len(arg.sides) == 1 and arg.op is not Op.KEY and arg.type.kind is Kind.BOOL:
                nulls.setdefault(arg.sides, []).append(arg)
            else:
                parts.append(self.flags(arg))
        parts += [self.flags(join(*group)) for group in nulls.values()]
        return join(*parts)


def _plain_type(dtype: Type) -> Type:
    """The type of a key: integers lose scale and unit, which the comparison was aligned for."""
    if dtype.is_integral:
        return integer(dtype.lo, dtype.hi, nullable=dtype.nullable)
    return dtype


def _zero_filled(expr: Expr) -> Expr:
    """Every key with the type it has once zero stands for NULL."""

    def rule(current: Expr, args: tuple[Expr, ...]) -> Expr:
        if current.op is Op.KEY:
            return node(Op.KEY, (), zero_filled(current.type), current.attr)
        return ops.two_valued(current, args)

    return transform(expr, rule)
