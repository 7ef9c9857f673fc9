import random
from dataclasses import dataclass, field

import pytest
from amaranth.sim import Simulator

from penstock.hw.join.band import band_match
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind
from penstock.hw.join.fold import Folded
from penstock.hw.join.unit import Unit
from penstock.program import Mode

KEY_BITS = 4


@dataclass
class UnitModel:
    """Reference of a unit's state, one call per flit and no latency."""

    phase: int = 0
    active: bool = False
    #: Whether it holds a tuple whose value was not collected. Only aggregates look at it.
    held: bool = False
    #: Payloads of the tuple's load flits, the newest last.
    parts: list[int] = field(default_factory=list)

    def step(self, kind: Kind, lap: int, payload: int) -> Kind:
        """Take a flit; returns the kind that the next unit sees.

        A COLLECT that the unit took leaves with the other lap.
        """
        if kind in (Kind.LOAD, Kind.LOAD_LAST) and lap == self.phase:
            self.parts.append(payload)
            if kind is Kind.LOAD_LAST:
                self.phase, self.active, self.held = 1 - self.phase, True, True
            return Kind.IDLE
        if kind is Kind.RETIRE and self.active and lap != self.phase:
            self.active, self.parts = False, []
            return Kind.IDLE
        if self.takes_collect(kind, lap):
            self.active = self.held = False
        if kind is Kind.CLEAR:
            self.phase, self.active, self.held, self.parts = 0, False, False, []
        return kind

    def takes_collect(self, kind: Kind, lap: int) -> bool:
        """Whether the flit is a COLLECT for this unit."""
        return kind is Kind.COLLECT and self.held and lap != self.phase


def test_reference_follows_the_lap():
    unit = UnitModel()
    assert unit.step(Kind.LOAD, 0, 1) is Kind.IDLE
    assert unit.step(Kind.LOAD_LAST, 0, 2) is Kind.IDLE
    assert (unit.active, unit.parts) == (True, [1, 2])
    assert unit.step(Kind.LOAD_LAST, 0, 3) is Kind.LOAD_LAST
    assert unit.step(Kind.RETIRE, 1, 0) is Kind.RETIRE
    assert unit.step(Kind.RETIRE, 0, 0) is Kind.IDLE
    assert unit.step(Kind.LOAD, 1, 4) is Kind.IDLE
    assert unit.step(Kind.CLEAR, 0, 0) is Kind.CLEAR
    assert (unit.phase, unit.active) == (0, False)


@pytest.mark.parametrize("tests", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_random_flits(tests, seed):
    """Any sequence of flits, against the reference; whole tuples only, as the head sends them."""
    rng = random.Random(seed)
    config = JoinConfig(units=2, tests=tests, key_bits=KEY_BITS)
    table = rng.getrandbits(config.table_bits) | 1
    flits = [(Kind.CONFIG, 0, i | (table >> i & 1) << tests) for i in range(config.table_bits)]
    for _ in range(300):
        kind = rng.choice([Kind.IDLE, Kind.LOAD, *[Kind.WINDOW] * 4, Kind.RETIRE])
        if rng.random() < 0.02:
            kind = Kind.CLEAR
        lap, payload = rng.getrandbits(1), rng.getrandbits(config.payload_bits)
        flits.append((kind, lap, payload))
        if kind is Kind.LOAD:
            flits.append((Kind.LOAD_LAST, lap, rng.getrandbits(config.payload_bits)))

    model, kinds, hits = UnitModel(), [], []
    for kind, lap, payload in flits:
        kinds.append(model.step(kind, lap, payload))
        hit = False
        if kind is Kind.WINDOW and model.active:
            low, high = (split(part, tests) for part in model.parts[-2:])
            bounds = list(zip(low, high, strict=True))
            hit = band_match(table, split(payload, tests), bounds)
        hits.append(hit)

    unit = Unit(config)

    async def bench(ctx):
        if not config.table_in_units:
            ctx.set(unit.table, table)
        seen_kinds, seen_hits = [], []
        for kind, lap, payload in [*flits, (Kind.IDLE, 0, 0)]:
            ctx.set(unit.i, {"kind": kind, "lap": lap, "payload": payload})
            await ctx.tick()
            seen_kinds.append(ctx.get(unit.o.kind))
            seen_hits.append(bool(ctx.get(unit.hit)))
        assert seen_kinds[:-1] == kinds
        seen_hits = seen_hits[config.test_cycles :]
        for (kind, _, _), seen, hit in zip(flits, seen_hits, hits, strict=True):
            assert kind is not Kind.WINDOW or seen == hit
        assert any(hits)

    run(unit, bench)


def test_reference_gives_each_value_once():
    unit = UnitModel()
    unit.step(Kind.LOAD_LAST, 0, 1)
    assert not unit.takes_collect(Kind.COLLECT, 1)
    unit.step(Kind.RETIRE, 0, 0)
    assert (unit.active, unit.held) == (False, True)
    assert unit.takes_collect(Kind.COLLECT, 0)
    unit.step(Kind.COLLECT, 0, 0)
    assert not unit.held
    assert not unit.takes_collect(Kind.COLLECT, 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("least", [False, True])
def test_random_ranges_are_folded(least, seed):
    """Tuple after tuple, with flits for other units between; each collected when it is due."""
    rng = random.Random(seed)
    modes = frozenset({Mode.PAIRS, Mode.SUM, Mode.MIN})
    config = JoinConfig(units=2, tests=1, key_bits=KEY_BITS, modes=modes, value_bits=6)
    flits, expected = [], {}
    for number in range(60):
        lap, other = number % 2, 1 - number % 2
        low, high = sorted(rng.choices(range(16), k=2))
        flits.append((Kind.LOAD_LAST, lap, low | high << KEY_BITS, 0))
        tests = []
        for _ in range(rng.randrange(12)):
            key, value = rng.randrange(16), rng.randrange(-32, 32)
            if rng.random() < 0.6:
                tests.append((low <= key <= high, value))
                flits.append((Kind.WINDOW, 0, key, value))
            else:
                foreign = [
                    (Kind.IDLE, lap),
                    (Kind.LOAD_LAST, lap),
                    (Kind.RETIRE, other),
                ]
                flits.append((*rng.choice(foreign), key, value))
        if rng.random() < 0.5:
            flits.append((Kind.RETIRE, lap, 0, 0))
            flits += [(Kind.WINDOW, 0, (low + high) // 2, 7)] * rng.randrange(2)
        flits += [(Kind.IDLE, 0, 0, 0)] * (config.fold_cycles - 1)
        flits.append((Kind.COLLECT, other, 5, 0))
        expected[len(flits)] = Folded.of(least, tests)
        flits.append((Kind.COLLECT, lap, 0, 0))

    unit, layout = Unit(config), config.folding.layout

    async def bench(ctx):
        ctx.set(unit.table, 0b10)
        ctx.set(unit.least, least)
        late = 0
        for number, (kind, lap, payload, value) in enumerate(flits):
            flit = {"kind": kind, "lap": lap, "payload": payload, "operand": late}
            late = value
            ctx.set(unit.i, flit)
            await ctx.tick()
            if kind is not Kind.COLLECT:
                continue
            o = ctx.get(unit.o)
            assert Kind(o.kind) is Kind.COLLECT
            if number not in expected:
                assert (o.lap, o.payload) == (lap, payload)
                continue
            assert o.lap == 1 - lap
            given = layout.from_bits(o.payload & (1 << layout.size) - 1)
            folded = expected[number]
            assert given.found == folded.found
            bits = config.operand_bits if least else config.folding.value_bits
            assert (given.value - folded.value) % (1 << bits) == 0 or not folded.found

    run(unit, bench)
    assert any(folded.found for folded in expected.values())


def split(payload, tests):
    return [payload >> KEY_BITS * d & (1 << KEY_BITS) - 1 for d in range(tests)]


def run(component, bench):
    simulator = Simulator(component)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
