"""The generator finds each of three mends that are taken out again, from any seed on."""

from __future__ import annotations

import pytest

from tests.fuzz.mutants import MUTANTS, search

MOST_QUERIES = 20_000


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 100_000, 200_000])
@pytest.mark.parametrize("number", MUTANTS)
def test_a_mend_that_is_taken_out_is_found(number: int, start: int) -> None:
    count, finding = search(MUTANTS[number], start, MOST_QUERIES)
    assert finding is not None, f"{MUTANTS[number].name}: not in {count} queries"
