"""Real streams in the order of cells and keys: pairs of different keys are never looked at."""

from __future__ import annotations

import pytest

from penstock.host.device.registry import open_device
from penstock.host.join.table.table_join import TableJoin
from penstock.host.prune.sizes import Pruning
from tests.test_known_answers import FOLDER, Answer, loaded

pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="PENSTOCK_DATA names no folder with the real streams"
)

#: Pairs of equal keys in each query's window.
EQUAL_KEYS = {
    "G1": 64_689,
    "Z1": 248_772,
    "B1": 926_811,
    "S2": 28_937,
    "G3": 448_085,
    "N2": 539_387,
}
#: Of those, pairs of tuples that no row can match: no flight of N2 has an id beyond the outermost,
#: no bus of B1 one beyond the last.
WITHOUT_ROWS = {"N2": 1, "B1": 2_964}


@pytest.mark.parametrize("run_rows", [(4096, 32768, 262144), (16, 128, 1024)])
@pytest.mark.parametrize("name", EQUAL_KEYS)
def test_pairs_of_equal_keys_are_all_that_is_tested(name: str, run_rows: tuple[int, ...]) -> None:
    query, tables = loaded(name)
    pruning = Pruning(least_pairs=1, run_rows=run_rows, always=True, bands=False)
    answer = Answer()
    with open_device("cpu", threads=2) as device:
        join = TableJoin(query, tables, device, pruning=pruning)
        for batch in join:
            answer.add(batch)
    answer.check(name, join.stats.pairs_in_window)
    assert join.stats.pairs_evaluated == EQUAL_KEYS[name] - WITHOUT_ROWS.get(name, 0)


def test_a_band_is_searched_in_neighbouring_cells_alone() -> None:
    """Two bands of 250 m: three quarters of the pairs of the window are left out."""
    query, tables = loaded("U2")
    pruning = Pruning(least_pairs=1, run_rows=(64, 512, 4096), always=True)
    answer = Answer()
    with open_device("cpu", threads=2) as device:
        join = TableJoin(query, tables, device, pruning=pruning)
        for batch in join:
            answer.add(batch)
    answer.check("U2", join.stats.pairs_in_window)
    assert join.stats.pairs_in_window == 6_577_004
    assert join.stats.pairs_evaluated <= 1_700_000
