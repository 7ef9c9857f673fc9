"""The head's record of its units: whose turn it is, and which can take a tuple."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream

from .config import JoinConfig
from .modes import keep_control


class Turn:
    """Whose turn it is: a unit and the parity of the lap, advanced one tuple at a time."""

    def __init__(self, m: Module, name: str, units: int) -> None:
        self._m = m
        self._units = units
        self.slot = Signal(range(units), name=f"{name}_slot")
        self.lap = Signal(name=f"{name}_lap")
        self.next_slot = Signal(range(units), name=f"{name}_next_slot")
        m.d.comb += self.next_slot.eq(self.slot)
        m.d.sync += self.slot.eq(self.next_slot)

    def advance(self) -> None:
        m = self._m
        with m.If(self.slot == self._units - 1):
            m.d.comb += self.next_slot.eq(0)
            m.d.sync += self.lap.eq(~self.lap)
        with m.Else():
            m.d.comb += self.next_slot.eq(self.slot + 1)

    def restart(self) -> None:
        self._m.d.comb += self.next_slot.eq(0)
        self._m.d.sync += self.lap.eq(0)


class Closed:
    """Units that cannot take a tuple: active ones, and those retired too short a time ago."""

    def __init__(self, m: Module, active: Signal, config: JoinConfig) -> None:
        #: High in the cycle in which a unit retires.
        self.enter = Signal(name="closed_enter")
        cycles = config.settle_cycles
        settling = Signal(range(min(cycles, config.units) + 1), name="settling")
        if cycles:
            line = Signal(cycles, name="settling_line")
            m.d.sync += [
                line.eq(Cat(self.enter, line)),
                settling.eq(settling + self.enter - line[-1]),
            ]
        #: No unit is open.
        self.all = active + settling == config.units


class Values:
    """Which units hold a value, and which of the values can be collected."""

    def __init__(
        self, m: Module, config: JoinConfig, entry: stream.Interface, back: data.View
    ) -> None:
        assert config.folding is not None
        self._m = m
        #: High in the cycle in which a tuple is loaded or stopped, a window tuple or COLLECT sent.
        self.load, self.stop = Signal(name="value_load"), Signal(name="value_stop")
        self.window, self.collect = Signal(name="value_window"), Signal(name="value_collect")
        self._folds = Signal(name="folds")
        written = entry.valid & entry.ready
        keep_control(m, config.folding, "folds", entry.payload.mode, self._folds, written)
        self._turn = Turn(m, "collect", config.units)
        with m.If(self.collect):
            self._turn.advance()
        self._occupied = Signal(range(config.units + 1), name="occupied")
        # A stop is a cycle behind the last window tuple that counts, and counting takes one.
        self._line = Signal(config.fold_cycles - 2, name="stop_line")
        self._stopped = Signal(range(config.units + 1), name="stopped")
        after = Cat(self.stop, self._line)
        self._recent = Signal(config.fold_cycles - 1, name="recent_windows")
        m.d.sync += [
            self._occupied.eq(self._occupied + self.load - self.collect),
            self._line.eq(after),
            self._stopped.eq(self._stopped + after[-1] - self.collect),
            self._recent.eq(Cat(self.window, self._recent)),
        ]
        self.lap = self._turn.lap
        #: There is a value to collect before a pass may end; it can be collected there.
        self.some = self._folds & (self._occupied != 0)
        self.settled = back.collect & (self._recent == 0)
        #: A value can be collected.
        self.due = self._folds & back.collect & (self._stopped != 0)
        #: Every unit holds a value.
        self.all = self._folds & (self._occupied == config.units)

    def kept(self, active: Signal) -> Value:
        """How many of the loaded tuples are not done."""
        return Mux(self._folds, self._occupied, active)

    def restart(self) -> None:
        """All units were cleared."""
        self._turn.restart()
        m = self._m
        m.d.sync += [self._occupied.eq(0), self._stopped.eq(0), self._line.eq(0)]
