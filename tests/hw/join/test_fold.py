import random

import pytest
from amaranth.sim import Simulator

from penstock.hw.join.fold import Fold, Folded
from penstock.hw.join.modes import CODES, Folding, refused_sum
from penstock.program import Mode
from penstock.types import integer

BITS, POSITIONS = 5, 6
ALL = frozenset(Mode)


def folding(*modes):
    modes = frozenset(modes) | {Mode.PAIRS}
    bits = BITS if any(mode.needs_value for mode in modes) else 0
    return Folding(modes, bits, POSITIONS)


def test_reference_keeps_the_first_of_the_least():
    tests = [(True, 4), (False, -9), (True, 2), (True, 2)]
    assert Folded.of(True, tests) == Folded(True, 2, True, position=2, tested=4)
    assert Folded.of(False, tests) == Folded(False, 8, True, tested=4)
    assert not Folded.of(True, [(False, 1)]).found


def test_one_code_per_mode():
    assert sorted(CODES.values()) == list(range(len(Mode)))
    assert CODES[Mode.PAIRS] == 0  # what a pipeline is in after reset


@pytest.mark.parametrize(
    ("modes", "fields"),
    [
        ([Mode.EXISTS], {"found": 1}),
        ([Mode.COUNT], {"value": 6}),
        ([Mode.COUNT, Mode.EXISTS], {"value": 6}),
        ([Mode.MIN], {"value": 5, "found": 1}),
        ([Mode.COUNT, Mode.MAX], {"value": 6, "found": 1}),
        ([Mode.SUM], {"value": 11, "found": 1}),
        ([Mode.NEAREST], {"value": 5, "found": 1, "position": 6}),
        (list(Mode), {"value": 11, "found": 1, "position": 6}),
    ],
)
def test_what_a_unit_gives(modes, fields):
    layout = folding(*modes).layout
    assert {name: field.width for name, field in layout} == fields


def test_widths_of_sums():
    assert refused_sum(32, 32) is None
    assert "a value of 33 bits is too wide to be summed" in refused_sum(33, 32)
    assert integer(0, 255).signed_bits == 9
    assert integer(-1, 255).signed_bits == 9


@pytest.mark.parametrize(
    ("modes", "least"),
    [
        (ALL, False),
        (ALL, True),
        ({Mode.COUNT, Mode.MIN}, True),
        ({Mode.SUM}, False),
        ({Mode.COUNT}, False),
        ({Mode.MAX}, True),
        ({Mode.NEAREST}, True),
    ],
)
def test_random_matches(modes, least):
    """Ranges of any length, in builds that do both folds and in builds that do one."""
    build = folding(*modes)
    fold, rng = Fold(build), random.Random(7)
    extremes = [-(1 << BITS - 1), (1 << BITS - 1) - 1]

    async def bench(ctx):
        if build.adds and build.keeps_least:
            ctx.set(fold.least, least)
        for _ in range(40):
            ctx.set(fold.clear, 1)
            ctx.set(fold.hit, 0)
            await ctx.tick()
            ctx.set(fold.clear, 0)
            folded = Folded(least)
            for _ in range(rng.choice([0, 1, 3, 30])):
                live = rng.random() < 0.8
                hit = live and rng.random() < 0.6
                operand = rng.choice([rng.randint(*extremes), *extremes])
                if not build.operand_bits:
                    operand = 1
                else:
                    ctx.set(fold.operand, operand)
                ctx.set(fold.hit, hit)
                if build.places:
                    ctx.set(fold.live, live)
                await ctx.tick()
                if live:
                    folded.step(hit, operand)
            check(ctx.get(fold.o), folded)

    def check(given, folded):
        if build.finds:
            assert given.found == folded.found
        bits = build.operand_bits if least else build.value_bits
        if folded.found or not least:
            assert given.value & (1 << bits) - 1 == folded.value & (1 << bits) - 1
        if build.places and least and folded.found:
            assert given.position == folded.position

    simulator = Simulator(fold)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
