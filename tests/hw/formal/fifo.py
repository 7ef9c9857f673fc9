"""Proof of the FIFO of a block's records."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Array, Elaboratable, Module, Signal

from tests.hw.formal.inside import Inside, Items
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnySeq, Assert

_DEPTH, _WIDTH = 3, 2


class FifoProof(Elaboratable):
    """A FIFO beside a queue of registers, on any writes and reads."""

    def __init__(self, module: ModuleType) -> None:
        self.fifo = module.SyncFIFOBuffered(width=_WIDTH, depth=_DEPTH)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fifo, inside = self.fifo, Inside.of(self.fifo)
        m.submodules.fifo = inside.fragment
        m.d.comb += [
            fifo.w_data.eq(AnySeq(_WIDTH)),
            fifo.w_en.eq(AnySeq(1)),
            fifo.r_en.eq(AnySeq(1)),
        ]
        words = Array(Signal(_WIDTH, name=f"word_{place}") for place in range(_DEPTH + 1))
        count = Signal(range(_DEPTH + 1))
        takes, gives = fifo.w_en & fifo.w_rdy, fifo.r_en & fifo.r_rdy
        m.d.sync += count.eq(count + takes - gives)
        with m.If(gives):
            m.d.sync += [words[place].eq(words[place + 1]) for place in range(_DEPTH)]
        with m.If(takes):
            m.d.sync += words[count - gives].eq(fifo.w_data)
        m.d.comb += [
            Assert(fifo.r_level == count),
            Assert(fifo.w_rdy | (count >= _DEPTH - 1)),
            Assert(~fifo.r_rdy | (count != 0)),
            Assert(~fifo.r_rdy | (fifo.r_data == words[0])),
        ]
        items = Items(m, inside, _DEPTH)
        for place in range(_DEPTH):
            m.d.comb += Assert((count <= place) | (items[place] == words[place]))
        return m


PROOFS = (
    Proof(
        name="FIFO",
        module="amaranth.lib.fifo",
        build=FifoProof,
        size=f"{_DEPTH} words of {_WIDTH} bits",
        depth=10,
        inductive=True,
        claims=(
            Claim(
                "The FIFO gives each word that it took once, in the order of writing.",
                Mutation(
                    "m.d.sync += consume.eq(_incr(consume, inner_depth))",
                    "m.d.sync += consume.eq(_incr(produce, inner_depth))",
                ),
            ),
            Claim(
                "Its level is the number of words in it, and it takes words until it is full.",
                Mutation("inner_level.eq(inner_level + 1)", "inner_level.eq(inner_level + 2)"),
            ),
        ),
    ),
)
