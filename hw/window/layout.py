"""Layouts of tuples and results at the ports, and in the queues, of a window-join operator."""

from __future__ import annotations

from amaranth.hdl import Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from .config import WindowConfig


class Side(enum.Enum, shape=1):
    """One of the two streams."""

    A = 0
    B = 1

    @property
    def other(self) -> Side:
        return Side(1 - self.value)


class State(enum.Enum, shape=2):
    """State of a match unit (paper 4, figure 8)."""

    #: No tuple is being matched.
    READY = 0
    #: Queue tuples are read and compared.
    MATCH = 1
    #: A tuple is being matched, and the output layer has no room.
    WAIT = 2


def tuple_layout(config: WindowConfig, side: Side) -> data.StructLayout:
    """A tuple at the operator's input.

    ``probe`` is what the tuple looks for in the other side's queue, ``window`` what tuples of the
    other side look for in its own. For equality both are the same, and there is ``key`` alone. In
    band form ``window`` holds D codes, ``probe`` D low bounds and then D high bounds.
    """
    if config.is_band:
        codes = data.ArrayLayout(config.key_bits, config.tests)
        keys = {"window": codes, "probe": data.ArrayLayout(codes, 2)}
    else:
        keys = {"key": config.key_bits}
    return data.StructLayout({**keys, **_rest(config, side)})


def entry_layout(config: WindowConfig, side: Side) -> data.StructLayout:
    """A tuple in its side's queue."""
    return data.StructLayout({"keys": config.window_bits, **_rest(config, side)})


def probe_layout(config: WindowConfig, side: Side) -> data.StructLayout:
    """A tuple while it is matched with the other side's queue."""
    return data.StructLayout({"keys": config.probe_bits, **_rest(config, side)})


def _rest(config: WindowConfig, side: Side) -> dict[str, int]:
    time = {"time": config.time_bits} if config.time_bits else {}
    return {**time, "payload": config.payload_bits[side.value]}


def record_layout(config: WindowConfig, side: Side, banks: int | None = None) -> data.StructLayout:
    """Results of one cycle of the match unit of a side: its tuple, and those of all banks, or of
    some neighbouring ones."""
    banks = config.banks if banks is None else banks
    return data.StructLayout(
        {
            "mask": banks,
            "probe": config.payload_bits[side.value],
            "window": data.ArrayLayout(config.payload_bits[side.other.value], banks),
        }
    )


class RecordPort(wiring.PureInterface):
    """Type of what :func:`record_port` creates."""

    record: data.View
    write: Signal
    stop: Signal


def record_port(config: WindowConfig, side: Side) -> wiring.Signature:
    """Results of a row, if there are any, of the match unit of a side; whether one was read; and
    whether there is no room for those of one more row than are on their way."""
    return wiring.Signature(
        {"record": Out(record_layout(config, side)), "write": Out(1), "stop": In(1)}
    )


def result_layout(config: WindowConfig) -> data.StructLayout:
    """A result: payloads of both tuples, and the side of the one that arrived later."""
    return data.StructLayout(
        {"a": config.payload_a_bits, "b": config.payload_b_bits, "later": Side}
    )


def word_layout(config: WindowConfig) -> data.StructLayout:
    """What leaves in a cycle: ``results[n]`` counts where bit n of ``present`` is set."""
    return data.StructLayout(
        {
            "results": data.ArrayLayout(result_layout(config), config.outputs),
            "present": config.outputs,
        }
    )


def table_layout(config: WindowConfig) -> data.StructLayout:
    """One entry of a truth table: of the tests by which tuples of ``side`` are matched."""
    return data.StructLayout({"index": config.tests, "value": 1, "side": Side})


def counters_layout(config: WindowConfig) -> data.StructLayout:
    """How many tuples of each side were admitted, and how many were shed."""
    return data.StructLayout(
        {f"{what}_{side}": config.counter_bits for side in "ab" for what in ("admitted", "shed")}
    )
