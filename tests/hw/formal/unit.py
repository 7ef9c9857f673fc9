"""Proofs of the join unit: laps, retirement, clear, and the match bit."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from amaranth.hdl import Array, Cat, Elaboratable, Module, Signal

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind, flit_layout
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnyConst, AnySeq, Assert, same_start


class UnitProof(Elaboratable):
    """A unit beside its specification, on any flits."""

    def __init__(self, module: ModuleType, config: JoinConfig) -> None:
        self.config = config
        self.unit = module.Unit(config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        m.submodules.unit = unit = self.unit
        layout = flit_layout(config)
        seen = Signal(layout, reset_less=True)
        m.d.comb += [
            unit.i.as_value().eq(AnySeq(layout.size)),
            unit.table.eq(AnyConst(config.table_bits)),
        ]
        m.d.sync += seen.eq(unit.i)

        phase, active = Signal(), Signal()
        bounds = Signal(2 * config.window_bits, reset_less=True)
        same_start(
            m,
            (seen.kind, Kind.IDLE),
            (seen.lap, unit.o.lap),
            (seen.payload, unit.o.payload),
            (bounds, unit.stored),
        )
        is_load = (seen.kind == Kind.LOAD) | (seen.kind == Kind.LOAD_LAST)
        takes_load = is_load & (seen.lap == phase)
        takes_retire = (seen.kind == Kind.RETIRE) & active & (seen.lap == ~phase)
        with m.If(takes_load):
            m.d.sync += bounds.eq(Cat(bounds[config.payload_bits :], seen.payload))
            with m.If(seen.kind == Kind.LOAD_LAST):
                m.d.sync += [phase.eq(~phase), active.eq(1)]
        with m.If(takes_retire):
            m.d.sync += active.eq(0)
        with m.If(seen.kind == Kind.CLEAR):
            m.d.sync += [phase.eq(0), active.eq(0)]
        m.d.comb += [
            Assert(unit.phase == phase),
            Assert(unit.active == active),
            Assert(unit.stored == bounds),
            Assert(unit.o.lap == seen.lap),
            Assert(unit.o.payload == seen.payload),
        ]
        with m.If(takes_load | takes_retire):
            m.d.comb += Assert(unit.o.kind == Kind.IDLE)
        with m.Else():
            m.d.comb += Assert(unit.o.kind == seen.kind)

        met, counts, window = Signal(config.tests), Signal(), Signal()
        m.d.sync += [met.eq(self._met(seen.payload, bounds))]
        m.d.sync += [window.eq(seen.kind == Kind.WINDOW), counts.eq(active)]
        m.d.comb += Assert(~window | (unit.hit == (counts & Array(unit.table)[met])))
        return m

    def _met(self, keys: Signal, bounds: Signal) -> Cat:
        bits, tests = self.config.key_bits, self.config.tests
        low, high = bounds[: bits * tests], bounds[bits * tests :]
        return Cat(
            (low.word_select(d, bits) <= keys.word_select(d, bits))
            & (keys.word_select(d, bits) <= high.word_select(d, bits))
            for d in range(tests)
        )


def _proof(tests: int, key_bits: int, claims: tuple[Claim, ...]) -> Proof:
    config = JoinConfig(units=2, tests=tests, key_bits=key_bits)
    return Proof(
        name=f"unit, {tests} band test{'s' * (tests > 1)}",
        module="penstock.hw.join.unit",
        build=partial(UnitProof, config=config),
        size=f"{tests} x {key_bits} bits",
        depth=4,
        inductive=True,
        claims=claims,
    )


PROOFS = (
    _proof(
        1,
        5,
        (
            Claim(
                "A unit takes a load exactly when the load's lap equals the unit's phase; what it "
                "takes travels on as IDLE.",
                Mutation("m.If(flit.lap == phase)", "m.If(flit.lap != phase)"),
            ),
            Claim(
                "The last part of a tuple makes the unit active and flips its phase.",
                Mutation("[phase.eq(~phase), self.active.eq(1)]", "self.active.eq(1)"),
            ),
            Claim(
                "A unit takes a retirement exactly when it is active and the lap is the one before "
                "its phase.",
                Mutation("self.active & (flit.lap != phase)", "self.active"),
            ),
            Claim(
                "After a clear a unit is not active and takes lap 0 next.",
                Mutation("[phase.eq(0), self.active.eq(0)]", "self.active.eq(0)"),
            ),
            Claim(
                "Every other flit leaves one cycle after it came, as it came.",
                Mutation("self.o.lap.eq(flit.lap)", "self.o.lap.eq(phase)"),
            ),
        ),
    ),
    _proof(
        2,
        4,
        (
            Claim(
                "One cycle after a window flit the match bit is high exactly if the unit was "
                "active and the keys meet the truth table with the bounds that were loaded last.",
                Mutation("if times else self.active)", "if times else 1)"),
            ),
            Claim(
                "After reset it is not active, whatever its registers without reset hold.",
                Mutation("self.active = Signal()", "self.active = Signal(reset_less=True)"),
            ),
        ),
    ),
)
