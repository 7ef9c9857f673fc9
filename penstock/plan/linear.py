"""Additive form of an exact comparison: ``sum of coefficient * term + constant <= 0``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..expr import ops
from ..expr.node import Expr, Op, node, once_per_node
from ..types import Kind, integer

#: Factors of a product that are looked at.
_MAX_FACTORS = 16


@dataclass(frozen=True)
class Linear:
    """``sum(coefficient * term) + constant`` over raw integers; terms are not additive."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def scaled(self, factor: int) -> Linear:
        return Linear(tuple((t, c * factor) for t, c in self.terms), self.constant * factor)

    def plus(self, other: Linear) -> Linear:
        total = dict(self.terms)
        for term, coefficient in other.terms:
            total[term] = total.get(term, 0) + coefficient
        return Linear(tuple(total.items()), self.constant + other.constant)

    def without(self, term: Expr) -> Linear:
        return Linear(tuple((t, c) for t, c in self.terms if t is not term), self.constant)


@once_per_node
def linear(expr: Expr) -> Linear:
    """Split an integral expression into its additive terms."""
    op, args = expr.op, expr.args
    if expr.is_const and expr.attr is not None:
        return Linear((), int(expr.attr))
    if op is Op.ADD:
        return linear(args[0]).plus(linear(args[1]))
    if op is Op.SUB:
        return linear(args[0]).plus(linear(args[1]).scaled(-1))
    if op is Op.NEG:
        return linear(args[0]).scaled(-1)
    if op is Op.MUL:
        for factor, other in (args, args[::-1]):
            if factor.is_const and factor.attr is not None:
                return linear(other).scaled(int(factor.attr))
    if op is Op.RAW:
        return linear(args[0])
    if op is Op.CAST and ops.keeps_raw(args[0].type, expr.type):
        return linear(args[0])
    return Linear(((expr, 1),), 0)


def sums_at_most_zero(atom: Expr) -> list[Linear]:
    """Sums that are all at most 0 exactly where a comparison of integers of any kind is TRUE."""
    a, b = atom.args
    difference = linear(a).plus(linear(b).scaled(-1))
    if atom.op is Op.LT:
        difference = Linear(difference.terms, difference.constant + 1)
    return [difference, difference.scaled(-1)] if atom.op is Op.EQ else [difference]


def choices(term: Expr, factor: int) -> tuple[bool, tuple[Expr, ...]]:
    """The values that an ABS, GREATEST or LEAST chooses from; none for other terms.

    Also returns whether ``factor * term`` is at most a bound where ``factor`` times *each* value
    is, instead of one of them.
    """
    if term.op is Op.ABS:
        return factor > 0, (term.args[0], ops.neg(term.args[0]))
    is_choice = term.op in (Op.GREATEST, Op.LEAST)
    return (factor > 0) == (term.op is Op.GREATEST), term.args if is_choice else ()


def factors(product: Expr) -> tuple[list[Any], list[Expr]] | None:
    """The constants of a product, and its other factors; None if there are too many."""
    constants: list[Any] = []
    values: list[Expr] = []
    stack = [product]
    while stack:
        if len(stack) + len(values) > _MAX_FACTORS:
            return None
        current = stack.pop()
        if current.op is Op.MUL:
            stack += reversed(current.args)
        elif current.is_const and current.attr is not None:
            constants.append(current.attr)
        else:
            values.append(current)
    return constants, values


def total(form: Linear) -> Expr:
    """The linear form as one expression of plain integers."""
    result: Expr | None = None
    for term, coefficient in form.terms:
        part = as_integer(term)
        if coefficient != 1:
            part = ops.neg(part) if coefficient == -1 else ops.mul(part, ops.const(coefficient))
        result = part if result is None else ops.add(result, part)
    if result is None:
        return ops.const(form.constant)
    return ops.add(result, ops.const(form.constant)) if form.constant else result


def as_integer(expr: Expr) -> Expr:
    """The stored integer of a decimal or time, as a plain integer."""
    if expr.type.kind is Kind.INT:
        return expr
    dtype = integer(expr.type.lo, expr.type.hi, nullable=expr.type.nullable)
    if expr.is_const:
        return ops.const(expr.attr, dtype)
    return node(Op.RAW, (expr,), dtype)
