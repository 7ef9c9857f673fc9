"""Proofs of the block: what it records, and that its FIFO never overflows."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from amaranth.hdl import Cat, Elaboratable, Module, Signal, Value
from amaranth.lib import data

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind, flit_layout
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnySeq, Assert, Assume

_CONFIG = JoinConfig(
    units=4,
    units_per_block=2,
    tests=1,
    key_bits=2,
    spare_records=1,
    ordinal_bits=5,
)


class BlockProof(Elaboratable):
    """A block behind a head that sends any flits, window flits only while it sees room."""

    def __init__(self, module: ModuleType, index: int) -> None:
        self.index = index
        self.block = module.Block(_CONFIG, index)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.block = block = self.block
        flit = Signal(flit_layout(_CONFIG))
        m.d.comb += [
            block.i.eq(flit),
            flit.as_value().eq(AnySeq(flit_layout(_CONFIG).size)),
            block.o_record.ready.eq(AnySeq(1)),
            block.i_back.room.eq(1),
            block.i_back.quiet.eq(AnySeq(1)),
        ]
        is_window = flit.kind == Kind.WINDOW
        # A report passes the blocks before this one, the head has a register for its output, and
        # the flit passes the units before this block.
        way = self.index + 1 + _CONFIG.units_of(self.index).start
        with m.If(~self._delayed(m, block.o_back.room, way)):
            m.d.comb += Assume(~is_window)
        self._check_records(m, flit)
        self._check_room(m, is_window)
        return m

    def _check_records(self, m: Module, flit: data.View) -> None:
        """What is written is the mask of the window flit that left the last unit, if any bit is."""
        fifo, units = self.block.fifo, self.block.units
        lag = len(units) + _CONFIG.test_cycles + 1
        passed = self._delayed(m, flit.kind == Kind.WINDOW, lag)
        ordinal = Signal(_CONFIG.ordinal_bits)
        with m.If(passed):
            m.d.sync += ordinal.eq(ordinal + 1)
        restarts = self._delayed(m, (flit.kind == Kind.CLEAR) & flit.lap, lag)
        with m.If(restarts):
            m.d.sync += ordinal.eq(0)
        # Unit k says at k + 1 + test_cycles whether the flit matches.
        mask = Cat(
            self._delayed(m, unit.hit, len(units) - number) for number, unit in enumerate(units)
        )
        m.d.comb += [
            Assert(fifo.w_en == (passed & mask.any())),
            Assert(fifo.w_data[: _CONFIG.ordinal_bits] == ordinal),
            Assert(~passed | (fifo.w_data[_CONFIG.ordinal_bits :] == mask)),
        ]

    def _check_room(self, m: Module, is_window: Value) -> None:
        fifo = self.block.fifo
        lag = len(self.block.units) + _CONFIG.test_cycles + 1
        flags = [self._delayed(m, is_window, cycles) for cycles in range(1, lag + 1)]
        m.d.comb += [
            Assert(~fifo.w_en | fifo.w_rdy),
            Assert(fifo.r_level + sum(flags) <= fifo.depth),
        ]

    def _delayed(self, m: Module, value: Value, cycles: int) -> Value:
        for _ in range(cycles):
            later = Signal.like(value)
            m.d.sync += later.eq(value)
            value = later
        return value


PROOFS = tuple(
    Proof(
        name=f"block {index}",
        module="penstock.hw.join.block",
        build=partial(BlockProof, index=index),
        size="2 units, 1 x 2 bits",
        depth=18,
        inductive=True,
        claims=claims,
    )
    for index, claims in enumerate(
        (
            (
                Claim(
                    "Each window flit whose mask is not zero is written to the FIFO once, when it "
                    "has passed the last unit, in order and with its ordinal; no other flit is.",
                    Mutation("& coming.any()", "& coming[0]"),
                ),
                Claim(
                    "What its mask holds after a reset, or with other flits, is not written.",
                    Mutation("coming_window & coming", "coming"),
                ),
                Claim(
                    "The FIFO never overflows if the head sends window flits only while it sees "
                    "room.",
                    Mutation("fifo.r_level <= self.config.spare_records", "fifo.w_rdy"),
                ),
            ),
            (
                Claim(
                    "The same behind another block, with a longer way there and back.",
                    Mutation(
                        "fifo.r_level <= self.config.spare_records",
                        "fifo.w_rdy",
                    ),
                ),
            ),
        )
    )
)
