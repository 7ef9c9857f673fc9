"""Base rows by place: of tables in any order, of stored rows, and of nobody."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.host.rows import gather
from penstock.host.rows.picked import Nobody, Picked
from penstock.host.rows.row_store import RowStore, TableRows

COUNT = 3 * gather.FEW
TABLE = pa.table(
    {
        "n": pa.array(np.arange(COUNT, dtype=np.int32)),
        "null": pa.array([None if k % 7 == 0 else k for k in range(COUNT)], pa.int16()),
        "s": pa.array([str(k % 100) for k in range(COUNT)]).dictionary_encode(),
    }
)


def orders() -> dict[str, np.ndarray]:
    """Rows of a table at each place of a window."""
    place = np.arange(COUNT)
    ends_kept = place.copy()
    ends_kept[1:-1] = np.random.default_rng(1).permutation(place[1:-1])
    return {
        "all": place,
        "later": place[COUNT // 3 :],
        "every other": place[::2],
        "backwards": place[::-1],
        "ends in place": ends_kept,
        "one": place[5:6],
    }


def same(picked: Picked | Nobody, rows: np.ndarray) -> None:
    """Whether each column has these rows of the table."""
    assert len(picked) == len(rows)
    np.testing.assert_array_equal(picked.present, np.ones(len(rows), bool))
    for name in TABLE.column_names:
        column = TABLE[name].combine_chunks()
        wanted = column.take(pa.array(rows, pa.int64()))
        found = picked.column(name)
        found.validate(full=True)
        assert found.equals(wanted.dictionary_decode() if name == "s" else wanted)


@pytest.mark.parametrize("order", orders())
@pytest.mark.parametrize("count", [0, 3, gather.FEW + 1])
@pytest.mark.parametrize("first", [0, 4, -4])
@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
def test_places_of_a_table(order: str, count: int, first: int, dtype: type) -> None:
    row = orders()[order]
    place = np.random.default_rng(count).integers(0, len(row), count)
    positions = (place - min(first, 0) if first < 0 else np.maximum(place - first, 0)).astype(dtype)
    if len(row) <= abs(first):
        positions, first = positions * 0, 0
    same(TableRows(TABLE, row).pick(positions, first), row[positions.astype(np.int64) + first])


@pytest.mark.parametrize("count", [0, 3, gather.FEW + 1])
@pytest.mark.parametrize("first", [0, -4])
@pytest.mark.parametrize("dropped", [0, 10])
def test_places_of_stored_rows(count: int, first: int, dropped: int) -> None:
    batch = TABLE.combine_chunks().to_batches()[0]
    store = RowStore(TABLE.schema)
    for low in range(0, COUNT, COUNT // 3):
        store.append(batch.slice(low, COUNT // 3))
    store.drop(dropped)
    place = np.random.default_rng(count).integers(0, COUNT - dropped, count)
    picked = store.view().pick((place - first).astype(np.uint32), first)
    same(picked, place + dropped)


@pytest.mark.parametrize("count", [0, 2, 50])
@pytest.mark.parametrize("tuples", [1, 10, gather.FEW + 1])
def test_rows_picked_many_times(count: int, tuples: int) -> None:
    rng = np.random.default_rng(tuples)
    among, index = rng.integers(0, COUNT, tuples), rng.integers(0, tuples, count)
    same(Picked(TABLE, index.astype(np.uint32), among), among[index])


def test_a_whole_base() -> None:
    same(Picked(TABLE), np.arange(COUNT))


def test_nobody() -> None:
    none = Nobody(TABLE.schema, 3)
    assert len(none) == 3
    assert not none.present.any()
    for name, dtype in (("n", pa.int32()), ("null", pa.int16()), ("s", pa.string())):
        assert none.column(name).equals(pa.nulls(3, dtype))
