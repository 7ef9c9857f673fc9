"""The generators find each of the mends that are taken out again, from any seed on."""

from __future__ import annotations

import pytest

from tests.fuzz.mutants import MUTANTS, search, search_twins

MOST_QUERIES, MOST_PAIRS = 20_000, 5000


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 100_000, 200_000])
@pytest.mark.parametrize("number", [n for n, one in MUTANTS.items() if not one.is_of_twins])
def test_a_mend_that_is_taken_out_is_found(number: int, start: int) -> None:
    count, finding = search(MUTANTS[number], start, MOST_QUERIES)
    assert finding is not None, f"{MUTANTS[number].name}: not in {count} queries"


@pytest.mark.slow
@pytest.mark.parametrize("number", [n for n, one in MUTANTS.items() if one.is_of_twins])
def test_twins_find_a_mend_that_is_taken_out(number: int) -> None:
    count, found = search_twins(MUTANTS[number], 0, MOST_PAIRS)
    assert found, f"{MUTANTS[number].name}: not in {count} pairs"
