"""Ports that every chain of units has."""

from __future__ import annotations

from abc import abstractmethod

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .config import JoinConfig
from .flit import entry_layout, pass_layout, record_layout, report_layout, tuple_layout


def task_members(config: JoinConfig) -> dict[str, wiring.Member]:
    """Ports that take tasks and report them."""
    members: dict[str, wiring.Member] = {
        "i_pass": In(stream.Signature(pass_layout(config))),
        "i_tuple": In(stream.Signature(tuple_layout(config))),
        "i_window": In(stream.Signature(max(config.window_bits, 1))),
        "i_halt": In(1),
        "o_report": Out(stream.Signature(report_layout(config))),
        "o_fault": Out(1),
        "o_stalled": Out(1),
        "o_starved": Out(1),
    }
    if config.entry_bits:
        members["i_entry"] = In(stream.Signature(entry_layout(config)))
    return members


def value_members(config: JoinConfig) -> dict[str, wiring.Member]:
    """The stream of values, in a build that has one."""
    if config.folding is None:
        return {}
    return {"o_value": Out(stream.Signature(config.folding.layout))}


def connect_streams(m: Module, config: JoinConfig, inner: TaskPorts, outer: TaskPorts) -> None:
    """Make the streams of a component's tasks those of one inside it."""
    for name, member in task_members(config).items():
        if member.is_signature:
            connect(m, getattr(inner, name), flipped(getattr(outer, name)))


def connect_flags(m: Module, inner: TaskPorts, outer: TaskPorts) -> None:
    """The same for the signals beside the streams."""
    m.d.comb += [
        inner.i_halt.eq(outer.i_halt),
        outer.o_fault.eq(inner.o_fault),
        outer.o_stalled.eq(inner.o_stalled),
        outer.o_starved.eq(inner.o_starved),
    ]


class TaskPorts(wiring.Component):
    """What :func:`task_members` gives a component."""

    i_entry: stream.Interface
    i_pass: stream.Interface
    i_tuple: stream.Interface
    i_window: stream.Interface
    i_halt: Signal
    o_report: stream.Interface
    o_fault: Signal
    o_stalled: Signal
    o_starved: Signal


class ChainPorts(TaskPorts):
    """What one chain and several have besides, whoever takes their records."""

    i_room: Signal
    o_value: stream.Interface
    o_quiet: Signal


class BaseChain(ChainPorts):
    """Ports of a chain; :meth:`penstock.hw.join.config.JoinConfig.chain` makes one.

    Parameters
    ----------
    config : JoinConfig
        The build.

    Members
    -------
    i_entry, i_pass, i_tuple, i_window, i_halt : In
        See :class:`penstock.hw.join.head.Head`.
    i_room : In(1)
        Whether the receiver of the records has room for all records of the next window tuple;
        window tuples wait while it is low.
    i_quiet : In(1)
        Whether the receiver has stored all records; a task's report waits for it.
    o_record : Out(stream), one per block
        Records. Those of a pass come after those of the passes before it.
    o_value : Out(stream)
        What was folded for each stream tuple of a task that folds, in their order. Only in builds
        with aggregates.
    o_report : Out(stream)
        Where a task ended, after its last record.
    o_quiet : Out(1)
        No record is in a FIFO. True of all records of a window tuple taken
        ``config.drain_cycles`` ago or earlier.
    o_fault, o_stalled, o_starved : Out(1)
        See :class:`penstock.hw.join.head.Head`.
    """

    i_quiet: Signal
    o_record: list[stream.Interface]

    def __init__(self, config: JoinConfig) -> None:
        self.config = config
        super().__init__(
            {
                **task_members(config),
                "i_room": In(1),
                "i_quiet": In(1),
                "o_record": Out(stream.Signature(record_layout(config))).array(config.blocks),
                **value_members(config),
                "o_quiet": Out(1),
            }
        )

    @abstractmethod
    def elaborate(self, platform: object) -> Module: ...
