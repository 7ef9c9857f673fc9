"""Flits of the chain of units, and the payloads of the streams around it."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import data, enum

from .config import JoinConfig
from .modes import MODE_BITS


class Kind(enum.Enum, shape=3):
    """What a flit tells the units it passes.

    A stream tuple is loaded by ``load_flits - 1`` LOAD flits and a LOAD_LAST: lo and then hi in
    band form. The unit that a LOAD, LOAD_LAST or RETIRE is for turns it into IDLE; the others
    pass every unit.

    In a task that folds matches a RETIRE ends a tuple's range and a COLLECT fetches its value: the
    unit whose turn it is puts it into the payload and inverts the flit's lap, so that no later
    unit takes it for its own. Values are collected in the order of tuples; behind a unit that
    gives one, any other of that lap parity was collected before or is not there yet.
    """

    IDLE = 0
    #: Shift a part of a stream tuple into the unit whose turn it is.
    LOAD = 1
    #: The last part: the unit becomes active.
    LOAD_LAST = 2
    #: Test the keys in the payload against every active unit.
    WINDOW = 3
    #: The unit whose turn it is becomes inactive.
    RETIRE = 4
    #: All units become inactive and the next tuple is for unit 0. With lap 1 ordinals restart.
    CLEAR = 5
    #: Write one entry of the truth table (band form), and the task's mode (with aggregates).
    CONFIG = 6
    #: The unit whose turn it is gives its tuple's value and becomes free.
    COLLECT = 7


def flit_layout(config: JoinConfig) -> data.StructLayout:
    """A flit: kind, parity of the tuple's lap ``i // units``, keys.

    A band build that folds a value has the operand of the window tuple *before* in it: a test takes
    a cycle, so the operand is there when the match is.
    """
    fields = {"kind": Kind, "lap": 1, "payload": config.payload_bits}
    if config.value_bits:
        fields["operand"] = signed(config.value_bits)
    return data.StructLayout(fields)


def registered(m: Module, flit: data.View) -> data.View:
    """A flit a cycle later. Only its kind starts from reset: IDLE, so the rest does not matter."""
    layout = flit.shape()
    parts = [
        Signal(field.shape, name=f"flit_{name}", reset_less=name != "kind")
        for name, field in layout
    ]
    m.d.sync += [part.eq(flit[name]) for part, (name, _) in zip(parts, layout, strict=True)]
    return data.View(layout, Cat(parts))


def tail_layout(config: JoinConfig) -> data.StructLayout:
    """What is left of a flit at the end of the chain."""
    fields = {"kind": Kind, "lap": 1}
    if config.folding:
        fields["payload"] = config.folding.layout.size
    return data.StructLayout(fields)


def tuple_layout(config: JoinConfig) -> data.StructLayout:
    """A stream tuple at the head: keys, and its range ``[start, end)`` of window positions."""
    return data.StructLayout(
        {
            "keys": max(config.stream_bits, 1),
            "start": config.position_bits,
            "end": config.position_bits,
        }
    )


def pass_layout(config: JoinConfig) -> data.StructLayout:
    """A pass: so many stream tuples meet the window positions ``[begin, end)``."""
    return data.StructLayout(
        {
            "tuples": config.position_bits,
            "begin": config.position_bits,
            "end": config.position_bits,
            "last": 1,
        }
    )


def report_layout(config: JoinConfig) -> data.StructLayout:
    """Where a task ended: i0, i1 and p of the device contract."""
    return data.StructLayout(
        {
            "complete": config.position_bits,
            "loaded": config.position_bits,
            "position": config.position_bits,
        }
    )


def entry_layout(config: JoinConfig) -> data.StructLayout:
    """One entry of the truth table in band form; in a build with aggregates also the mode."""
    fields = {"index": config.tests, "value": 1} if config.is_band else {}
    if config.folding:
        fields["mode"] = MODE_BITS
    return data.StructLayout(fields)


def record_layout(config: JoinConfig) -> data.StructLayout:
    """Matches of one window tuple in one block.

    Neither the stream index nor the lap is in it. Ranges say which tuple was in a unit at a
    position (:func:`penstock.passes.recover`), so a record stays 64 bits for 32 units.
    """
    return data.StructLayout({"ordinal": config.ordinal_bits, "mask": config.units_per_block})


def result_layout(config: JoinConfig) -> data.StructLayout:
    """A record and the block that it is from."""
    return data.StructLayout({"block": range(config.blocks), "record": record_layout(config)})
