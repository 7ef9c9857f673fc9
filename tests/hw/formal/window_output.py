"""Proof of the window join's output: each result of a group leaves once, and none is lost."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import data

from penstock.hw.window.config import WindowConfig
from penstock.hw.window.layout import Side, record_layout
from tests.hw.formal.inside import Inside
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnyConst, AnySeq, Assert, Assume


@dataclass(frozen=True, kw_only=True)
class _Config(WindowConfig):
    """A build that takes fewer results out of a group at once, and whose results come sooner."""

    @property
    def result_cycles(self) -> int:
        return 1

    @property
    def chunk(self) -> int:
        return 1


_CONFIG = _Config(depth=4, banks=2, key_bits=1, payload_a_bits=1, payload_b_bits=1, records=4)


class ExpanderProof(Elaboratable):
    """An expander behind a match unit that steps only while it may; one group is watched."""

    def __init__(self, module: ModuleType) -> None:
        self.expander = module.Expander(_CONFIG, Side.A)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        expander, inside = self.expander, Inside.of(self.expander)
        m.submodules.expander = inside.fragment
        layout = record_layout(_CONFIG, Side.A)
        group = Signal(layout)
        m.d.comb += [
            group.as_value().eq(AnySeq(layout.size)),
            expander.i.record.eq(group),
            expander.o.ready.eq(AnySeq(1)),
        ]
        reads = Signal()
        m.d.comb += [reads.eq(AnySeq(1)), Assume(~reads | ~expander.i.stop)]
        for _ in range(_CONFIG.result_cycles):
            later = Signal()
            m.d.sync += later.eq(reads)
            reads = later
        m.d.comb += [expander.i.write.eq(reads), Assume(reads | ~group.mask.any())]
        m.d.comb += Assert(inside.part("groups")["level"] <= _CONFIG.records)

        owed, leaves = Signal(6), expander.o.valid & expander.o.ready
        bits = sum(group.mask[bank] for bank in range(_CONFIG.banks))
        m.d.sync += owed.eq(owed + bits - leaves)
        m.d.comb += [
            Assert(~expander.o.valid | (owed != 0)),
            Assert(~expander.o_idle | (owed == 0)),
        ]
        self._watch(m, group, owed, leaves)
        return m

    def _watch(self, m: Module, group: data.View, owed: Signal, leaves: Signal) -> None:
        """Results of the watched group leave after those before it, bank 0 first."""
        expander = self.expander
        number, skip = Signal(3), Signal(6)
        watched, rest = Signal(record_layout(_CONFIG, Side.A)), Signal(_CONFIG.banks)
        with m.If(group.mask.any()):
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
        with m.If(group.mask.any() & (number == AnyConst(3))):
            m.d.sync += [skip.eq(owed - leaves), watched.eq(group), rest.eq(group.mask)]


PROOFS = (
    Proof(
        name="window join, expander",
        module="penstock.hw.window.output",
        build=ExpanderProof,
        size="2 banks, a result of a group at once, 4 groups, payloads of 1 bit",
        depth=10,
        inductive=False,
        bounded_because="it would have to count the results of every group that is held; 10 cycles "
        "bring more than it has room for, and give what the first groups have.",
        claims=(
            Claim(
                "Each result of a group leaves once, in the order of the groups and then of the "
                "banks, with the payloads of its pair.",
                Mutation("port.addr.eq(put), port.data.eq(value)", "port.data.eq(value)"),
            ),
            Claim(
                "A group goes when its last result has left.",
                Mutation("(more | self.i.valid) & several", "more | self.i.valid"),
            ),
            Claim(
                "No more groups are held than there is room for if the scans make a step only "
                "while there is no stop.",
                Mutation("level > config.records - config.in_flight", "level > config.records - 1"),
            ),
            Claim(
                "It is idle only when all results have left.",
                Mutation(
                    "groups.o_idle & ~stage.o.valid & ~self.o.valid",
                    "groups.o_idle & ~self.o.valid",
                ),
            ),
        ),
    ),
)
