"""The band test of a join unit."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..hls.compare import at_most
from .config import JoinConfig
from .flit import entry_layout


def band_match(table: int, keys: list[int], bounds: list[tuple[int, int]]) -> bool:
    """Reference: whether a window tuple's keys meet a stream tuple's bounds."""
    met = sum(
        (lo <= key <= hi) << test
        for test, (key, (lo, hi)) in enumerate(zip(keys, bounds, strict=True))
    )
    return bool(table >> met & 1)


class BandTester(wiring.Component):
    """A boolean function of D tests ``lo <= key <= hi``, one window tuple per cycle.

    The result follows ``config.test_cycles`` (1) after the keys; nothing stalls.

    Parameters
    ----------
    config : JoinConfig
        A band build.
    late : bool
        Whether ``valid`` comes with the result, which saves a register, not with the keys.

    Members
    -------
    keys : In
        D window keys.
    bounds : In
        D low bounds, then D high bounds.
    table : In(2**D)
        Truth table. Only where ``config.table_in_units`` is false.
    entry, write : In
        An entry of the unit's own truth table. Only where ``config.table_in_units`` is true.
    valid : In(1)
        Whether the keys count.
    o : Out(1)
        Whether the keys of the cycle before counted and meet the function. Not registered.
    """

    keys: data.View
    bounds: data.View
    valid: Signal
    table: Signal
    entry: data.View
    write: Signal
    o: Signal

    def __init__(self, config: JoinConfig, *, late: bool = False) -> None:
        self.config = config
        self.late = late
        keys = data.ArrayLayout(config.key_bits, config.tests)
        members = {
            "keys": In(keys),
            "bounds": In(data.ArrayLayout(keys, 2)),
            "valid": In(1),
            "o": Out(1),
        }
        if config.table_in_units:
            members |= {"entry": In(entry_layout(config)), "write": In(1)}
        else:
            members |= {"table": In(config.table_bits)}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()

        def compare(a: Value, b: Value) -> Value:
            return at_most(m, a, b, platform=platform)

        low, high = self.bounds[0], self.bounds[1]
        live = Signal()
        m.d["comb" if self.late else "sync"] += live.eq(self.valid)
        met = Signal(self.config.tests, reset_less=True)
        m.d.sync += met.eq(
            Cat(
                compare(low[d], self.keys[d]) & compare(self.keys[d], high[d])
                for d in range(self.config.tests)
            )
        )
        if self.config.table_in_units:
            m.submodules.table = table = Memory(shape=1, depth=self.config.table_bits, init=[])
            write, read = table.write_port(), table.read_port(domain="comb")
            m.d.comb += [
                write.addr.eq(self.entry.index),
                write.data.eq(self.entry.value),
                write.en.eq(self.write),
                read.addr.eq(met),
                self.o.eq(live & read.data),
            ]
        else:
            m.d.comb += self.o.eq(live & Array(self.table)[met])
        return m
