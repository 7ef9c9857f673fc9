"""Proofs of what the head knows of ranges: its comparisons, and ends in the order of tuples."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import stream

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import pass_layout, tuple_layout
from penstock.hw.join.occupancy import Count, Moves, Turn
from tests.hw.formal.inside import Inside
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnySeq, Assert
from tests.hw.formal.streams import feed

_CONFIG = JoinConfig(units=3, tests=1, key_bits=2, position_bits=2)


class _Parts(Elaboratable):
    """The head's parts, with any of the moves that a head may make."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self.i_pass = stream.Signature(pass_layout(_CONFIG)).create(path=("i_pass",))
        self.i_tuple = stream.Signature(tuple_layout(_CONFIG)).create(path=("i_tuple",))
        self.moves = Moves()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        moves, units, move = self.moves, _CONFIG.units, AnySeq(3)
        self.place = place = self._module.Place(m, _CONFIG, self.i_pass, moves)
        tuples = self.i_pass.payload.tuples
        self.next = new = self._module.Next(m, _CONFIG, self.i_tuple, tuples, place, moves)
        self.active = Count(m, "active", units, up=moves.load, down=moves.retire, clear=moves.clear)
        self.load = Turn(m, "load", units, step=moves.load, clear=moves.clear)
        self.ends = self._module.Ends(
            m, _CONFIG, new.payload.end, self.load.slot, self.active, place, moves
        )
        self.due = due = self._module.Due(m, place, new, self.ends, self.active, units, moves)
        #: A pass was there in the cycle before, and is not begun.
        self.shown = shown = Signal(name="pass_is_shown")
        m.d.sync += shown.eq(self.i_pass.valid & place.shows)
        m.d.comb += [
            self.i_pass.ready.eq(moves.begin),
            moves.begin.eq((move == 0) & shown),
            moves.window.eq((move == 1) & place.inside & due.window),
            moves.load.eq((move == 2) & place.inside & due.load),
            moves.retire.eq((move == 3) & place.inside & due.retire),
            moves.clear.eq((move == 4) & place.inside),
        ]
        return m


class Ranges(Elaboratable):
    """Registers beside what they stand for."""

    def __init__(self, module: ModuleType) -> None:
        self.parts = _Parts(module)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parts, units = self.parts, _CONFIG.units
        inside = Inside.of(parts)
        m.submodules.parts = inside.fragment
        feed(m, parts.i_pass)
        feed(m, parts.i_tuple)
        place, new, ends, active = parts.place, parts.next, parts.ends, parts.active
        moves, coming = parts.moves, parts.i_pass.payload
        left = inside["left"]

        def implied(condition: Value, *facts: Value) -> None:
            with m.If(condition):
                m.d.comb += [Assert(fact) for fact in facts]

        implied(
            place.inside | parts.shown,
            place.at_stop == (place.position == place.stop),
            new.more == (left != 0),
        )
        implied(place.inside, ~parts.shown, place.following == (place.position + 1)[:2])
        implied(
            parts.shown,
            parts.i_pass.valid,
            place.position == coming.begin,
            place.stop == coming.end,
            place.last == coming.last,
            left == coming.tuples,
        )
        start, end = new.payload.start, new.payload.end
        m.d.comb += Assert(new.starts == (new.valid & (start == place.position)))
        implied(new.valid, place.inside, ~new.missing)
        implied(new.missing, place.inside, new.more)
        implied(new.valid & new.fits, end > start, end <= place.stop)

        due, goes_on = parts.due, ~place.at_stop
        remains, here = new.valid | new.more, ends.here
        fits = new.fits & (active.value != units)
        implied(
            place.inside,
            due.retire == (goes_on & here),
            due.load == (goes_on & ~here & new.starts & fits),
            due.tuple == (goes_on & ~here & new.missing),
            due.window == (goes_on & ~(here | new.starts | new.missing)),
            due.end == (place.at_stop & ~remains),
            due.fault == Mux(place.at_stop, remains, ~here & new.starts & ~fits),
        )

        # Ends of active tuples, the oldest first.
        kept = [Signal.like(end, name=f"end_{place}") for place in range(units)]
        for number, one in enumerate(kept):
            with m.If(moves.load & (active.value == number)):
                m.d.sync += one.eq(end)
            with m.If(moves.retire):
                m.d.sync += one.eq(kept[min(number + 1, units - 1)])
        some, several = inside["active_at_least_1"], inside["active_at_least_2"]
        third, slot = inside["third_slot"], parts.load.slot
        m.d.comb += [
            Assert(active.value <= units),
            Assert(some == (active.value != 0)),
            Assert(several == (active.value >= 2)),
            Assert(inside[f"active_at_least_{units}"] == (active.value == units)),
            Assert(ends.here == (some & (kept[0] == place.position))),
            Assert((third < units) & (slot < units)),
            # The next load is for the slot behind those of the active tuples.
            Assert((third + active.value + 1) % units == slot),
        ]
        implied(some, place.inside, inside["oldest"] == kept[0])
        implied(several, inside["second"] == kept[1])
        stored = inside.stored(m, "ends", Mux(third < units, third, 0))
        implied(active.value == units, stored == kept[2])
        return m


PROOFS = (
    Proof(
        name="head, ranges",
        module="penstock.hw.join.ranges",
        build=Ranges,
        size="3 units, 2-bit positions",
        depth=8,
        inductive=True,
        claims=(
            Claim(
                "Within a pass the head knows in each cycle whether its position is the end of "
                "the pass.",
                Mutation("equal(m, self.following, self.stop", "equal(m, self.position, self.stop"),
            ),
            Claim(
                "It knows in each cycle whether the next tuple starts at its position.",
                Mutation(
                    "self.payload.start, place.following,", "self.payload.start, place.position,"
                ),
            ),
            Claim(
                "It knows in each cycle whether the oldest active tuple ends at its position.",
                Mutation("second, place.position", "second, place.following"),
            ),
            Claim(
                "It knows in each cycle which one is due: a retirement, then a load or the wait "
                "for a tuple, then a window tuple; at the end of the pass its CLEAR or a fault.",
                Mutation("~(stop | here | starts | missing)", "~(stop | here | starts)"),
            ),
            Claim(
                "Ends come out of its memory in the order of tuples.",
                Mutation("first=2 % config.units", "first=1"),
            ),
        ),
    ),
)
