"""Proof of the stage between streams."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Elaboratable, Module, Signal

from tests.hw.formal.inside import Inside
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import Assert
from tests.hw.formal.streams import drain, feed, moves

_WIDTH = 2


class SkidProof(Elaboratable):
    """A stage beside a queue of two."""

    def __init__(self, module: ModuleType) -> None:
        self.skid = module.Skid(_WIDTH)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        skid, inside = self.skid, Inside.of(self.skid)
        m.submodules.skid = inside.fragment
        feed(m, skid.i)
        drain(m, skid.o)
        first, second, count = Signal(_WIDTH), Signal(_WIDTH), Signal(range(3))
        takes, gives = moves(skid.i), moves(skid.o)
        m.d.sync += count.eq(count + takes - gives)
        with m.If(gives):
            m.d.sync += first.eq(second)
        with m.If(takes):
            with m.If(count - gives == 0):
                m.d.sync += first.eq(skid.i.payload)
            with m.Else():
                m.d.sync += second.eq(skid.i.payload)
        m.d.comb += [
            Assert(count <= 2),
            # READY and VALID are what is in it, so neither depends on the other side's cycle.
            Assert(skid.i.ready == (count < 2)),
            Assert(skid.o.valid == (count != 0)),
            Assert(~skid.o.valid | (skid.o.payload == first)),
            Assert((count != 2) | (inside["spare"] == second)),
        ]
        return m


PROOFS = (
    Proof(
        name="skid stage",
        module="penstock.hw.kernel.skid",
        build=SkidProof,
        size=f"items of {_WIDTH} bits",
        depth=6,
        inductive=True,
        claims=(
            Claim(
                "It gives each item once, in order, and holds it until it is taken.",
                Mutation("m.d.sync += item.eq(spare)", "m.d.sync += item.eq(self.i.payload)"),
            ),
            Claim(
                "It takes an item unless it holds two, whatever its output does in that cycle.",
                Mutation("self.i.ready.eq(~waits)", "self.i.ready.eq(~waits & self.o.ready)"),
            ),
        ),
    ),
)
