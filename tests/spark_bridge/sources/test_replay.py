"""Files replayed as streams, without Spark where that will do."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import FileError, SchemaError, UsageError
from penstock.host.rows.files import read_schema, read_table
from penstock.sim.spark_replay import replay
from penstock.sim.spark_replay.replay import ReplaySource
from penstock.sim.spark_replay.replay_order import ReplayPlan, spark_types
from penstock.spark_bridge.sources.source_options import Options
from penstock.spark_bridge.types import spark_schema

ROWS = 1000
paced = pytest.mark.skipif(not replay.TOLD, reason="rates and sizes need Spark 4.2")


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "rows.parquet"
    n = np.arange(ROWS, dtype=np.int32)
    pq.write_table(pa.table({"n": n, "t": n // 2, "x": n % 7}), made, row_group_size=128)
    return str(made)


def source(path, **options):
    return ReplaySource({"path": path, **options})


def stream(path, **options):
    made = source(path, **options)
    return made.streamReader(made.schema())


def read(reader, start, end) -> list[int]:
    pieces = reader.partitions(start, end)
    copies = [pickle.loads(pickle.dumps((reader, piece))) for piece in pieces]
    return [n for r, p in copies for b in r.read(p) for n in b.column(0).to_pylist()]


@paced
@pytest.mark.parametrize("disorder", ["0", "25"])
def test_any_cut_gives_the_same_rows(path, disorder):
    whole = source(path, time="t", disorder=disorder, seed="3", partitions="1")
    order = read(stream(path, time="t", disorder=disorder, seed="3", partitions="1"),
                 *(stream(path, time="t", disorder=disorder, seed="3")._offset(k, 0)
                   for k in (0, ROWS)))  # fmt: skip
    assert sorted(order) == list(range(ROWS))
    assert (order == sorted(order)) == (disorder == "0")
    reader = whole.reader(whole.schema())
    (piece,) = reader.partitions()
    assert [n for b in reader.read(piece) for n in b.column(0).to_pylist()] == order
    cut = stream(path, time="t", disorder=disorder, seed="3", rowsPerBatch="130", partitions="3")
    cut.prepareForTriggerAvailableNow()
    offset, found = cut.initialOffset(), []
    while True:
        following = cut.latestOffset(offset, cut.getDefaultReadLimit())
        if following == offset:
            break
        part = read(cut, offset, following)
        assert len(part) <= 130
        assert part == read(cut, offset, following)  # what is repeated is the same
        found += part
        offset = following
    assert found == order


@paced
def test_batches_of_event_time(path):
    reader = stream(path, time="t:s", timePerBatch="2m", disorder="10s")
    reader.prepareForTriggerAvailableNow()
    offset, ends = reader.initialOffset(), []
    while offset["row"] < ROWS:
        offset = reader.latestOffset(offset, reader.getDefaultReadLimit())
        ends.append(offset["moment"])
    assert ends == [120 * k for k in range(1, 1 + len(ends))]
    assert len(ends) in (5, 6)  # 500 s and what comes late
    assert reader.latestOffset(offset, reader.getDefaultReadLimit()) == offset
    # An engine that asks for all gets all.
    assert reader.latestOffset(reader.initialOffset(), replay.ReadAllAvailable())["row"] == ROWS


@paced
@pytest.mark.parametrize(
    ("options", "at"),
    [({"rowsPerSecond": "100"}, {0: 0, 1: 100, 2.5: 250, 99: ROWS}),
     ({"time": "t:s", "speed": "60"}, {0: 2, 1: 122, 2: 242, 99: ROWS})],
)  # fmt: skip
def test_pace(path, monkeypatch, options, at):
    now = [50.0]
    monkeypatch.setattr(replay.time, "monotonic", lambda: now[0])
    reader = stream(path, **options)
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    found = {}
    for seconds in at:
        now[0] = 50.0 + seconds
        found[seconds] = reader.latestOffset(start, limit)["row"]
    assert found == at


def test_spark_4_1(path, monkeypatch):
    assert stream(path).latestOffset()["row"] == ROWS
    monkeypatch.setattr(replay, "TOLD", False)
    with pytest.raises(UsageError, match=r"Spark 4\.2"):
        stream(path, rowsPerBatch="5")


def test_another_replay_on_a_checkpoint(path):
    offset = stream(path, time="t", disorder="5", seed="1").initialOffset()
    for options in ({"time": "t", "disorder": "5", "seed": "2"}, {"time": "t"}):
        with pytest.raises(UsageError, match="checkpoint is of a replay of other rows"):
            stream(path, **options).partitions(offset, offset)


def test_csv_and_folders(path, tmp_path):
    table = pq.read_table(path)
    pacsv.write_csv(table, tmp_path / "rows.csv")
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        pq.write_table(table.slice(400 * k, 400), folder / f"{k}.parquet")
    for other in (tmp_path / "rows.csv", folder):
        reader = stream(str(other), time="t", disorder="25")
        ends = reader.initialOffset(), reader.latestOffset()
        assert sorted(read(reader, *ends)) == list(range(ROWS))


def test_types():
    dtypes = {
        pa.uint8(): pa.int16(),
        pa.uint32(): pa.int64(),
        pa.large_string(): pa.string(),
        pa.timestamp("ms", "Europe/Paris"): pa.timestamp("us", "UTC"),
        pa.date64(): pa.date32(),
    }
    given = pa.schema([pa.field(f"c{k}", dtype) for k, dtype in enumerate(dtypes)])
    assert spark_types(given).types == list(dtypes.values())
    assert len(spark_schema(spark_types(given)).fields) == len(dtypes)
    with pytest.raises(SchemaError, match="column c has type list"):
        spark_types(pa.schema([("c", pa.list_(pa.int8()))]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs the option path"),
        ({"path": "P", "partitions": "0"}, "partitions of penstock_replay is a whole number, 1"),
        ({"path": "P", "rowsPerSecond": "-1"}, "is a number above 0"),
        ({"path": "P", "disorder": "3"}, "name the column with the option time"),
        ({"path": "P", "time": "t", "disorder": "3s"}, "declare the unit"),
        ({"path": "P", "time": "t", "disorder": "3 parsecs"}, "a number, or a duration"),
        ({"path": "P", "time": "t", "speed": "2"}, "declare its unit"),
        ({"path": "P", "time": "t:fortnight"}, "COLUMN:UNIT"),
        ({"path": "P", "time": "t:s", "speed": "2", "rowsPerSecond": "2"}, "not both"),
        ({"path": "P", "speed": "2"}, "name the column"),
    ],
)
def test_options(path, options, message):
    given = {k: path if v == "P" else v for k, v in options.items()}
    with pytest.raises(UsageError, match=message):
        ReplaySource(given).streamReader(ReplaySource({"path": path}).schema())


def test_files(path, tmp_path):
    with pytest.raises(FileError, match="there is no file"):
        source(str(tmp_path / "gone.parquet")).schema()
    with pytest.raises(SchemaError, match="no column u"):
        ReplayPlan.from_options(Options({"path": path, "time": "u"}, "replay"))
    plan = ReplayPlan.from_options(Options({"path": path}, "replay"))
    (piece,) = plan.pieces(0, 10, 1)
    with pytest.raises(SchemaError, match="no column y"):
        next(plan.read(piece, pa.schema([("y", pa.int32())])))


@pytest.mark.slow
def test_timestamps_that_spark_writes_by_default(spark, tmp_path):
    """INT96: instants, which Arrow takes for wall clocks, and of few years."""
    folder, old = str(tmp_path / "rows"), "spark.sql.parquet.outputTimestampType"
    rows = spark.sql(
        "SELECT n, make_timestamp(y, 3, 10, 7, 30, 0.25, 'UTC') AS t, "
        "cast(make_timestamp(y, 3, 10, 7, 30, 0.25) AS timestamp_ntz) AS wall FROM "
        "VALUES (0, 2024), (1, 1600), (2, 9999), (3, NULL) AS rows(n, y)"
    )
    assert spark.conf.get(old) == "INT96"
    rows.coalesce(1).write.parquet(folder)
    expected = spark.read.parquet(folder)
    spark.dataSource.register(ReplaySource)
    found = spark.read.format("penstock_replay").load(folder)
    assert [f.dataType for f in found.schema] == [f.dataType for f in expected.schema]
    assert found.toArrow().sort_by("n").equals(expected.toArrow().sort_by("n"))
    assert read_schema(folder).field("t").type == pa.timestamp("us", "UTC")
    assert read_table(folder).column("t")[2].as_py().year == 9999
