import random

import numpy as np
import pytest

from penstock.errors import DeviceError
from penstock.hw.join.band import band_match
from penstock.hw.join.fjoin.config import FJoinConfig
from penstock.hw.join.fjoin.predicates import general_form, manhattan
from penstock.hw.join.kernel.config import KernelConfig
from penstock.passes import Pass, plan_batches, recover
from penstock.program import BandProgram, Mode
from tests.penstock.kit.reference import evaluate

PROGRAM = manhattan(8, limit=60)


def test_bad_arguments():
    with pytest.raises(ValueError, match="units must be 2 to 65536, not 1"):
        FJoinConfig(program=PROGRAM, units=1)
    with pytest.raises(ValueError, match="units_per_block must be a power of two, not 6"):
        FJoinConfig(program=PROGRAM, units_per_block=6)
    with pytest.raises(DeviceError, match="give it a program, not band tests"):
        FJoinConfig(tests=2)
    with pytest.raises(DeviceError, match="the paper's unit emits pairs only"):
        FJoinConfig(program=PROGRAM, modes=frozenset({Mode.PAIRS, Mode.COUNT}))


def test_room_for_what_is_in_flight():
    config = FJoinConfig(program=PROGRAM, units=4)
    # 10 matches of window tuples in units, 4 results in registers, one and 16 at the outlet.
    assert config.in_flight_records == 10 + 4 + 1 + 16
    kernel = KernelConfig.fit(config)
    assert isinstance(kernel.join, FJoinConfig)
    assert kernel.least_result_words > config.in_flight_records


def test_a_pass_holds_as_many_tuples_as_there_are_units():
    zeros = np.zeros(10, int)
    assert plan_batches(zeros, zeros + 50, 4) == [
        *[Pass(0, 4, 0, 50), Pass(4, 8, 0, 50), Pass(8, 10, 0, 50)]
    ]
    # Units that are free again are not loaded again before the units were cleared.
    assert plan_batches(np.arange(6), np.arange(6) + 1, 4) == [Pass(0, 4, 0, 4), Pass(4, 6, 4, 6)]


def test_long_gaps_are_skipped():
    start, end = np.array([0, 7, 20]), np.array([3, 9, 21])
    assert plan_batches(start, end, 4) == [Pass(0, 2, 0, 9), Pass(2, 3, 20, 21)]


@pytest.mark.parametrize("seed", range(10))
def test_results_name_their_tuple(seed):
    """Stream tuple k of its pass is unit k of a record."""
    rng = random.Random(seed)
    start = np.sort([rng.randrange(80) for _ in range(40)])
    end = np.maximum.accumulate(start + [1 + rng.randrange(30) for _ in range(40)])
    passes = plan_batches(start, end, 6)
    pairs, before = [], 0
    for part in passes:
        for i in range(part.first, part.stop):
            assert part.begin <= start[i] <= end[i] <= part.end
            pairs += [
                (i - part.first, before + j - part.begin, i, j) for j in range(start[i], end[i])
            ]
        before += part.end - part.begin
    unit, ordinal, i, j = (np.array(column) for column in zip(*pairs, strict=True))
    got_i, got_j = recover(passes, start, 6, unit, ordinal)
    np.testing.assert_array_equal(got_i, i)
    np.testing.assert_array_equal(got_j, j)
    assert len(pairs) == (end - start).sum()


@pytest.mark.parametrize(
    ("tests", "table"), [(1, 0b10), (1, 0b00), (2, 0b1111), (2, 0b1110), (3, 0b11101000)]
)
def test_general_form_of_a_band_program(tests, table):
    rng = random.Random(tests)
    program = general_form(BandProgram(tests, table, key_bits=4))
    assert (len(program.stream), len(program.window)) == (2 * tests, tests)
    seen = set()
    for _ in range(300):
        keys = [rng.randrange(16) for _ in range(tests)]
        bounds = [(rng.randrange(16), rng.randrange(16)) for _ in range(tests)]
        row = {("w", d): key for d, key in enumerate(keys)}
        row |= {("s", 2 * d + side): bounds[d][side] for d in range(tests) for side in (0, 1)}
        found = evaluate(program.predicate, row)
        assert found is band_match(table, keys, bounds)
        seen.add(found)
    assert seen == ({True, False} if table & 1 == 0 and table else {bool(table)})
