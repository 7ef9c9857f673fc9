"""Resident runs: rows and keys stay together while they are appended, dropped and merged."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.rows.row_store import RowStore
from penstock.host.windows.run import WindowRun
from penstock.types import int_of
from tests.kit.effort import examples
from tests.penstock.kit.dags import vector


def numbered(first: int, count: int) -> pa.RecordBatch:
    """A column of plain numbers, one of text, and numbers of which each seventh is NULL."""
    numbers = range(first, first + count)
    return pa.record_batch(
        {
            "n": pa.array(numbers, pa.int64()),
            "text": pa.array([f"row {n}" for n in numbers], pa.string()),
            "some": pa.array([n if n % 7 else None for n in numbers], pa.timestamp("ms")),
        }
    )


def picked(run: WindowRun, positions: np.ndarray) -> pa.Array:
    """Column n of the base rows at some logical positions."""
    snapshot = run.snapshot()
    return snapshot.rows.pick(positions, -snapshot.first).column("n")


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 1 << 32))
def test_rows_by_position(seed: int) -> None:
    rng = Random(seed)
    rows, model, made = RowStore(numbered(0, 0).schema), [], 0
    for _ in range(rng.randint(0, 30)):
        if rng.random() < 0.7:
            count = rng.choice((0, 1, 2, 5, 40))
            rows.append(numbered(made, count))
            model += range(made, made + count)
            made += count
        else:
            count = rng.randint(0, len(model))
            rows.drop(count)
            del model[:count]
        count = 6 if model else 0
        chosen = np.array([rng.randrange(len(model)) for _ in range(count)], np.int64)
        expected = pa.concat_batches([numbered(0, 0), *(numbered(model[k], 1) for k in chosen)])
        assert rows.view().take(chosen).equals(expected)
    assert rows.view().all()["n"].to_pylist() == model
    parts = rows.view().batches
    assert sum(part.num_rows for part in parts) == len(model)
    # Joining neighbours keeps their number logarithmic.
    assert len(parts) <= len(model).bit_length() + 1


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 1 << 32))
def test_keys_and_times_follow_the_rows(seed: int) -> None:
    rng = Random(seed)
    dtype = int_of(64, signed=False)
    model: list[tuple[int, int | None]] = []
    run = None
    for step in range(rng.randint(1, 12)):
        count = rng.randint(1, 6)
        keys = [rng.choice((None, 0, 7, (1 << 64) - 1)) for _ in range(count)]
        times = np.full(count, step, dtype=np.int64)
        batch = numbered(len(model), count)
        if run is None:
            run = WindowRun(times, [vector(keys, dtype)], batch)
        else:
            run.append(times, [vector(keys, dtype)], batch)
        model += [(step, key) for key in keys]
        gone = run.drop(rng.randint(0, len(model)))
        del model[:gone]
        assert len(run) == len(model)
        if not model:
            break
        assert run.times.tolist() == [t for t, _ in model]
        (v,) = run.snapshot().keys
        known = [True] * len(model) if v.valid is None else v.valid.tolist()
        found = [int(x) if ok else None for x, ok in zip(v.values, known, strict=True)]
        assert found == [key for _, key in model]


def test_fewer_than_half_of_the_rows_stay() -> None:
    run = WindowRun(np.arange(10), [], numbered(0, 10))
    assert run.drop(4) == 0
    assert len(run) == 10
    assert run.drop(5) == 5
    assert picked(run, np.array([5])).to_pylist() == [5]


def test_merged_runs_are_in_time_order() -> None:
    dtype = int_of(8)
    parts = [
        WindowRun(np.array([1, 5]), [vector([1, 2], dtype)], numbered(0, 2), np.array([10, 11])),
        WindowRun(
            np.array([0, 5, 9]), [vector([3, None, 4], dtype)], numbered(2, 3), np.arange(12, 15)
        ),
    ]
    run = WindowRun.merged(parts)
    assert run.times.tolist() == [0, 1, 5, 5, 9]
    assert run.snapshot().ids.tolist() == [12, 10, 11, 13, 14]
    assert picked(run, np.arange(5)).to_pylist() == [2, 0, 1, 3, 4]
    (v,) = run.snapshot().keys
    assert v.valid.tolist() == [True, True, True, False, True]
