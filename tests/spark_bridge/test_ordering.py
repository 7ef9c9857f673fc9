"""``ordered=True`` against the order computed from all rows of both sides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import QueryError
from penstock.spark_bridge import join, sql, stream

#: Greater than any end of a window.
NEVER = 1 << 40


def table(seed: int, rows: int) -> pa.Table:
    """Rows with many equal times, some of them NULL; ids are places."""
    rng = np.random.default_rng(seed)
    t = pa.array(rng.integers(0, 40, rows), mask=rng.random(rows) < 0.05)
    return pa.table({"id": np.arange(rows), "t": t, "x": rng.integers(0, 9, rows)})


TABLES = {"a": table(1, 120), "b": table(2, 90)}


def arrival(k: int, row: int | None) -> tuple | None:
    """Of a row of one side."""
    t = None if row is None else TABLES["ab"[k]]["t"][row].as_py()
    return None if t is None else (t, k, row)


def leaves(after: int | None, before: int | None, row: tuple) -> tuple:
    """What an output row is sorted by: the later arrival or the end of its window, then more."""
    places = row if len(row) == 2 else (row[0], None)
    own = [a for a in (arrival(k, p) for k, p in enumerate(places)) if a is not None]
    alone = [k for k, p in enumerate(places) if p is not None]
    if len(alone) == 2:
        return (max(own), min(own))
    if not own:
        return ((-NEVER, 0, 0), alone[0], places[alone[0]])
    reach = (after, before)[alone[0]]
    # Infinite windows end in the order of arrival.
    end = NEVER + own[0][0] if reach is None else own[0][0] + reach
    return ((end, 2), own[0])


@pytest.mark.parametrize(
    ("kind", "select", "window", "after", "before"),
    [
        ("JOIN", "a.id, b.id AS other", "b.t BETWEEN a.t - 3 AND a.t + 2", 2, 3),
        ("FULL JOIN", "a.id, b.id AS other", "b.t BETWEEN a.t - 3 AND a.t - 1", -1, 3),
        ("LEFT JOIN", "a.id, b.id AS other", "b.t >= a.t - 3", None, 3),
        ("LEFT ANTI JOIN", "a.id", "b.t BETWEEN a.t - 1 AND a.t + 5", 5, 1),
    ],
)
def test_rows_leave_in_order(spark, kind, select, window, after, before) -> None:
    text = f"SELECT {select} FROM a {kind} b ON {window} AND abs(a.x - b.x) < 1"
    frames = {n: spark.createDataFrame(t).repartitionByRange(3, "id") for n, t in TABLES.items()}
    options = {"time": {"a": "t", "b": "t"}}
    found = sql(spark, text, frames, **options, lanes=2, ordered=True).toArrow()
    expected = penstock.sql(text, TABLES, **options)
    rows, wanted = (list(zip(*t.to_pydict().values(), strict=True)) for t in (found, expected))
    assert found.schema.names == expected.schema.names
    assert len(wanted) > 20
    assert rows == sorted(wanted, key=lambda row: leaves(after, before, row))


def test_over_rows(spark) -> None:
    timed = {n: t.filter(t["t"].is_valid()) for n, t in TABLES.items()}
    frames = {n: spark.createDataFrame(t).coalesce(1) for n, t in timed.items()}
    options = {"time": ("t", "t"), "rows": 5, "select": "l.id, r.id AS other"}
    found = join(frames["a"], frames["b"], on="l.x < r.x", ordered=True, **options).toArrow()
    text = "SELECT l.id, r.id AS other FROM a l JOIN b r ON l.x < r.x"
    expected = penstock.sql(text, timed, time={"l": "t", "r": "t"}, rows={"l": 5, "r": 5})
    rows, wanted = (list(zip(*t.to_pydict().values(), strict=True)) for t in (found, expected))
    assert len(wanted) > 100
    assert rows == sorted(wanted, key=lambda row: leaves(0, 0, row))


def test_in_each_micro_batch(spark, tmp_path) -> None:
    """By time: rows of equal times have no places in a stream."""
    parts = tmp_path / "parts"
    frames = {}
    for name, own in TABLES.items():
        timed = own.filter(own["t"].is_valid())
        spark.createDataFrame(timed).coalesce(1).write.parquet(str(parts / name))
        frames[name] = spark.readStream.schema("id long, t long, x long").parquet(str(parts / name))
    found = stream(
        spark,
        "SELECT a.id, a.t, b.t AS u FROM a JOIN b ON b.t BETWEEN a.t - 3 AND a.t + 2 AND a.x < b.x",
        frames,
        time={"a": "t", "b": "t"},
        disorder=50,
        ordered=True,
        lanes=2,
    )
    assert found.schema.names == ["id", "t", "u"]
    rows = []
    running = found.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = running.trigger(availableNow=True)
    running = running.foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect())))
    assert running.start().awaitTermination(120)
    keys = [sorted([(t, 0), (u, 1)], reverse=True) for _, t, u in rows]
    assert len(keys) > 100
    assert keys == sorted(keys)


def test_what_has_no_order(spark) -> None:
    frames = {name: spark.createDataFrame(own) for name, own in TABLES.items()}
    options = {"time": {"a": "t", "b": "t"}, "within": 3, "ordered": True}
    with pytest.raises(QueryError, match=r"gives groups; sort them by their keys"):
        sql(spark, "SELECT a.id, count(*) FROM a JOIN b GROUP BY a.id", frames, **options)
