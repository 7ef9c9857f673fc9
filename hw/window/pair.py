"""The test of a pair: keys, and times where the build has them."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..hls.compare import at_most
from ..join.band import BandTester
from ..join.flit import entry_layout
from .config import WindowConfig


class PairTest(wiring.Component):
    """Tests the tuple that is matched with one queue tuple per cycle.

    The result follows one cycle after the keys; nothing stalls.

    Parameters
    ----------
    config : WindowConfig
        The build.

    Members
    -------
    probe, window : In
        Keys of the tuple that is matched and of the queue tuple.
    valid : In(1)
        Whether they count.
    table : In, or entry, write : In
        Only in band form, as :class:`penstock.hw.join.band.BandTester` has them.
    time, earliest, latest : In
        Time of the queue tuple, and the times that count, both included. Only with timestamps.
    o : Out(1)
        Whether the pair of the cycle before counted and is joined.
    """

    probe: Signal
    window: Signal
    valid: Signal
    table: Signal
    entry: data.View
    write: Signal
    time: Signal
    earliest: Signal
    latest: Signal
    o: Signal

    def __init__(self, config: WindowConfig) -> None:
        self.config = config
        members = {
            "probe": In(config.probe_bits),
            "window": In(config.window_bits),
            "valid": In(1),
            "o": Out(1),
        }
        if config.is_band and config.band.table_in_units:
            members |= {"entry": In(entry_layout(config.band)), "write": In(1)}
        elif config.is_band:
            members |= {"table": In(config.band.table_bits)}
        if config.time_bits:
            members |= {name: In(config.time_bits) for name in ("time", "earliest", "latest")}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        valid = self.valid
        if self.config.time_bits:
            valid = Signal()
            m.d.comb += valid.eq(
                self.valid
                & at_most(m, self.earliest, self.time)
                & at_most(m, self.time, self.latest)
            )
        if not self.config.is_band:
            m.d.sync += self.o.eq(valid & (self.probe == self.window))
            return m
        config = self.config.band
        m.submodules.band = band = BandTester(config)
        m.d.comb += [
            band.keys.as_value().eq(self.window),
            band.bounds.as_value().eq(self.probe),
            band.valid.eq(valid),
            self.o.eq(band.o),
        ]
        if config.table_in_units:
            m.d.comb += [band.entry.eq(self.entry), band.write.eq(self.write)]
        else:
            m.d.comb += band.table.eq(self.table)
        return m
