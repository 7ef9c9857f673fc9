import random

import numpy as np
import pytest

from penstock.passes import Pass, plan, recover


def ranges(rng, n, width, longest):
    start = np.sort(np.array([rng.randrange(width) for _ in range(n)]))
    end = np.maximum.accumulate(start + [1 + rng.randrange(longest) for _ in range(n)])
    return start, end


def test_one_pass_while_units_suffice():
    start, end = np.arange(40), np.arange(40) + 8
    assert plan(start, end, 8) == [Pass(0, 40, 0, 47)]


def test_a_new_pass_where_the_unit_is_busy():
    start, end = np.arange(10), np.arange(10) + 9
    assert plan(start, end, 8) == [Pass(0, 8, 0, 16), Pass(8, 10, 8, 18)]


def test_a_new_pass_across_a_gap():
    assert plan(np.array([0, 90]), np.array([2, 95]), 8) == [Pass(0, 1, 0, 2), Pass(1, 2, 90, 95)]


def test_ranges_that_touch_share_a_pass():
    assert plan(np.array([0, 2]), np.array([2, 4]), 8) == [Pass(0, 2, 0, 4)]


@pytest.mark.parametrize("seed", range(20))
def test_recover_names_the_tuple_in_the_unit(seed):
    """Replays all passes unit by unit, and asks for every pair that is tested."""
    rng = random.Random(seed)
    units = rng.choice([2, 3, 5, 8])
    start, end = ranges(rng, 60, 80, rng.choice([2, 10, 40]))
    passes = plan(start, end, units)
    tested, ordinal = [], 0
    for part in passes:
        for position in range(part.begin, part.end):
            held = {}
            for i in range(part.first, part.stop):
                if start[i] <= position < end[i]:
                    unit = (i - part.first) % units
                    assert unit not in held
                    held[unit] = i
            tested += [(unit, ordinal, i, position) for unit, i in held.items()]
            ordinal += 1
    unit, ordinals, i, j = (np.array(column) for column in zip(*tested, strict=True))
    got_i, got_j = recover(passes, start, units, unit, ordinals)
    assert (got_i == i).all()
    assert (got_j == j).all()
    assert len(tested) == int((end - start).sum())
