"""Proof of the window join's output: each result of a group leaves once, and none is lost."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import data

from ..window.config import IN_FLIGHT, WindowConfig
from ..window.layout import Side, record_layout
from .proof import Claim, Mutation, Proof
from .properties import AnyConst, AnySeq, Assert, Assume

_CONFIG = WindowConfig(
    depth=4, banks=2, key_bits=1, payload_a_bits=1, payload_b_bits=1, records=IN_FLIGHT
)


class ExpanderProof(Elaboratable):
    """An expander behind a match unit that reads a row only while it may; one group is watched."""

    def __init__(self, module: ModuleType) -> None:
        self.expander = module.Expander(_CONFIG, Side.A)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.expander = expander = self.expander
        layout = record_layout(_CONFIG, Side.A)
        group = Signal(layout)
        m.d.comb += [
            group.as_value().eq(AnySeq(layout.size)),
            expander.i.eq(group),
            expander.o.ready.eq(AnySeq(1)),
        ]
        reads, found = Signal(), expander.write
        m.d.comb += reads.eq(AnySeq(1))
        m.d.comb += Assume(~reads | ~expander.o_stop)
        for _ in range(IN_FLIGHT - 1):
            later = Signal()
            m.d.sync += later.eq(reads)
            reads = later
        m.d.comb += [found.eq(reads & AnySeq(1)), Assume(~found | group.mask.any())]
        m.d.comb += Assert(~expander.fifo.w_en | expander.fifo.w_rdy)

        owed, leaves = Signal(5), expander.o.valid & expander.o.ready
        bits = group.mask[0] + group.mask[1]
        m.d.sync += owed.eq(owed + (bits & found.replicate(2)) - leaves)
        m.d.comb += Assert(~expander.o.valid | (owed != 0))
        self._watch(m, group, owed, leaves)
        return m

    def _watch(self, m: Module, group: data.View, owed: Signal, leaves: Signal) -> None:
        """Results of the watched group leave after those before it, bank 0 first."""
        expander = self.expander
        number, skip = Signal(3), Signal(5)
        watched, rest = Signal(record_layout(_CONFIG, Side.A)), Signal(2)
        with m.If(expander.write):
            m.d.sync += number.eq(number + 1)
        with m.If(leaves & (skip != 0)):
            m.d.sync += skip.eq(skip - 1)
        with m.Elif(leaves & (rest != 0)):
            bank = Signal()
            m.d.comb += bank.eq(~rest[0])
            m.d.sync += rest.eq(rest & (rest - 1))
            m.d.comb += [
                Assert(expander.o.payload.a == watched.probe),
                Assert(expander.o.payload.b == watched.window.as_value().bit_select(bank, 1)),
                Assert(expander.o.payload.later == Side.A),
            ]
        with m.If(expander.write & (number == AnyConst(3))):
            m.d.sync += [skip.eq(owed - leaves), watched.eq(group), rest.eq(group.mask)]


PROOFS = (
    Proof(
        name="window join, expander",
        module="penstock.hw.window.output",
        build=ExpanderProof,
        size="2 banks, 3 groups, payloads of 1 bit",
        depth=12,
        inductive=False,
        bounded_because="it would have to count the results of every group in the FIFO; 12 cycles "
        "fill the FIFO and empty it.",
        claims=(
            Claim(
                "Each result of a group leaves once, in the order of the groups and then of the "
                "banks, with the payloads of its pair.",
                Mutation("rest.eq(group.mask & ~sent)", "rest.eq(group.mask)"),
            ),
            Claim(
                "A group goes when its last result has left.",
                Mutation("with m.If(rest == lowest):", "with m.If(group.mask == lowest):"),
            ),
            Claim(
                "No group finds the FIFO full if rows are read only while there is no stop.",
                Mutation(
                    "fifo.r_level > self.config.records - IN_FLIGHT",
                    "fifo.r_level > self.config.records - 1",
                ),
            ),
        ),
    ),
)
