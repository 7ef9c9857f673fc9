"""Predicates for a unit that has them built in."""

from __future__ import annotations

from penstock.expr import ops
from penstock.program import BandProgram, GeneralProgram
from penstock.types import int_of, integer


def manhattan(key_bits: int, *, limit: int) -> GeneralProgram:
    """``abs(s0 - w0) + abs(s1 - w1) < limit``, of two signed keys per side: the paper's own."""
    number = int_of(key_bits, nullable=False)
    parts = [
        ops.absolute(ops.sub(ops.key("s", i, number), ops.key("w", i, number))) for i in range(2)
    ]
    return GeneralProgram(
        (number, number), (number, number), ops.lt(ops.add(*parts), ops.const(limit))
    )


def general_form(program: BandProgram) -> GeneralProgram:
    """The same predicate over the same codes, with its truth table built in.

    Stream keys are the bounds ``lo_0, hi_0, lo_1, ...``, as the columns of a task are. A payload
    is a window key that nothing reads.
    """
    code = integer(0, (1 << program.key_bits) - 1, nullable=False)
    tests = [
        ops.and_(
            ops.le(ops.key("s", 2 * d, code), ops.key("w", d, code)),
            ops.le(ops.key("w", d, code), ops.key("s", 2 * d + 1, code)),
        )
        for d in range(program.tests)
    ]
    cubes = [
        ops.and_(*(test for d, test in enumerate(tests) if cube >> d & 1)) for cube in program.cubes
    ]
    payload = () if program.payload is None else (program.payload,)
    return GeneralProgram(
        (code,) * (2 * program.tests), (code,) * program.tests + payload, ops.or_(*cubes)
    )
