"""Random queries written from the documents alone; python -m tests.own_queries runs more."""

import pytest

from tests.own_queries.making import SETS, case_of
from tests.own_queries.running import verdict

START = 800  # another seed finds more


@pytest.mark.parametrize(("mode", "queries"), [("tables", 5), ("streams", 1)])
def test_random_queries(mode, queries):
    """Rows are those of a plain evaluator, and nothing but refusals stands in for them."""
    ran = 0
    for seed in range(START, START + queries * SETS):
        what, why = verdict(case_of(seed, mode, seed % 2 == 0), seed)
        assert what in ("rows", "refused"), f"{mode} {seed}: {why}"
        ran += what == "rows"
    assert ran > queries * SETS // 2


def test_a_changed_value_is_noticed():
    """A value that is changed, or a row that is left out, is found."""
    seeds = range(START, START + 5 * SETS, SETS)
    noticed = [verdict(case_of(seed, "tables", False), seed, True)[0] for seed in seeds]
    assert noticed.count("wrong") >= 2
