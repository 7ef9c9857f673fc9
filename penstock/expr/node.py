"""The typed expression DAG.

Nodes are interned: building the same expression twice gives the same object, so common
sub-expressions exist once and a node can be a dictionary key. Nodes are made by
:mod:`penstock.expr.ops`, which checks operands and infers types; rewrites use :func:`node`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ..types import Type

T = TypeVar("T")

#: In place of a column's name: whether the side has a row. In the result of an outer join, a side
#: may have none.
PRESENT = None


class Op(Enum):
    """The operation of a node: on ``Expr.args``, with constants in ``Expr.attr``."""

    # Members are equal by identity only; Enum's own hash is in Python, and called often.
    __hash__ = object.__hash__

    CONST = "const"  # attr: the value (int, bool, float, str, bytes) or None for NULL
    COLUMN = "column"  # attr: (side, name), or (side, PRESENT)
    KEY = "key"  # attr: ("s" | "w", index): a prepared key of a general program
    ADD = "+"
    SUB = "-"
    MUL = "*"
    NEG = "neg"
    ABS = "abs"
    LEAST = "least"
    GREATEST = "greatest"
    MOD = "%"  # sign of the dividend; NULL where the divisor is 0
    DIV = "div"  # of integers, rounded to 0; NULL where the divisor is 0
    FUNCTION = "function"  # of floats; attr: its name in FUNCTIONS
    BIT_AND = "&"
    BIT_OR = "|"
    BIT_XOR = "^"
    BIT_NOT = "~"
    SHL = "<<"
    SHR = ">>"  # arithmetic: rounds down
    LT = "<"
    LE = "<="
    EQ = "="
    PREFIX = "startswith"  # args: text, prefix
    IN = "in"  # attr: the Members, raw values of the type of the one argument
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is null"
    # args: condition, value, condition, value, ..., else; attr: None, or of one condition Spark's
    # error in ANSI mode, in whose place the value is NULL
    CASE = "case"
    CHECKED = "checked"  # args: value, conditions; attr: the error where each is TRUE
    CAST = "cast"  # to the node's type; attr: bits of a wider integer, where it cannot fail
    LOCAL = "local"  # wall clock of an instant; attr: (time zone, whether its floor is meant)
    INSTANT = "instant"  # of a wall clock, near an instant; attr: (zone, whether a day starts)
    RAW = "raw"  # the stored integer of a decimal or time (rewrites only)


class Expr:
    """One node: an operation, its arguments, and the type of its value."""

    __slots__ = ("__weakref__", "args", "attr", "may_fail", "op", "remembered", "sides", "type")

    def __init__(self, op: Op, args: tuple[Expr, ...], attr: Any, dtype: Type) -> None:
        self.op = op
        self.args = args
        self.attr = attr
        self.type = dtype
        if op in (Op.COLUMN, Op.KEY):
            self.sides: frozenset[str] = frozenset({attr[0]})
        else:
            self.sides = frozenset().union(*(arg.sides for arg in args))
        is_cast = op is Op.CAST and attr is None
        #: Whether there is a CAST or CHECKED in it that may fail.
        self.may_fail: bool = is_cast or op is Op.CHECKED or any(arg.may_fail for arg in args)
        #: Results cached by :func:`once_per_node`.
        self.remembered: dict[Any, Any] | None = None

    @property
    def is_const(self) -> bool:
        return self.op is Op.CONST

    @property
    def is_null_const(self) -> bool:
        return self.op is Op.CONST and self.attr is None

    def __repr__(self) -> str:
        return show(self)


_interned: WeakValueDictionary[Any, Expr] = WeakValueDictionary()
#: Held while a node is made. By one thread again, if a collection of garbage in between makes one.
_making = threading.RLock()


def node(op: Op, args: tuple[Expr, ...], dtype: Type, attr: Any = None) -> Expr:
    """The one node with this operation, these arguments, this attribute and this type."""
    # 0.0, -0.0, 0, False and NaN compare equal or unequal in ways that must not merge constants.
    key = (op, tuple(id(a) for a in args), type(attr), repr(attr), dtype)
    interned = _interned.get(key)
    if interned is None:
        with _making:
            interned = _interned.get(key)
            if interned is None:
                interned = _interned[key] = Expr(op, args, attr, dtype)
    return interned


def walk(*roots: Expr) -> Iterator[Expr]:
    """Iterate over the DAG: each node once, after its arguments."""
    seen: set[Expr] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        current, expanded = stack.pop()
        if current in seen:
            continue
        if expanded:
            seen.add(current)
            yield current
        else:
            stack.append((current, True))
            stack.extend((arg, False) for arg in reversed(current.args))


def transform(expr: Expr, rule: Callable[[Expr, tuple[Expr, ...]], Expr]) -> Expr:
    """Rebuild bottom-up: ``rule(node, new_args)`` gives each node's replacement."""
    done: dict[Expr, Expr] = {}
    for current in walk(expr):
        done[current] = rule(current, tuple(done[a] for a in current.args))
    return done[expr]


def once_per_node(rule: Callable[[Expr], T]) -> Callable[[Expr], T]:
    """Cache the results of a pure function of a node, with the node.

    Without it a recursive function takes exponential time where nodes are used more than once.
    """

    @wraps(rule)
    def kept(expr: Expr) -> T:
        if expr.remembered is None:
            expr.remembered = {}
        if rule not in expr.remembered:
            expr.remembered[rule] = rule(expr)
        return expr.remembered[rule]

    return kept


def remembered(rule: Callable[[Expr], T]) -> Callable[[Expr], T]:
    """Cache the results of a function of a node, for as long as the results live."""
    done: dict[Expr, T] = {}

    def kept(expr: Expr) -> T:
        if expr not in done:
            done[expr] = rule(expr)
        return done[expr]

    return kept


def show(expr: Expr, names: Mapping[str, str] | None = None) -> str:
    """Write an expression for a person to read, cut where it is long.

    ``names`` has the sides' names instead of "l" and "r"; "" leaves a name out.
    """
    texts: dict[Expr, str] = {}
    for current in walk(expr):
        text = _text(current, texts, names)
        texts[current] = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    return texts[expr]


def _text(expr: Expr, texts: Mapping[Expr, str], names: Mapping[str, str] | None) -> str:
    """One node as text, from the texts of its arguments."""
    op = expr.op
    if op is Op.CONST:
        return "NULL" if expr.attr is None else repr(expr.attr)
    if op is Op.COLUMN:
        side, column = expr.attr
        alias = (names or {}).get(side, side)
        if column is PRESENT:
            return f"{alias} has a row"
        # Columns of "a join b", a part of a query, are named by expressions with names in full.
        return f"{alias}.{column}" if alias and " join " not in alias else column
    if op is Op.KEY:
        return f"{expr.attr[0]}{expr.attr[1]}"
    plain = [texts[x] for x in expr.args]
    a = [text if x.op in _ATOMIC else f"({text})" for x, text in zip(expr.args, plain, strict=True)]
    if op in _AROUND:
        return _AROUND[op].format(a[0])
    if op is Op.IN:
        return f"{a[0]} in {expr.attr.text()}"
    if op in (Op.RAW, Op.CHECKED):
        return plain[0]
    if op is Op.CAST:
        return f"cast({plain[0]} as {expr.type})"
    if op in (Op.LOCAL, Op.INSTANT):
        return f"{op.value}({plain[0]}, {expr.attr[0]!r})"
    if op is Op.FUNCTION:
        return f"{expr.attr}({', '.join(plain)})"
    if op in _CALLS:
        return f"{op.value}({', '.join(plain)})"
    if op is Op.CASE:
        pairs = zip(plain[:-1:2], plain[1::2], strict=False)
        whens = " ".join(f"when {c} then {v}" for c, v in pairs)
        return f"case {whens} else {plain[-1]} end"
    if op is Op.ADD and _is_negative(expr.args[1]):
        return f"{a[0]} - {-expr.args[1].attr}"
    return f" {op.value} ".join(a)


#: Characters of a part's text, at most: a node used twice is shown twice, so texts may double from
#: node to node.
_MOST_SHOWN = 4000


def _is_negative(expr: Expr) -> bool:
    return expr.is_const and isinstance(expr.attr, int) and expr.attr < 0


_AROUND = {Op.NEG: "-{}", Op.NOT: "not {}", Op.BIT_NOT: "~{}", Op.IS_NULL: "{} is null"}
#: What has no value where the divisor is 0.
DIVISIONS = frozenset({Op.MOD, Op.DIV})
_CALLS = frozenset({Op.ABS, Op.LEAST, Op.GREATEST, Op.PREFIX})
_LEAVES = frozenset({Op.CONST, Op.COLUMN, Op.KEY})
#: What needs no parentheses.
_ATOMIC = _LEAVES | _CALLS | {Op.FUNCTION, Op.CASE, Op.CAST, Op.LOCAL, Op.INSTANT, Op.RAW}
