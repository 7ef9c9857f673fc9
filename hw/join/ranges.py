"""What the head knows of ranges: its position, the next tuple's range, ends of active tuples.

Comparisons with the position are registers that are right in their cycle: within a pass the
position stays or goes on by one, so they are made a cycle before. So is the choice between them
(:class:`Due`), which leaves one LUT between registers and a move.
"""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory

from ..hls.compare import equal
from .config import JoinConfig
from .flit import tuple_layout
from .occupancy import Count, Moves, Turn


class Place:
    """Where the head is in its pass.

    Outside of a pass, and from its CLEAR on, it shows the pass that comes next, a cycle later than
    its stream: a pass begins only when it was there in the cycle before. An item that is withdrawn,
    as when a task is halted, is still shown for a cycle.
    """

    def __init__(
        self,
        m: Module,
        config: JoinConfig,
        i: stream.Interface,
        moves: Moves,
        platform: object = None,
    ) -> None:
        self.position, self.following, self.stop = (
            Signal(config.position_bits, name=name) for name in ("position", "following", "stop")
        )
        #: The position is the end of the pass.
        self.at_stop = Signal(name="at_stop")
        #: The next position is the end of the pass.
        self.at_stop_after = equal(m, self.following, self.stop, platform=platform)
        #: It is the task's last pass.
        self.last = Signal(name="pass_is_last")
        #: From the cycle after a pass is taken to that of its CLEAR.
        self.inside = Signal(name="inside")
        #: The next pass is shown in the next cycle, if there is one.
        self.shows = Signal(name="shows")
        new = i.payload
        m.d.comb += self.shows.eq((~self.inside & ~moves.begin) | moves.clear)
        with m.If(moves.begin):
            m.d.sync += self.inside.eq(1)
        with m.If(moves.clear):
            m.d.sync += self.inside.eq(0)
        with m.If(moves.window):
            m.d.sync += [self.position.eq(self.following), self.at_stop.eq(self.at_stop_after)]
        with m.If(moves.window | moves.begin):
            m.d.sync += self.following.eq(Mux(self.inside, self.following, self.position) + 1)
        with m.If(self.shows):
            m.d.sync += [
                self.position.eq(new.begin),
                self.stop.eq(new.end),
                self.last.eq(new.last),
                self.at_stop.eq(equal(m, new.begin, new.end, platform=platform)),
            ]


class Next:
    """The stream tuple that is loaded next, taken from its stream ahead of its load.

    One is taken with the pass if it is there, and one with each load, so that loads follow each
    other. None is taken that is not of the pass.
    """

    def __init__(
        self,
        m: Module,
        config: JoinConfig,
        i: stream.Interface,
        tuples: Signal,
        place: Place,
        moves: Moves,
        platform: object = None,
    ) -> None:
        self.payload = Signal(tuple_layout(config), name="next", reset_less=True)
        self.valid = Signal(name="next_valid")
        #: It starts at the position.
        self.starts = Signal(name="next_starts")
        #: Its range is not empty, ends in the pass, and not before the range of the one before.
        self.fits = Signal(name="next_fits")
        #: Tuples of the pass were not taken yet.
        self.more = Signal(name="more")
        #: There are, but none is here.
        self.missing = Signal(name="next_is_missing")
        left = Signal(config.position_bits, name="left")
        first = Signal(name="next_is_first", init=1)
        start, end = i.payload.start, i.payload.end
        #: It starts at the next position.
        self.starts_after = self.valid & equal(
            m, self.payload.start, place.following, platform=platform
        )
        #: The tuple that can be taken starts at the position.
        self.coming = i.valid & equal(m, start, place.position, platform=platform)
        #: The same, and whether it is missing, if one is taken with this cycle's move.
        self.starts_taken, self.missing_taken = self.more & self.coming, self.more & ~i.valid
        self.fits_taken = (end > start) & (first | (end >= self.payload.end)) & (end <= place.stop)
        self.fits_waiting = Mux(self.missing, self.fits_taken, self.fits)
        #: The same if the head only waits.
        self.starts_waiting = Mux(self.missing, self.coming, self.starts)
        self.missing_waiting = self.missing & ~i.valid
        m.d.comb += i.ready.eq(self.missing | (self.more & (moves.load | moves.begin)))
        with m.If(moves.load | moves.begin):
            m.d.sync += [
                self.starts.eq(self.starts_taken),
                self.missing.eq(self.missing_taken),
                self.valid.eq(0),
            ]
        with m.Elif(moves.window):
            m.d.sync += self.starts.eq(self.starts_after)
        with m.Else():
            m.d.sync += [
                self.starts.eq(self.starts_waiting),
                self.missing.eq(self.missing_waiting),
            ]
        with m.If(i.valid & i.ready):
            m.d.sync += [
                self.payload.eq(i.payload),
                self.valid.eq(1),
                self.fits.eq(self.fits_taken),
                first.eq(0),
                left.eq(left - 1),
                self.more.eq(left != 1),
            ]
        with m.If(moves.clear):
            m.d.sync += [
                self.valid.eq(0),
                self.starts.eq(0),
                self.missing.eq(0),
                first.eq(1),
            ]
        with m.If(place.shows):
            m.d.sync += [left.eq(tuples), self.more.eq(tuples.any())]


class Ends:
    """Ends of the active tuples: of the oldest two in registers, of the others in a memory."""

    def __init__(
        self,
        m: Module,
        config: JoinConfig,
        end: data.View | Signal,
        slot: Signal,
        active: Count,
        place: Place,
        moves: Moves,
        platform: object = None,
    ) -> None:
        m.submodules.ends = ends = Memory(shape=config.position_bits, depth=config.units, init=[])
        write, read = ends.write_port(), ends.read_port(domain="comb")
        third = Turn(
            m, "third", config.units, step=moves.retire, clear=moves.clear, first=2 % config.units
        )
        m.d.comb += [
            write.addr.eq(slot),
            write.data.eq(end),
            write.en.eq(moves.load),
            read.addr.eq(third.slot),
        ]
        oldest, second = (
            Signal(config.position_bits, name=name, reset_less=True)
            for name in ("oldest", "second")
        )
        some, several = active.at_least(1), active.at_least(2)
        #: The oldest active tuple ends at the position. A tuple that is loaded ends behind it.
        self.here = Signal(name="ends_here")
        #: The same at the next position, and once the oldest is retired.
        self.here_after = some & equal(m, oldest, place.following, platform=platform)
        self.here_retired = several & equal(m, second, place.position, platform=platform)
        with m.If(moves.retire):
            m.d.sync += [
                oldest.eq(second),
                second.eq(read.data),
                self.here.eq(self.here_retired),
            ]
        with m.If(moves.load & ~some):
            m.d.sync += oldest.eq(end)
        with m.If(moves.load & ~several):
            m.d.sync += second.eq(end)
        with m.If(moves.window):
            m.d.sync += self.here.eq(self.here_after)
        with m.If(moves.clear):
            m.d.sync += self.here.eq(0)


class Due:
    """What a pass's position asks for next, each a register; one of them while a pass is under way.

    At the end of a pass no tuple is taken, so it stays known whether one is left.
    """

    def __init__(
        self,
        m: Module,
        place: Place,
        following: Next,
        ends: Ends,
        active: Count,
        units: int,
        moves: Moves,
    ) -> None:
        #: The oldest active tuple is to be retired.
        self.retire = Signal(name="retire_is_due")
        #: The next tuple is to be loaded: its range is sound, and a unit is free.
        self.load = Signal(name="load_is_due")
        #: The next tuple is to be waited for.
        self.tuple = Signal(name="tuple_is_due")
        #: A window tuple is to be sent.
        self.window = Signal(name="window_is_due")
        #: The pass is at its end.
        self.end = Signal(name="end_is_due")
        #: It is, and a tuple of it was not loaded; or the next tuple cannot be loaded.
        self.fault = Signal(name="fault_is_due")
        stop, here = place.at_stop, ends.here
        left, full = following.valid | following.more, active.at_least(units)
        starts, missing = following.starts_waiting, following.missing_waiting

        def after(stop: Value, here: Value, starts: Value, missing: Value, fits: Value) -> None:
            m.d.sync += [
                self.retire.eq(~stop & here),
                self.load.eq(~(stop | here) & starts & fits),
                self.tuple.eq(~(stop | here) & missing),
                self.window.eq(~(stop | here | starts | missing)),
                self.end.eq(stop & ~left),
                self.fault.eq(Mux(stop, left, ~here & starts & ~fits)),
            ]

        # What follows each move is known before the move is.
        with m.If(moves.window):
            fits = following.fits & ~full
            after(place.at_stop_after, ends.here_after, following.starts_after, Const(0, 1), fits)
        with m.Elif(moves.load | moves.begin):
            fits = following.fits_taken & (active.value != units - 1)
            after(stop, here, following.starts_taken, following.missing_taken, fits)
        with m.Elif(moves.retire):
            fits = following.fits_waiting
            after(stop, ends.here_retired, starts, missing, fits)
        with m.Else():
            after(stop, here, starts, missing, following.fits_waiting & ~full)
