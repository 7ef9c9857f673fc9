"""The predicate that the paper measures with."""

from __future__ import annotations

from penstock.expr import build
from penstock.program import GeneralProgram
from penstock.types import int_of


def manhattan(key_bits: int, *, limit: int) -> GeneralProgram:
    """``abs(s0 - w0) + abs(s1 - w1) < limit``, of two signed keys per side."""
    number = int_of(key_bits, nullable=False)
    parts = [
        build.absolute(build.sub(build.key("s", i, number), build.key("w", i, number)))
        for i in range(2)
    ]
    return GeneralProgram(
        (number, number), (number, number), build.lt(build.add(*parts), build.const(limit))
    )
