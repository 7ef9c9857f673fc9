"""The whole pipeline: head, blocks, and the collection of records."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from .block import Block
from .chain import BaseChain, TaskPorts, TaskSignature, connect_tasks
from .config import JoinConfig
from .flit import Kind, record_layout, result_layout, tail_layout
from .head import Head


class ValueOutlet(wiring.Component):
    """The end of the chain in a build with aggregates: queues the values that COLLECT flits bring.

    One value per cycle, in the order of tuples; nothing stalls as long as the head collects only
    while it sees room.

    Parameters
    ----------
    config : JoinConfig
        A build with aggregates.

    Members
    -------
    i : In
        What leaves the last unit.
    o : Out(stream)
        Values.
    o_room, o_quiet : Out(1)
        It can take what may be on its way; it is empty.
    """

    i: data.View
    o: stream.Interface
    o_room: Signal
    o_quiet: Signal

    def __init__(self, config: JoinConfig) -> None:
        assert config.folding is not None
        self.config = config
        self.fifo = SyncFIFOBuffered(width=config.folding.layout.size, depth=config.outlet_depth)
        super().__init__(
            {
                "i": In(tail_layout(config)),
                "o": Out(stream.Signature(config.folding.layout)),
                "o_room": Out(1),
                "o_quiet": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fifo = fifo = self.fifo
        m.d.comb += [
            fifo.w_data.eq(self.i.payload),
            # Each of them was taken by the unit whose turn it was.
            fifo.w_en.eq(self.i.kind == Kind.COLLECT),
            self.o.payload.eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o.ready),
            self.o_room.eq(fifo.r_level <= self.config.spare_records),
            self.o_quiet.eq(fifo.r_level == 0),
        ]
        return m


class Collector(wiring.Component):
    """Round-robin arbiter over the blocks' records.

    One record per cycle, one cycle after it was taken; holds it while the output stalls.

    Parameters
    ----------
    config : JoinConfig
        The build.

    Members
    -------
    i : In(stream), one per block
        Records.
    o : Out(stream)
        Records with the number of their block.
    """

    i: list[stream.Interface]
    o: stream.Interface

    def __init__(self, config: JoinConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(record_layout(config))).array(config.blocks),
                "o": Out(stream.Signature(result_layout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        blocks = range(self.config.blocks)
        chosen, latest = Signal(blocks), Signal(blocks)
        result = Signal(result_layout(self.config), reset_less=True)
        m.d.comb += self.o.payload.eq(result)
        with m.Switch(latest):
            for block in blocks:
                with m.Case(block):
                    # The last assignment wins: nearest after the latest one goes last.
                    for step in reversed(range(1, len(blocks) + 1)):
                        candidate = (block + step) % len(blocks)
                        with m.If(self.i[candidate].valid):
                            m.d.comb += chosen.eq(candidate)

        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += self.o.valid.eq(0)
            with m.Switch(chosen):
                for block in blocks:
                    with m.Case(block), m.If(self.i[block].valid):
                        m.d.comb += self.i[block].ready.eq(1)
                        m.d.sync += [
                            latest.eq(block),
                            self.o.valid.eq(1),
                            result.block.eq(block),
                            result.record.eq(self.i[block].payload),
                        ]
        return m


class Chain(BaseChain):
    """Head and blocks: the pipeline without the collection of its records.

    A task is one or more passes (:func:`penstock.passes.plan`). One window tuple per
    cycle; a record leaves ``config.reserve(block)`` cycles after its window tuple at the latest,
    unless it stalls. Stalled records stop window tuples at the head; nothing is lost. The records
    of a block are in the order of window tuples.

    Parameters
    ----------
    config : JoinConfig
        The build.
    """

    def __init__(self, config: JoinConfig) -> None:
        self.head = Head(config)
        self.blocks = [Block(config, index) for index in range(config.blocks)]
        self.outlet = ValueOutlet(config) if config.folding else None
        super().__init__(config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.head = head = self.head
        connect_tasks(m, head, self)

        flit: data.View = head.o
        for block in self.blocks:
            m.submodules[f"block_{block.index}"] = block
            m.d.comb += block.i.eq(flit)
            connect(m, block.o_record, flipped(self.o_record[block.index]))
            flit = block.o
        for block, following in zip(self.blocks[:-1], self.blocks[1:], strict=True):
            m.d.comb += block.i_back.eq(following.o_back)
        m.d.comb += self.blocks[-1].i_back.as_value().eq(-1)
        if (outlet := self.outlet) is not None:
            m.submodules.outlet = outlet
            connect(m, outlet.o, flipped(self.o_value))
            m.d.comb += [
                outlet.i.eq(flit),
                self.blocks[-1].i_back.quiet.eq(outlet.o_quiet),
                self.blocks[-1].i_back.collect.eq(outlet.o_room),
                head.i_back.collect.eq(self.blocks[0].o_back.collect),
            ]

        back = self.blocks[0].o_back
        m.d.comb += [
            self.o_quiet.eq(back.quiet),
            head.i_back.room.eq(back.room & self.i_room),
            head.i_back.quiet.eq(back.quiet & self.i_quiet),
        ]
        return m


class Pipeline(TaskPorts):
    """A chain whose records leave one at a time.

    One window tuple per cycle, one record per cycle.

    Parameters
    ----------
    config : JoinConfig
        The build.

    Members
    -------
    i_entry, i_pass, i_tuple, i_window, i_halt, i_room : In
        See :class:`penstock.hw.join.chain.BaseChain`.
    o_result : Out(stream)
        Records, as the chain orders them within a block.
    o_value, o_report, o_quiet, o_fault, o_stalled, o_starved : Out
        See :class:`penstock.hw.join.chain.BaseChain`.
    """

    def __init__(self, config: JoinConfig) -> None:
        self.config = config
        self.chain = config.chain()
        super().__init__(TaskSignature(config, merged=True))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.chain = chain = self.chain
        m.submodules.collector = collector = Collector(self.config)
        connect_tasks(m, chain, self, own="o_quiet")
        for record, taken in zip(chain.o_record, collector.i, strict=True):
            connect(m, record, taken)
        connect(m, collector.o, flipped(self.o_result))
        m.d.comb += [
            chain.i_quiet.eq(~collector.o.valid),
            self.o_quiet.eq(chain.o_quiet & ~collector.o.valid),
        ]
        return m
