"""Result lanes: records of all blocks become words, without a crossbar."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from ..flit import record_layout
from .config import RECORD_BITS, KernelConfig


class Lane(wiring.Component):
    """Queues the records of its blocks, which take turns.

    One record per cycle; a full queue stalls the blocks.

    Parameters
    ----------
    config : KernelConfig
        The build.
    index : int
        Number of the lane.

    Members
    -------
    i : In(stream), one per block
        Records.
    o_record, i_take : Out, In
        The oldest record as it is in memory, 0 if there is none; drop it.
    o_some, o_half : Out(1)
        There is a record; the queue was half full in the cycle before.
    """

    i: list[stream.Interface]
    o_record: Signal
    i_take: Signal
    o_some: Signal
    o_half: Signal

    def __init__(self, config: KernelConfig, index: int) -> None:
        self.config = config
        self.members = len(config.blocks_of(index))
        super().__init__(
            {
                "i": In(stream.Signature(record_layout(config.join))).array(self.members),
                "o_record": Out(RECORD_BITS),
                "i_take": In(1),
                "o_some": Out(1),
                "o_half": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.config.lane_records
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=RECORD_BITS, depth=depth)
        chosen, latest = Signal(range(self.members)), Signal(range(self.members))
        with m.Switch(latest):
            for member in range(self.members):
                with m.Case(member):
                    # The last assignment wins: the one after the latest goes last.
                    for step in reversed(range(1, self.members + 1)):
                        candidate = (member + step) % self.members
                        with m.If(self.i[candidate].valid):
                            m.d.comb += chosen.eq(candidate)
        with m.Switch(chosen):
            for member in range(self.members):
                with m.Case(member):
                    m.d.comb += [
                        fifo.w_data.eq(self._packed(self.i[member], member)),
                        fifo.w_en.eq(self.i[member].valid),
                        self.i[member].ready.eq(fifo.w_rdy),
                    ]
                    with m.If(self.i[member].valid & fifo.w_rdy):
                        m.d.sync += latest.eq(member)
        m.d.comb += [
            self.o_record.eq(Mux(fifo.r_rdy, fifo.r_data, 0)),
            self.o_some.eq(fifo.r_rdy),
            fifo.r_en.eq(self.i_take),
        ]
        m.d.sync += self.o_half.eq(fifo.r_level >= depth // 2)
        return m

    def _packed(self, record: stream.Interface, member: int) -> Value:
        payload = record.payload
        return Cat(payload.ordinal, Const(member, self.config.member_bits), payload.mask)


class Lanes(wiring.Component):
    """Lanes side by side make a word; a lane without a record leaves its part 0.

    A word leaves when any lane is half full, or when there is any record and ``i_flush`` is high.
    One word per cycle, with a record of each lane at most; a stalled output stalls the blocks.

    Parameters
    ----------
    config : KernelConfig
        The build.

    Members
    -------
    i : In(stream), one per block
        Records.
    i_flush : In(1)
        Do not wait for more records.
    o : Out(stream)
        Words.
    o_records : Out(4)
        Records in the word at ``o``.
    o_empty : Out(1)
        No record is in any lane, and no word waits.
    """

    i: list[stream.Interface]
    i_flush: Signal
    o: stream.Interface
    o_records: Signal
    o_empty: Signal

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(record_layout(config.join))).array(config.blocks),
                "i_flush": In(1),
                "o": Out(stream.Signature(config.word_bits)),
                "o_records": Out(4),
                "o_empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = [Lane(self.config, index) for index in range(self.config.used_lanes)]
        for index, lane in enumerate(lanes):
            m.submodules[f"lane_{index}"] = lane
            for member, block in enumerate(self.config.blocks_of(index)):
                m.d.comb += [
                    lane.i[member].payload.eq(self.i[block].payload),
                    lane.i[member].valid.eq(self.i[block].valid),
                    self.i[block].ready.eq(lane.i[member].ready),
                ]
        some = Cat(lane.o_some for lane in lanes)
        ready = Cat(lane.o_half for lane in lanes).any() | self.i_flush
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        # Taken from all lanes whether or not one has a record: a long path would end in each.
        with m.If((~self.o.valid | self.o.ready) & ready):
            m.d.comb += [lane.i_take.eq(1) for lane in lanes]
            parts = [lane.o_record for lane in lanes]
            m.d.sync += [
                self.o.payload.eq(
                    Cat(*parts, Const(0, RECORD_BITS * (self.config.lanes - len(parts))))
                ),
                self.o_records.eq(sum(lane.o_some for lane in lanes)),
                self.o.valid.eq(some.any()),
            ]
        m.d.comb += self.o_empty.eq(~some.any() & ~self.o.valid)
        return m
