import random

import pytest
from amaranth.sim import Simulator

from penstock.hw.join.band import band_match
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind
from penstock.hw.join.unit import Unit, UnitModel

KEY_BITS = 4


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
        assert seen_hits[config.test_cycles :] == hits
        assert any(hits)

    run(unit, bench)


def split(payload, tests):
    return [payload >> KEY_BITS * d & (1 << KEY_BITS) - 1 for d in range(tests)]


def run(component, bench):
    simulator = Simulator(component)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
