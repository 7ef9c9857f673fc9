"""Checks whether a built-in predicate serves a program with narrower bounds of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.expr.node import Expr, Op, walk
from penstock.program import GeneralProgram, Program
from penstock.types import Kind, Type


def fits(program: Program, built: Program) -> bool:
    """Whether a build computes a program.

    Arithmetic is exact, so the same operations on wider keys have the same results. A build may
    have keys that say where a column is NULL. A program without NULL in that column leaves such a
    key out, and it then counts as true.

    Parameters
    ----------
    program : Program
    built : Program
        The build's.
    """
    if not (isinstance(program, GeneralProgram) and isinstance(built, GeneralProgram)):
        return False
    number = _numbered([program.predicate, program.value, built.predicate, built.value])
    wanted, has = ({number[e]: e for e in _conjuncts(p.predicate)} for p in (program, built))
    return (
        _same(number, program.value, built.value)
        and wanted.keys() <= has.keys()
        and all(_is_flag(has[shape]) for shape in has.keys() - wanted.keys())
        and _within(program.stream, built.stream)
        and _within(program.window, built.window)
    )


def _numbered(roots: Sequence[Expr | None]) -> dict[Expr, int]:
    """A number for each node, the same for nodes that differ only in the types of operations."""
    shapes: dict[tuple, int] = {}
    number: dict[Expr, int] = {}
    for expr in walk(*(root for root in roots if root is not None)):
        below = tuple(number[argument] for argument in expr.args)
        kind = expr.type.kind if expr.op is Op.KEY else None
        number[expr] = shapes.setdefault((expr.op, expr.attr, kind, below), len(shapes))
    return number


def _same(number: dict[Expr, int], one: Expr | None, other: Expr | None) -> bool:
    if one is None or other is None:
        return one is other
    return number[one] == number[other]


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    if expr.op is Op.AND:
        for argument in expr.args:
            yield from _conjuncts(argument)
    else:
        yield expr


def _is_flag(expr: Expr) -> bool:
    return expr.op is Op.KEY and expr.type.kind is Kind.BOOL


def _within(keys: Sequence[Type], built: Sequence[Type]) -> bool:
    """Whether keys are of the kinds of a build's keys, and within their bounds."""
    return len(keys) == len(built) and all(
        key.within(0, 0) == other.within(0, 0) and other.lo <= key.lo and key.hi <= other.hi
        for key, other in zip(keys, built, strict=True)
    )
