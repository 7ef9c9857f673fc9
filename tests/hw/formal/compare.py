"""Proof of the comparison behind band tests and general predicates."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Elaboratable, Module, Shape, Signal, signed, unsigned

from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnySeq, Assert

_SHAPES = (
    (unsigned(32), unsigned(32)),
    (signed(32), signed(32)),
    (signed(13), unsigned(24)),
    (unsigned(3), signed(17)),
)


class CompareProof(Elaboratable):
    """Comparisons of several shapes beside those of the language."""

    def __init__(self, module: ModuleType) -> None:
        self.at_most, self.equal = module.at_most, module.equal

    def elaborate(self, platform: object) -> Module:
        m = Module()
        clocked = Signal()
        m.d.sync += clocked.eq(1)
        for a_shape, b_shape in _SHAPES:
            a, b, carry = self._any(m, a_shape), self._any(m, b_shape), self._any(m, unsigned(1))
            m.d.comb += Assert(self.at_most(m, a, b) == (a <= b))
            m.d.comb += Assert(self.at_most(m, a, b, carry) == (a + carry <= b))
        for width in (1, 3, 7, 32):
            a, b = self._any(m, unsigned(width)), self._any(m, unsigned(width))
            m.d.comb += Assert(self.equal(m, a, b) == (a == b))
        return m

    def _any(self, m: Module, shape: Shape) -> Signal:
        value = Signal(shape)
        m.d.comb += value.eq(AnySeq(shape.width))
        return value


PROOFS = (
    Proof(
        name="comparison",
        module="penstock.hw.hls.compare",
        build=CompareProof,
        size="3 to 32 bits",
        depth=1,
        inductive=True,
        claims=(
            Claim(
                "at_most is a + carry <= b for operands of any sign.",
                Mutation("Cat(~fits, *less)", "Cat(fits, *less)"),
            ),
            Claim(
                "equal is a == b for unsigned operands.",
                Mutation("~(x ^ y) for", "~(x & ~y) for"),
            ),
        ),
    ),
)
