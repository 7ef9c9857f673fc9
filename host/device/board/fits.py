"""Whether a predicate that is built in serves a program whose keys have narrower bounds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from penstock.expr.node import Expr, Op
from penstock.host.wire.programs import program_from
from penstock.program import GeneralProgram, Program
from penstock.types import Kind, Type


def fits(program: Program, built: Mapping[str, Any]) -> bool:
    """Whether a build computes a program.

    Arithmetic is exact, so the same operations on wider keys have the same results. A build also
    looks at keys that say where a column is NULL; a program whose columns have no NULL leaves them
    out, and they are true then.

    Parameters
    ----------
    program : Program
    built : mapping
        What :func:`penstock.host.wire.programs.program_header` gave for the build's program.
    """
    other = program_from(dict(built))
    if not (isinstance(program, GeneralProgram) and isinstance(other, GeneralProgram)):
        return False
    if _shape(program.value) != _shape(other.value):
        return False
    wanted, has = _conjuncts(program.predicate), _conjuncts(other.predicate)
    return (
        wanted <= has
        and all(_is_flag(shape) for shape in has - wanted)
        and _within(program.stream, other.stream)
        and _within(program.window, other.window)
    )


def _shape(expr: Expr | None) -> Hashable:
    """An expression without the types of its operations."""
    if expr is None:
        return None
    if expr.op is Op.KEY:
        return expr.op, expr.attr, expr.type.kind
    return expr.op, expr.attr, tuple(_shape(argument) for argument in expr.args)


def _conjuncts(expr: Expr) -> frozenset[Hashable]:
    if expr.op is Op.AND:
        return frozenset().union(*(_conjuncts(argument) for argument in expr.args))
    return frozenset({_shape(expr)})


def _is_flag(shape: Any) -> bool:
    return shape[0] is Op.KEY and shape[2] is Kind.BOOL


def _within(keys: Sequence[Type], built: Sequence[Type]) -> bool:
    """Whether the bounds of keys lie in those of a build, the kinds being the same."""
    return len(keys) == len(built) and all(
        key.within(0, 0) == other.within(0, 0) and other.lo <= key.lo and key.hi <= other.hi
        for key, other in zip(keys, built, strict=True)
    )
