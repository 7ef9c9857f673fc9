"""Proofs of the head: it sends all that it takes, in the right order."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind, pass_layout, tuple_layout
from tests.hw.formal.inside import Inside
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnySeq, Assert, Assume
from tests.hw.formal.streams import feed, moves

_CONFIG = JoinConfig(units=2, tests=1, key_bits=2, position_bits=2)


class HeadProof(Elaboratable):
    """A head with any inputs that keep the rules of a stream; ranges may be wrong.

    An item that it takes is checked one cycle later, together with its flit. A pass may be
    withdrawn in the cycle after the head is told to halt, and in that after its report.
    """

    def __init__(self, module: ModuleType, config: JoinConfig = _CONFIG) -> None:
        self.head = module.Head(config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        head = self.head
        self.inside = Inside.of(head)
        m.submodules.head = self.inside.fragment
        for port in (head.i_tuple, head.i_window, head.i_entry):
            feed(m, port)
        self._feed_passes(m)
        m.d.comb += [
            head.i_back.as_value().eq(AnySeq(len(head.i_back.as_value()))),
            head.i_halt.eq(AnySeq(1)),
            head.o_report.ready.eq(AnySeq(1)),
        ]
        self.check(m)
        return m

    def _feed_passes(self, m: Module) -> None:
        """As other streams, but for passes that are withdrawn."""
        port = self.head.i_pass
        payload = port.payload.as_value()
        m.d.comb += [port.valid.eq(AnySeq(1)), payload.eq(AnySeq(len(payload)))]
        waited, ended = Signal(name="pass_waited"), Signal(name="report_was_taken")
        halted = Signal(name="was_halted")
        #: The pass that was there in the cycle before.
        self.offered = Signal.like(port.payload, name="offered")
        m.d.sync += [
            waited.eq(port.valid & ~port.ready),
            ended.eq(moves(self.head.o_report)),
            halted.eq(self.head.i_halt),
            self.offered.eq(port.payload),
        ]
        stays = port.valid & (payload == self.offered.as_value())
        m.d.comb += Assume(~waited | stays | halted | ended)

    def check(self, m: Module) -> None:
        """Add the assertions."""
        raise NotImplementedError

    def taken(self, m: Module, port: stream.Interface) -> tuple[Signal, Signal]:
        """Whether the head took an item in the cycle before, and the item."""
        taken = Signal()
        item = Signal(len(Value.cast(port.payload)))
        m.d.sync += [taken.eq(moves(port)), item.eq(port.payload)]
        return taken, item

    def waiting(self, m: Module) -> tuple[Signal, data.View]:
        """Whether a tuple was taken and not loaded, a cycle before a flit; and that tuple."""
        kind = self.head.o.kind
        taken, item = self.taken(m, self.head.i_tuple)
        waits, waiting = Signal(), Signal(len(item))
        with m.If(taken):
            m.d.sync += [waits.eq(1), waiting.eq(item)]
        with m.Elif(kind == Kind.LOAD_LAST):
            m.d.sync += waits.eq(0)
        with m.If(kind == Kind.CLEAR):
            m.d.sync += waits.eq(0)
        return waits, data.View(tuple_layout(self.head.config), waiting)


class Streams(HeadProof):
    """Every item becomes a flit, and only with room."""

    def check(self, m: Module) -> None:
        head = self.head
        window, keys = self.taken(m, head.i_window)
        taken, item = self.taken(m, head.i_tuple)
        waits, waiting = self.waiting(m)
        loaded = head.o.kind == Kind.LOAD_LAST
        room = Signal()
        m.d.sync += room.eq(head.i_back.room)
        size = _CONFIG.payload_bits
        m.d.comb += [
            Assert((head.o.kind == Kind.WINDOW) == window),
            Assert(~loaded | waits),
            Assert(~(taken & waits) | loaded),
            Assert(~window | room),
            Assert((head.o.kind != Kind.CLEAR) | (head.o.lap == self.inside.ongoing("REPORT"))),
        ]
        with m.If(window):
            m.d.comb += Assert(head.o.payload == keys)
        with m.If(loaded):
            m.d.comb += Assert(head.o.payload == waiting["keys"][size : 2 * size])
        # A pass that begins is one that the head takes, or took for the first of a task.
        begins, first = self.inside["begins"], self.inside.ongoing("BEGIN")
        began, _ = self.taken(m, head.i_pass)
        shown = [self.inside[name] for name in ("position", "stop", "left", "pass_is_last")]
        offered = [self.offered[name] for name in ("begin", "end", "tuples", "last")]
        m.d.comb += [
            Assert(~first | began),
            Assert(begins == (first | (self.inside.ongoing("NEXT") & moves(head.i_pass)))),
            Assert(~begins | (Cat(shown) == Cat(offered))),
        ]
        # For the induction: what the head has is what was taken and not loaded.
        inside = self.inside
        valid, missing = inside["next_valid"], inside["next_is_missing"]
        cleared = head.o.kind == Kind.CLEAR
        m.d.comb += [
            Assert(valid == (~cleared & (taken | (waits & ~loaded)))),
            Assert(~valid | (inside["next"] == Mux(taken, item, waiting))),
            Assert(~(missing & valid)),
            Assert(~inside["next_starts"] | valid),
            Assert(inside["merging"] == inside.ongoing("MERGE")),
            Assert(~begins | first | (inside.ongoing("NEXT") & ~inside["halt"])),
            Assert(~first | begins),
            Assert(inside["stops"] == inside.ongoing("STOP")),
            Assert(~inside["inside"] | inside["merging"] | inside["stops"]),
            Assert(inside["inside"] | ~(missing | valid | inside["merging"])),
        ]


class Order(HeadProof):
    """Retirements before loads before the window tuple of a position, and laps."""

    def check(self, m: Module) -> None:
        head, units = self.head, _CONFIG.units
        kind = head.o.kind
        began, pass_bits = self.taken(m, head.i_pass)
        new_pass = data.View(pass_layout(_CONFIG), pass_bits)
        position, todo = Signal(_CONFIG.position_bits), Signal(_CONFIG.position_bits)
        with m.If(began):
            m.d.sync += [position.eq(new_pass.begin), todo.eq(new_pass.tuples)]
        with m.Elif(kind == Kind.WINDOW):
            m.d.sync += position.eq(position + 1)

        # The tuple that is next, and the ends of those that are active, the oldest first.
        here, waiting = self.waiting(m)
        start, end = waiting.start, waiting.end
        ends = [Signal.like(position, name=f"end_{place}") for place in range(units + 1)]
        active, loads, retires = Signal(range(units + 2)), Signal(3), Signal(3)
        with m.Switch(kind):
            with m.Case(Kind.LOAD_LAST):
                m.d.sync += [todo.eq(todo - 1), active.eq(active + 1), loads.eq(loads + 1)]
                for place, kept in enumerate(ends):
                    with m.If(active == place):
                        m.d.sync += kept.eq(end)
            with m.Case(Kind.RETIRE):
                m.d.sync += [active.eq(active - 1), retires.eq(retires + 1)]
                m.d.sync += [ends[place].eq(ends[place + 1]) for place in range(units)]
            with m.Case(Kind.CLEAR):
                m.d.sync += [active.eq(0), loads.eq(0), retires.eq(0)]

        due = (active != 0) & (ends[0] == position)
        with m.Switch(kind):
            with m.Case(Kind.RETIRE):
                m.d.comb += [Assert(due), Assert(head.o.lap == self._lap(retires))]
            with m.Case(Kind.LOAD, Kind.LOAD_LAST):
                m.d.comb += [
                    Assert(~due),
                    Assert((todo != 0) & here & (start == position)),
                    Assert(active < units),
                    Assert(head.o.lap == self._lap(loads)),
                ]
            with m.Case(Kind.WINDOW):
                m.d.comb += [Assert(~due), Assert((todo == 0) | (here & (start != position)))]

    def _lap(self, count: Signal) -> Value:
        return count[1]  # of two units


PROOFS = (
    Proof(
        name="head, streams",
        module="penstock.hw.join.head",
        build=Streams,
        size="2 units, 1 x 2 bits, 2-bit positions",
        depth=6,
        inductive=True,
        claims=(
            Claim(
                "Each window tuple that the head takes leaves as one WINDOW flit with its keys, "
                "and no other WINDOW flit leaves.",
                Mutation("self.i_window.ready.eq(moves.window)", "self.i_window.ready.eq(goes)"),
            ),
            Claim(
                "Each stream tuple that it takes leaves as one LOAD_LAST flit before it takes "
                "another, unless the task ends, and no other LOAD_LAST flit leaves.",
                Mutation("sends_part & (part == config.load_flits - 1)", "sends_part"),
            ),
            Claim(
                "Each pass that it takes begins in that cycle or the next, and no other does, "
                "whichever are withdrawn.",
                Mutation("self.i_pass.valid & ~self.i_halt", "self.i_pass.valid"),
            ),
            Claim(
                "A WINDOW flit leaves only if there was room in the cycle before.",
                Mutation("& self.i_window.valid & self.i_back.room)", "& self.i_window.valid)"),
            ),
            Claim(
                "The CLEAR after which a task has ended carries lap 1, whatever was due there; "
                "that of a pass that another follows carries lap 0.",
                Mutation("stops | Mux(due.load", "Mux(due.load"),
            ),
        ),
    ),
    Proof(
        name="head, order",
        module="penstock.hw.join.head",
        build=Order,
        size="2 units, 1 x 2 bits, 2-bit positions",
        depth=13,
        inductive=False,
        bounded_because="it would have to say which ends are where in the head's memory, and that "
        "they ascend; 13 cycles take two tuples from load to retirement.",
        slow=True,
        claims=(
            Claim(
                "At a position the head sends a RETIRE for each active tuple that ends there, in "
                "order, before anything else.",
                Mutation("(goes & due.retire)", "(goes & (active.value != 0))"),
            ),
            Claim(
                "Then it sends the loads of the tuples that start there, and then the window "
                "tuple.",
                Mutation("goes & due.load", "goes & following.valid"),
            ),
            Claim(
                "At most N tuples are active, whatever ranges it is given.",
                Mutation("active, units, moves", "active, units + 1, moves"),
            ),
            Claim(
                "Load k and retirement k of a pass carry the parity of lap k div N.",
                Mutation("Mux(due.load, load.lap", "Mux(due.load, retire.lap"),
            ),
        ),
    ),
)
