"""Gathering by NumPy gives what Arrow's take gives."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.host.rows import gather

ARRAYS = [
    pa.array([1, 2, 3, 4], pa.int8()),
    pa.array([1, 2**64 - 1, 3, 4], pa.uint64()),
    pa.array([1.5, float("nan"), -0.0, 4], pa.float32()),
    pa.array(np.array([1, 2, 3, 4], np.float16)),
    pa.array([datetime(2026, 1, day) for day in range(1, 5)], pa.timestamp("us", "UTC")),
    pa.array([date(2026, 1, day) for day in range(1, 5)], pa.date32()),
    pa.array([timedelta(day) for day in range(4)], pa.duration("ms")),
    pa.array([1, None, 3, 4], pa.int32()),
    pa.array([True, False, True, True]),
    pa.array(["a", "bc", "", None]),
    pa.array([Decimal(1), Decimal(2), Decimal(3), Decimal(4)]),
    pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval()),
    pa.nulls(4),
    pa.nulls(4, pa.int64()),
    pa.array(["a", "b", "a", "b"]).dictionary_encode(),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.type))
@pytest.mark.parametrize("rows", [[], [3, 0, 0, 2], [1]])
def test_take(array: pa.Array, rows: list[int]) -> None:
    index = np.array(rows, np.int64)
    for given in (array, array.slice(1)):
        at = np.minimum(index, len(given) - 1)
        found = gather.take(given, at)
        found.validate(full=True)
        # NaN is no equal of itself: compared as text.
        assert str(found) == str(given.take(pa.array(at)))
        assert found.type == given.type


@pytest.mark.parametrize("array", ARRAYS[:8], ids=lambda array: str(array.type))
def test_values_and_back(array: pa.Array) -> None:
    word = gather.word(array.type)
    assert word is not None
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    found = gather.array_of(array.type, gather.values(array, word), valid)
    found.validate(full=True)
    assert str(found) == str(array)


def test_a_batch_keeps_its_schema() -> None:
    schema = pa.schema([pa.field("n", pa.int32(), nullable=False), pa.field("s", pa.string())])
    batch = pa.record_batch([[1, 2, 3], ["a", None, "c"]], schema=schema)
    found = gather.take_batch(batch, np.array([2, 0]))
    assert found.schema == schema
    assert found.to_pylist() == [{"n": 3, "s": "c"}, {"n": 1, "s": "a"}]
