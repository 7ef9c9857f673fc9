"""The head's record of its units: whose turn it is, and which can take a tuple."""

from __future__ import annotations

from dataclasses import dataclass, field

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, stream

from .config import JoinConfig
from .modes import keep_control


@dataclass(frozen=True)
class Moves:
    """What the head does in a cycle, each a signal; at most one of them is high.

    ``begin`` takes a pass, ``window`` sends a window tuple, ``load`` the last part of a stream
    tuple, ``retire`` and ``clear`` the flits of these names.
    """

    begin: Signal = field(default_factory=lambda: Signal(name="begins"))
    window: Signal = field(default_factory=lambda: Signal(name="sends_window"))
    load: Signal = field(default_factory=lambda: Signal(name="loads"))
    retire: Signal = field(default_factory=lambda: Signal(name="retires"))
    clear: Signal = field(default_factory=lambda: Signal(name="clears"))


class Count:
    """A number that goes up or down by one; its comparisons with constants are registers."""

    def __init__(
        self, m: Module, name: str, most: int, *, up: ValueLike, down: ValueLike, clear: Signal
    ) -> None:
        self._m = m
        self._name = name
        self._clear = clear
        self.value = Signal(range(most + 1), name=name)
        self._up, self._down = Signal(name=f"{name}_up"), Signal(name=f"{name}_down")
        m.d.comb += [self._up.eq(up), self._down.eq(down)]
        m.d.sync += self.value.eq(self.value + self._up - self._down)
        with m.If(clear):
            m.d.sync += self.value.eq(0)

    def at_least(self, number: int) -> Signal:
        """Whether the number is that or more, from a register; ``number`` is above 0."""
        m = self._m
        flag = Signal(name=f"{self._name}_at_least_{number}")
        with m.If(self._up & ~self._down & (self.value == number - 1)):
            m.d.sync += flag.eq(1)
        with m.If(self._down & ~self._up & (self.value == number)):
            m.d.sync += flag.eq(0)
        with m.If(self._clear):
            m.d.sync += flag.eq(0)
        return flag


class Turn:
    """Whose turn it is: a unit and the parity of the lap, a tuple further with each step.

    A clear makes it the turn of unit ``first`` in lap 0.
    """

    def __init__(
        self, m: Module, name: str, units: int, *, step: Signal, clear: Signal, first: int = 0
    ) -> None:
        self.slot = Signal(range(units), name=f"{name}_slot", init=first)
        self.lap = Signal(name=f"{name}_lap")
        with m.If(step):
            with m.If(self.slot == units - 1):
                m.d.sync += [self.slot.eq(0), self.lap.eq(~self.lap)]
            with m.Else():
                m.d.sync += self.slot.eq(self.slot + 1)
        with m.If(clear):
            m.d.sync += [self.slot.eq(first), self.lap.eq(0)]


class Closed:
    """Units that cannot take a tuple: active ones, and those retired too short a time ago."""

    def __init__(self, m: Module, config: JoinConfig, moves: Moves) -> None:
        cycles = config.settle_cycles
        #: No unit is open, though not all are active.
        self.all: Value = Const(0, 1)
        if cycles:
            line = Signal(cycles, name="settling_line")
            m.d.sync += line.eq(Cat(moves.retire, line))
            with m.If(moves.clear):
                m.d.sync += line.eq(0)
            closed = Count(
                m, "closed", config.units, up=moves.load, down=line[-1], clear=moves.clear
            )
            self.all = closed.at_least(config.units)


class HeldValues:
    """Which units hold a value, and which of the values can be collected."""

    def __init__(
        self,
        m: Module,
        config: JoinConfig,
        entry: stream.Interface,
        back: data.View,
        moves: Moves,
    ) -> None:
        assert config.folding is not None
        #: High in the cycle in which a COLLECT is sent.
        self.collect = Signal(name="value_collect")
        self._folds = Signal(name="folds")
        written = entry.valid & entry.ready
        keep_control(m, config.folding, "folds", entry.payload.mode, self._folds, written)
        turn = Turn(m, "collect", config.units, step=self.collect, clear=moves.clear)
        # A stop is a cycle behind the last window tuple that counts, and counting takes one.
        line = Signal(config.fold_cycles - 2, name="stop_line")
        after = Cat(moves.retire, line)
        recent = Signal(config.fold_cycles - 1, name="recent_windows")
        m.d.sync += [line.eq(after), recent.eq(Cat(moves.window, recent))]
        with m.If(moves.clear):
            m.d.sync += line.eq(0)

        def count(name: str, up: ValueLike) -> Count:
            counted = self._folds & up
            return Count(m, name, config.units, up=counted, down=self.collect, clear=moves.clear)

        self._occupied = count("occupied", moves.load)
        stopped = count("stopped", after[-1])
        self.lap = turn.lap
        #: There is a value to collect before a pass may end; it can be collected there.
        self.some = self._occupied.at_least(1)
        self.settled = back.collect & (recent == 0)
        #: A value can be collected.
        self.due = back.collect & stopped.at_least(1)
        #: Every unit holds a value.
        self.all = self._occupied.at_least(config.units)

    def kept(self, active: Signal) -> Value:
        """How many of the loaded tuples are not done."""
        return Mux(self._folds, self._occupied.value, active)
