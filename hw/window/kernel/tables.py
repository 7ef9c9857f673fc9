"""Truth tables from argument registers into the operator, an entry per cycle."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib import data

from ..config import WindowConfig
from ..operator import WindowJoin


def table_words(config: WindowConfig) -> int:
    """32-bit registers that hold the truth table of a side."""
    return -(-(1 << config.tests) // 32) if config.is_band else 0


def write_tables(m: Module, operator: WindowJoin, arguments: data.View) -> Value:
    """Write both tables while ``operator.i_entry.valid``; whether the last entry is being written.

    Parameters
    ----------
    m : Module
    operator : WindowJoin
        In band form.
    arguments : View
        Has ``table_a_0``, ... and ``table_b_0``, ...
    """
    entries = 1 << operator.config.tests
    number = Signal(range(2 * entries), name="table_entry")
    entry, words = operator.i_entry, range(table_words(operator.config))
    table = Cat(Cat(arguments[f"table_{side}_{word}"] for word in words)[:entries] for side in "ab")
    m.d.comb += [
        entry.payload.index.eq(number[:-1]),
        entry.payload.side.eq(number[-1]),
        entry.payload.value.eq(Array(table)[number]),
    ]
    is_last = Signal()
    with m.If(entry.valid):
        m.d.sync += [number.eq(number + 1), is_last.eq(number == 2 * entries - 2)]
    return is_last
