"""Ports of all that runs tasks: a head, a chain, several chains, a pipeline."""

from __future__ import annotations

from abc import abstractmethod

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .config import JoinConfig
from .flit import (
    entry_layout,
    pass_layout,
    record_layout,
    report_layout,
    result_layout,
    tuple_layout,
)


class TaskSignature(wiring.Signature):
    """Ports of what runs tasks.

    Parameters
    ----------
    config : JoinConfig
        The build.
    passes : data.StructLayout, optional
        What a pass is, if not that of a head.
    blocks : int
        Streams of records, one per block.
    merged : bool
        All records leave in one stream.
    """

    def __init__(
        self,
        config: JoinConfig,
        *,
        passes: data.StructLayout | None = None,
        blocks: int = 0,
        merged: bool = False,
    ) -> None:
        members: dict[str, wiring.Member] = {
            "i_pass": In(stream.Signature(passes or pass_layout(config))),
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
        if blocks:
            records = Out(stream.Signature(record_layout(config))).array(blocks)
            members |= {"i_quiet": In(1), "o_record": records}
        if merged:
            members["o_result"] = Out(stream.Signature(result_layout(config)))
        if blocks or merged:
            members |= {"i_room": In(1), "o_quiet": Out(1)}
            if config.folding is not None:
                members["o_value"] = Out(stream.Signature(config.folding.layout))
        super().__init__(members)


class TaskPorts(wiring.Component):
    """What :class:`TaskSignature` gives a component; which of them it has, its signature says."""

    i_entry: stream.Interface
    i_pass: stream.Interface
    i_tuple: stream.Interface
    i_window: stream.Interface
    i_halt: Signal
    i_room: Signal
    i_quiet: Signal
    o_record: list[stream.Interface]
    o_result: stream.Interface
    o_value: stream.Interface
    o_report: stream.Interface
    o_quiet: Signal
    o_fault: Signal
    o_stalled: Signal
    o_starved: Signal


class _Part:
    """Some of a component's ports, as an interface."""

    def __init__(self, component: TaskPorts, members: dict[str, wiring.Member]) -> None:
        self.signature = wiring.Signature(members)
        vars(self).update({name: getattr(component, name) for name in members})


def connect_tasks(m: Module, inner: TaskPorts, outer: TaskPorts, *, own: str = "") -> None:
    """Make the ports of a component those of one inside it, where both have them.

    Parameters
    ----------
    m : Module
        Of the outer one.
    inner, outer : TaskPorts
    own : str
        A port that the outer one drives itself.
    """
    inside = inner.signature.members
    shared = {
        name: member
        for name, member in outer.signature.members.items()
        if name in inside and name != own
    }
    connect(m, _Part(inner, shared), flipped(_Part(outer, shared)))


class BaseChain(TaskPorts):
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

    def __init__(self, config: JoinConfig) -> None:
        self.config = config
        super().__init__(TaskSignature(config, blocks=config.blocks))

    @abstractmethod
    def elaborate(self, platform: object) -> Module: ...
