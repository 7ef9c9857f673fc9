"""Expressions that the generator makes, and their text in Penstock's SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz.types import BOOL, Type

SIDES = ("a", "b")

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "mod": "%",
    "and_bits": "&",
    "or_bits": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "AND",
    "or": "OR",
}
CALLS = {"abs": "abs", "least": "least", "greatest": "greatest", "if": "IF"}


@dataclass(frozen=True)
class E:
    """A node. ``value`` holds what is not an argument.

    ``col``: (side, name); ``lit``: (value, text); ``param``: name; ``cast``: the SQL type and what
    it takes; ``agg``: the aggregate's name; ``key``: the position in GROUP BY; ``window``: see
    :mod:`tests.fuzz.evaluate`.
    """

    op: str
    args: tuple[E, ...]
    type: Type
    value: Any = None

    def walk(self) -> Iterator[E]:
        yield self
        for arg in self.args:
            yield from arg.walk()

    def sides(self) -> frozenset[int]:
        """0 for the left side, 1 for the right one."""
        return frozenset(e.value[0] for e in self.walk() if e.op == "col")

    def map(self, change: Callable[[E], E | None]) -> E:
        """This expression with every node replaced for which ``change`` gives another."""
        new = change(self)
        if new is not None:
            return new
        if not self.args:
            return self
        args = tuple(arg.map(change) for arg in self.args)
        if all(new is old for new, old in zip(args, self.args, strict=True)):
            return self
        return replace(self, args=args)


def col(side: int, name: str, type_: Type) -> E:
    return E("col", (), type_, (side, name))


def lit(value: Any, type_: Type, text: str) -> E:
    return E("lit", (), type_, (value, text))


def integer(value: int) -> E:
    from tests.fuzz.types import INT

    return lit(value, INT, str(value))


TRUE = lit(True, BOOL, "TRUE")
FALSE = lit(False, BOOL, "FALSE")
NULL = lit(None, BOOL, "NULL")


def binary(op: str, left: E, right: E, type_: Type = BOOL) -> E:
    return E(op, (left, right), type_)


def conjunction(terms: list[E]) -> E:
    """The terms joined by AND, TRUE where there are none."""
    if not terms:
        return TRUE
    whole = terms[0]
    for term in terms[1:]:
        whole = binary("and", whole, term)
    return whole


def conjuncts(e: E) -> list[E]:
    if e.op == "and":
        return conjuncts(e.args[0]) + conjuncts(e.args[1])
    if e.op == "not" and e.args[0].op == "or":
        return [term for arg in e.args[0].args for term in conjuncts(E("not", (arg,), BOOL))]
    if e.op == "not" and e.args[0].op == "not":
        return conjuncts(e.args[0].args[0])
    if e.op == "between" and e.value != "not":
        # x BETWEEN a AND b is x >= a AND x <= b, and each of them may be of one side.
        x, low, high = e.args
        return [binary("ge", x, low), binary("le", x, high)]
    return [e]


PRECEDENCE = {
    "neg": 9,
    "not_bits": 9,
    "mul": 8,
    "mod": 8,
    "add": 7,
    "sub": 7,
    "shl": 6,
    "shr": 6,
    "and_bits": 5,
    "xor": 4,
    "or_bits": 3,
    **dict.fromkeys(["eq", "ne", "lt", "le", "gt", "ge"], 2),
    **dict.fromkeys(["between", "in", "isnull", "notnull", "like"], 2),
    "not": 1,
    "and": 0,
    "or": -1,
}
"""Spark's precedence of operators: the higher binds first."""


def bare_operand(e: E, parent: E) -> bool:
    """Whether an operand needs no parentheses."""
    own, other = PRECEDENCE.get(e.op), PRECEDENCE.get(parent.op)
    if own is None or other is None:
        return own is None
    if parent.op in ("not", "neg", "not_bits"):
        return own > other
    return own > other or (own == other > 2 and e is parent.args[0])


def text(e: E, names: tuple[str, str] = SIDES, bare: bool = False) -> str:
    """The SQL of an expression.

    Parameters
    ----------
    names
        Aliases of the sides, "" to leave them out.
    bare
        Without the parentheses that precedence makes superfluous.
    """
    parent = e

    def inner(e: E) -> str:
        """In parentheses unless it is one word or a call."""
        whole = text(e, names, bare)
        if e.op == "key":
            e = e.args[0]
        negative = e.op == "lit" and whole.startswith("-")
        if bare and not negative:
            return whole if bare_operand(e, parent) else f"({whole})"
        compound = e.op in PRECEDENCE or e.op == "case"
        return f"({whole})" if compound or negative else whole

    if e.op == "col":
        alias = names[e.value[0]]
        return f"{alias}.{e.value[1]}" if alias else e.value[1]
    if e.op == "lit":
        return e.value[1]
    if e.op == "param":
        return e.value
    args = [inner(arg) for arg in e.args]
    if e.op in ("and", "or"):
        # A chain of the same operator is written without parentheses.
        args = [
            text(x, names, bare) if x.op == e.op else y for x, y in zip(e.args, args, strict=True)
        ]
    if e.op in INFIX:
        return f" {INFIX[e.op]} ".join(args)
    if e.op in CALLS:
        return f"{CALLS[e.op]}({', '.join(text(arg, names, bare) for arg in e.args)})"
    whole = [text(arg, names, bare) for arg in e.args]
    match e.op:
        case "neg":
            return f"-{args[0]}"
        case "not":
            return f"NOT {args[0]}"
        case "not_bits":
            return f"~{args[0]}"
        case "between":
            word = "NOT BETWEEN" if e.value == "not" else "BETWEEN"
            return f"{args[0]} {word} {args[1]} AND {args[2]}"
        case "in":
            return f"{args[0]} {e.value or ''}{' ' if e.value else ''}IN ({', '.join(whole[1:])})"
        case "isnull":
            return f"{args[0]} IS NULL"
        case "notnull":
            return f"{args[0]} IS NOT NULL"
        case "case":
            pairs = " ".join(
                f"WHEN {c} THEN {x}" for c, x in zip(whole[0:-1:2], whole[1:-1:2], strict=True)
            )
            return f"CASE {pairs} ELSE {whole[-1]} END"
        case "cast":
            return f"CAST({whole[0]} AS {e.value})"
        case "startswith":
            return f"startswith({whole[0]}, {whole[1]})"
        case "like":
            return f"{args[0]} LIKE {whole[1]}"
        case "trunc":
            return f"date_trunc('{e.value}', {whole[0]})"
        case "window":
            return f"window({whole[0]}, {e.value[2]})"
        case "key":
            return whole[0]
        case "window_start":
            return e.value or f"{whole[0]}.start"
        case "window_end":
            return e.value or f"{whole[0]}.end"
        case "agg":
            return f"{e.value}({', '.join(whole) if whole else '*'})"
    raise ValueError(f"no text for {e.op}")
