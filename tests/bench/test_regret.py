"""bench.regret: random joins give the same rows by every plan, and as DuckDB's."""

from __future__ import annotations

import pytest

from bench.regret.joins import random_join
from bench.regret.plans import CHOSEN, DUCKDB, PENSTOCK, Seen, digest, noting, on_penstock, run


def test_the_same_seed_is_the_same_join():
    one, again = random_join(3, 500), random_join(3, 500)
    assert one.text == again.text
    assert one.tables == again.tables


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 60))]
)
def test_every_plan_gives_the_same_rows(seed):
    join = random_join(seed, 1500, most_out=20_000)
    expected = digest(run(join, DUCKDB))
    assert digest(run(join, CHOSEN)) == expected, join.on
    seen = Seen()
    with noting(seen), on_penstock():
        assert digest(run(join, PENSTOCK)) == expected, join.on
    for plan in seen.plans()[2:-1]:
        assert digest(run(join, plan)) == expected, (plan, join.on)
