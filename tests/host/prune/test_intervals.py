"""Bounds of predicates: none says that boxes with a match have none."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.host.prune.intervals import Bounds, Truth, bounds_of, range_of
from penstock.program import GeneralProgram
from penstock.types import Kind, Type
from tests.host.kit.predicates import NARROW, OTHER, WIDE, general_join
from tests.host.kit.tasks import RANGES, Join, expected
from tests.kit.effort import examples


def boxes(column: np.ndarray, dtype: Type, cuts: np.ndarray, axis: int) -> Bounds:
    """Bounds of the values between cuts, along an axis."""
    parts = [column[a:b] for a, b in pairwise(cuts)]

    def each(values: list) -> np.ndarray:
        return np.expand_dims(np.array(values), 1 - axis)

    if dtype.kind is Kind.BOOL:
        return Truth(each([p.any() for p in parts]), each([not p.all() for p in parts]))
    if not dtype.is_float:
        low, high = ([f(p) for p in parts] for f in (np.min, np.max))
        return range_of(each(low), each(high), dtype)
    known = [p[~np.isnan(p)] for p in parts]
    low = each([p.min(initial=np.inf) for p in known])
    high = each([p.max(initial=-np.inf) for p in known])
    return range_of(low, high, dtype, each([bool(np.isnan(p).any()) for p in parts]))


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(0, 1 << 32))
@example(1508985)  # a decimal is cast to a float, which scales it
def test_bounds_rule_out_no_match(seed: int) -> None:
    rng = np.random.default_rng(seed)
    types = NARROW + OTHER + (WIDE if rng.random() < 0.5 else ())
    kind = str(rng.choice(RANGES))
    join = general_join(rng, types, int(rng.integers(1, 12)), 20, 30, kind)
    join = Join(join.program, join.window, join.stream, join.start * 0, join.end * 0 + 30)
    program = join.program
    assert isinstance(program, GeneralProgram)
    cuts = [np.unique([0, n, *rng.integers(1, n, n // 2)]) for n in (20, 30)]
    sides = (("s", join.stream, program.stream, 0), ("w", join.window, program.window, 1))
    keys = {
        (side, k): boxes(column, columns_types[k], cuts[axis], axis)
        for side, columns, columns_types, axis in sides
        for k, column in enumerate(columns)
    }
    may = bounds_of(program.predicate, keys).true
    may = np.broadcast_to(may, (len(cuts[0]) - 1, len(cuts[1]) - 1))
    i, j = expected(join).T
    groups, blocks = (
        np.searchsorted(c, at, "right") - 1 for c, at in zip(cuts, (i, j), strict=True)
    )
    assert may[groups, blocks].all()
