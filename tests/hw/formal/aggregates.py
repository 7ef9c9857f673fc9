"""Proofs of the parts of a build with aggregates: fold, unit, head, outlet, path of a value."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind, flit_layout
from penstock.hw.join.modes import CODES, Folding
from penstock.program import Mode
from tests.hw.formal.head import HeadProof
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnyConst, AnySeq, Assert, Assume, same_start

_PAIRS = frozenset({Mode.PAIRS})


class LeastProof(Elaboratable):
    """A fold with positions, on any matches, as one of them sees it: any, but always the same."""

    def __init__(self, module: ModuleType) -> None:
        self.fold = module.Fold(Folding(_PAIRS | {Mode.NEAREST}, 3, 3))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fold = fold = self.fold
        known = Signal()
        m.d.comb += [
            fold.clear.eq(AnySeq(1)),
            fold.live.eq(AnySeq(1)),
            fold.hit.eq(AnySeq(1) & fold.live),
            fold.operand.eq(AnySeq(3)),
            # A range has no more window tuples than there are positions.
            Assume(~(known & fold.live & fold.tested.all())),
        ]
        chosen = AnyConst(3)
        tested, passed, found = Signal(3), Signal(), Signal()
        operand, some = Signal.like(fold.operand), Signal()
        with m.If(fold.live):
            m.d.sync += tested.eq(tested + 1)
            with m.If(tested == chosen):
                m.d.sync += [passed.eq(1), found.eq(fold.hit), operand.eq(fold.operand)]
        with m.If(fold.hit):
            m.d.sync += some.eq(1)
        with m.If(fold.clear):
            m.d.sync += [tested.eq(0), passed.eq(0), found.eq(0), some.eq(0), known.eq(1)]
        value = fold.o.value.as_signed()
        # Before the first clear it holds anything.
        with m.If(known):
            m.d.comb += [
                Assert(fold.tested == tested),
                Assert(fold.o.found == some),
                Assert(passed == (tested > chosen)),
                Assert(~found | passed),
                Assert(~some | (fold.o.position < tested)),
            ]
        with m.If(known & found):
            m.d.comb += [
                Assert(some),
                Assert(value <= operand),
                Assert((value != operand) | (fold.o.position <= chosen)),
            ]
        with m.If(known & some & (fold.o.position == chosen)):
            m.d.comb += [Assert(found), Assert(value == operand)]
        return m


class UnitProof(Elaboratable):
    """A unit that counts and one that keeps the least, on any flits, beside what they must give."""

    def __init__(self, module: ModuleType) -> None:
        counts = _PAIRS | {Mode.COUNT}, 0
        keeps = _PAIRS | {Mode.MIN}, 3
        self.units = [
            module.Unit(
                JoinConfig(
                    units=2, tests=1, key_bits=2, position_bits=4, modes=modes, value_bits=bits
                )
            )
            for modes, bits in (counts, keeps)
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number, unit in enumerate(self.units):
            m.submodules[f"unit_{number}"] = unit
            self._check(m, unit, number)
        return m

    def _check(self, m: Module, unit: object, number: int) -> None:
        config = unit.config  # pyright: ignore[reportAttributeAccessIssue]
        layout = flit_layout(config)
        i, o = unit.i, unit.o  # pyright: ignore[reportAttributeAccessIssue]
        seen = Signal(layout, name=f"seen_{number}", reset_less=True)
        m.d.comb += [
            i.as_value().eq(AnySeq(layout.size)),
            unit.table.eq(AnyConst(config.table_bits)),  # pyright: ignore
        ]
        m.d.sync += seen.eq(i)
        same_start(
            m,
            (seen.kind, Kind.IDLE),
            (seen.lap, o.lap),
            (seen.payload, o.payload),
            *([(seen.operand, o.operand)] if config.value_bits else []),
        )
        phase, active, held, recent, counted = (
            Signal(name=f"{name}_{number}")
            for name in ("phase", "active", "held", "recent", "counted")
        )
        loads = (seen.kind == Kind.LOAD_LAST) & (seen.lap == phase)
        stops = (seen.kind == Kind.RETIRE) & active & (seen.lap == ~phase)
        gives = (seen.kind == Kind.COLLECT) & held & (seen.lap == ~phase)
        tests = active & (seen.kind == Kind.WINDOW)
        with m.If(loads):
            m.d.sync += [phase.eq(~phase), active.eq(1), held.eq(1)]
        with m.If(stops | gives):
            m.d.sync += active.eq(0)
        with m.If(gives):
            m.d.sync += held.eq(0)
        with m.If(seen.kind == Kind.CLEAR):
            m.d.sync += [phase.eq(0), active.eq(0), held.eq(0)]
        m.d.comb += [
            Assert(unit.phase == phase),  # pyright: ignore
            Assert(unit.active == active),  # pyright: ignore
            Assert(unit.held == held),  # pyright: ignore
            Assert(~active | held),
        ]
        # A match counts a cycle after its window flit; its operand is in the flit behind it.
        m.d.sync += [recent.eq(tests), counted.eq(tests)]
        match = unit.hit  # pyright: ignore
        m.d.comb += Assert(~match | counted)
        if config.value_bits:
            least = Signal.like(seen.operand, name="least", reset_less=True)
            found = Signal(name="found", reset_less=True)
            better = match & (~found | (seen.operand < least))
            m.d.sync += least.eq(Mux(better, seen.operand, least))
            m.d.sync += found.eq((found | match) & ~loads)
            value = unit.fold.o  # pyright: ignore
            same_start(m, (found, value.found), (least, value.value.as_signed()))
            m.d.comb += Assert(value.found == found)
            m.d.comb += Assert(~found | (value.value.as_signed() == least))
            given = value.as_value()
        else:
            count = Signal(config.position_bits, name="count", reset_less=True)
            same_start(m, (count, unit.fold.o.value))  # pyright: ignore
            m.d.sync += count.eq(Mux(loads, 0, count + match))
            m.d.comb += Assert(unit.fold.o.value == count)  # pyright: ignore
            given = count
        with m.If(gives):
            # The contract: no window tuple in the cycle before, so nothing is still to be counted.
            m.d.comb += [
                Assert(o.kind == Kind.COLLECT),
                Assert(o.lap == ~seen.lap),
                Assert(recent | ~match),
                Assert(o.payload[: len(given)] == given),
            ]
        with m.Else():
            m.d.comb += [Assert(o.lap == seen.lap), Assert(o.payload == seen.payload)]


class CollectProof(HeadProof):
    """When a head that folds collects, as one tuple sees it: any of a pass, always the same."""

    config = JoinConfig(units=2, tests=1, key_bits=2, position_bits=2, modes=_PAIRS | {Mode.COUNT})

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module, self.config)

    def check(self, m: Module) -> None:
        head, config = self.head, self.config
        kind = head.o.kind
        entered, entry_bits = self.taken(m, head.i_entry)
        began, _ = self.taken(m, head.i_pass)
        folds, room = Signal(), Signal()
        m.d.sync += room.eq(head.i_back.collect)
        mode = entry_bits[-3:]
        with m.If(entered):
            m.d.sync += folds.eq(mode != CODES[Mode.PAIRS])

        chosen = AnyConst(3)
        loads, stops, collects = (Signal(4, name=name) for name in ("loads", "stops", "collects"))
        stopped, age = Signal(), Signal(range(config.fold_cycles + 1))
        # Cycles since the last window flit that counts for the chosen tuple.
        with m.If((kind == Kind.WINDOW) & ~stopped):
            m.d.sync += age.eq(1)
        with m.Elif(age < config.fold_cycles):
            m.d.sync += age.eq(age + 1)
        with m.Switch(kind):
            with m.Case(Kind.LOAD_LAST):
                m.d.sync += loads.eq(loads + 1)
            with m.Case(Kind.RETIRE):
                m.d.sync += stops.eq(stops + 1)
                with m.If(stops == chosen):
                    m.d.sync += stopped.eq(1)
            with m.Case(Kind.COLLECT):
                m.d.sync += collects.eq(collects + 1)
                m.d.comb += [
                    Assert(folds),
                    Assert(room),
                    Assert(collects < loads),
                    Assert(head.o.lap == collects[1]),  # of two units
                ]
                with m.If(collects == chosen):
                    m.d.comb += Assert(age == config.fold_cycles)
            with m.Case(Kind.CLEAR):
                m.d.sync += [loads.eq(0), stops.eq(0), collects.eq(0), stopped.eq(0)]
        with m.If(folds & ((kind == Kind.LOAD) | (kind == Kind.LOAD_LAST))):
            m.d.comb += Assert(loads - collects < config.units)
        halted = Signal()
        with m.If(head.i_halt):
            m.d.sync += halted.eq(1)
        with m.If(folds & (kind == Kind.CLEAR) & ~halted & ~head.o_fault):
            m.d.comb += Assert(collects == loads)
        # The first pass of a task finds its mode told.
        m.d.comb += Assume(~began | ~entered)


class OutletProof(Elaboratable):
    """An outlet behind a head that collects at any time, but only while it sees room."""

    config = JoinConfig(
        units=2,
        units_per_block=1,
        tests=1,
        key_bits=2,
        position_bits=3,
        modes=_PAIRS | {Mode.COUNT},
        spare_records=1,
    )

    def __init__(self, module: ModuleType) -> None:
        self.outlet = module.ValueOutlet(self.config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.outlet = outlet = self.outlet
        fifo, config = outlet.fifo, self.config
        sent = Signal()
        m.d.comb += [sent.eq(AnySeq(1)), outlet.o.ready.eq(AnySeq(1))]
        # A report passes the blocks. A flit passes the head's register and the units.
        room = self._delayed(m, outlet.o_room, config.blocks)[-1]
        m.d.comb += Assume(~sent | room)
        way = self._delayed(m, sent, config.units + 1)
        m.d.comb += [
            outlet.i.payload.eq(AnySeq(len(outlet.i.payload))),
            outlet.i.kind.eq(Mux(way[-1], Kind.COLLECT, AnySeq(3))),
            Assume(way[-1] | (outlet.i.kind != Kind.COLLECT)),
            Assert(fifo.w_en == way[-1]),
            Assert(~fifo.w_en | (fifo.w_data == outlet.i.payload)),
            Assert(~fifo.w_en | fifo.w_rdy),
            Assert(fifo.r_level + sum(way) <= fifo.depth),
        ]
        return m

    @staticmethod
    def _delayed(m: Module, value: Value, cycles: int) -> list[Value]:
        delayed = []
        for _ in range(cycles):
            later = Signal.like(value)
            m.d.sync += later.eq(value)
            value = later
            delayed.append(value)
        return delayed


PROOFS = (
    Proof(
        name="fold, least and its position",
        module="penstock.hw.join.fold",
        build=LeastProof,
        size="3-bit operands and positions",
        depth=5,
        inductive=True,
        claims=(
            Claim(
                "The value is the least operand of all matches since the last clear, and the "
                "position is where it came.",
                Mutation("tested.eq(tested + 1)", "tested.eq(tested + self.hit)"),
            ),
            Claim(
                "Of equal operands it is the position of the first.",
                Mutation("~at_most(m, kept, self.operand)", "at_most(m, self.operand, kept)"),
            ),
            Claim(
                "Found says whether there was a match.",
                Mutation("m.d.sync += folded.found.eq(0)", "m.d.sync += folded.found.eq(1)"),
            ),
        ),
    ),
    Proof(
        name="unit with aggregates",
        module="penstock.hw.join.unit",
        build=UnitProof,
        size="1 x 2 bits, 4-bit counts, 3-bit values",
        depth=9,
        inductive=True,
        claims=(
            Claim(
                "A unit takes a COLLECT exactly when it holds a tuple of that lap, whether its "
                "range was ended or not; what it takes travels on with the other lap.",
                Mutation("self.o.lap.eq(phase)", "self.o.lap.eq(flit.lap)"),
            ),
            Claim(
                "After it gave its value it holds no tuple, so it gives each value once.",
                Mutation("[self.held.eq(0), self.active.eq(0)]", "self.active.eq(0)"),
            ),
            Claim(
                "The value of COUNT is the number of matches since the load.",
                Mutation("m.d.comb += fold.clear.eq(loaded)", "m.d.comb += fold.clear.eq(0)"),
            ),
            Claim(
                "The value of MIN is the least operand of the matches since the load, each from "
                "the flit behind its window flit.",
                Mutation("fold.operand.eq(flit.operand)", "fold.operand.eq(self.i.operand)"),
            ),
        ),
    ),
    Proof(
        name="head, collecting",
        module="penstock.hw.join.head",
        build=CollectProof,
        size="2 units, 1 x 2 bits, 2-bit positions",
        depth=14,
        inductive=False,
        bounded_because="it would have to say which tuples are loaded, retired and collected, and "
        "which ends the head's memory holds; 14 cycles are two tuples from load to collection.",
        slow=True,
        claims=(
            Claim(
                "In a task that folds, and in no other, a COLLECT is sent for each loaded tuple, "
                "before the CLEAR of its pass unless the task is halted or faulty.",
                Mutation("uncollected = values.some if", "uncollected = Const(0, 1) if"),
            ),
            Claim(
                "It is at least config.fold_cycles behind the last window flit that counts for "
                "the tuple.",
                Mutation("values.some & values.settled", "values.some"),
            ),
            Claim(
                "Collections are in the order of tuples, with the parity of their laps.",
                Mutation("flit.lap.eq(values.lap)", "flit.lap.eq(load.lap)"),
            ),
            Claim(
                "A tuple is loaded only while fewer than N tuples are not collected.",
                Mutation("closed.all | values.all if values", "closed.all if values"),
            ),
            Claim(
                "A COLLECT leaves only if there was room for its value in the cycle before.",
                Mutation("due.retire) & values.due", "due.retire) & values.some"),
            ),
        ),
    ),
    Proof(
        name="outlet",
        module="penstock.hw.join.pipeline",
        build=OutletProof,
        size="2 units in 2 blocks, 3-bit values",
        depth=14,
        inductive=True,
        claims=(
            Claim(
                "The payload of each COLLECT that leaves the last unit is queued, and nothing "
                "else.",
                Mutation("self.i.kind == Kind.COLLECT", "self.i.kind != Kind.IDLE"),
            ),
            Claim(
                "The outlet never overflows if the head collects only while it sees room.",
                Mutation("fifo.r_level <= self.config.spare_records", "fifo.w_rdy"),
            ),
        ),
    ),
)
