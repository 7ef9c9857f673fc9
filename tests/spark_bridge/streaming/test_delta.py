"""Delta tables as output: each micro-batch once, whatever is repeated or written beside it."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
pytest.importorskip("deltalake", reason="needs pip install 'penstock[delta]'")

from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.sql import types as T

import penstock
from penstock.errors import DataError, FileError, MissingToolError, SchemaError, UsageError
from penstock.spark_bridge import stream
from penstock.spark_bridge.streaming.delta import DeltaSink
from tests.kit.foreign import ForeignFiles
from tests.kit.object_server import BUCKET, CREDENTIALS
from tests.spark_bridge.kit.apps import ended_of, run_app
from tests.spark_bridge.kit.delta_app import EXIT, TEXT
from tests.spark_bridge.kit.streams import cut, drawn, rows_of, stream_of, table, written

DDL = "n long, k string"


@pytest.fixture
def sides():
    return {side: cut(drawn(seed, 90, disorder=3), 3) for seed, side in enumerate("ab")}


@pytest.fixture
def joined(spark, tmp_path, sides):
    """A join of three micro-batches."""
    tables = {}
    for side, parts in sides.items():
        folder = written(tmp_path / side, [table(part) for part in parts])
        tables[side] = stream_of(spark, folder)
    return stream(spark, TEXT, tables, lanes=2)


def writer_of(joined, folder: Path, **options):
    writer = joined.writeStream.format("delta").trigger(availableNow=True).options(**options)
    return writer.option("checkpointLocation", str(folder / "checkpoint"))


def expected(sides) -> list[tuple]:
    whole = {side: table([row for part in parts for row in part]) for side, parts in sides.items()}
    return rows_of(penstock.sql(TEXT, whole), ["a", "b"])


def found(path: Path, *names: str) -> list[tuple]:
    return rows_of(DeltaTable(path).to_pyarrow_table(), names)


def sink_of(path: Path, *by: str, query: str = "q", **options) -> DeltaSink:
    sink = DeltaSink.from_options(
        str(path), by, {key: str(value) for key, value in options.items()}
    )
    return DeltaSink(**{**vars(sink), "query": query})


def put(spark, sink: DeltaSink, batch: int, *rows: tuple) -> None:
    frame = spark.createDataFrame(rows, DDL)
    sink.open(frame.schema)
    sink(frame, batch)


def log_of(path: Path) -> list[str]:
    return sorted(p.name for p in (path / "_delta_log").glob("*.json"))


# -- options and tables that do not fit -----------------------------------------------------------


def test_options(tmp_path):
    for options, said in [
        (
            {"compactEvery": "x"},
            "compactEvery of format delta is a whole number, 0 or more, not 'x'",
        ),
        ({"vacuum": "1"}, "option vacuum of format delta is true or false, not '1'"),
        ({"compression": "zstd"}, r"format delta has no option compression; it has compactEvery"),
    ]:
        with pytest.raises(UsageError, match=said):
            DeltaSink.from_options(str(tmp_path), (), options)
    made = DeltaSink.from_options(
        "file:///a%20b", ["k"], {"storage.region": "x", "compactEvery": "0"}
    )
    assert made == DeltaSink("/a b", ("k",), {"region": "x"}, 0)
    assert DeltaSink.from_options("s3://bucket/t", (), {}).location == "s3://bucket/t"


def test_without_the_package(joined, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingToolError, match=r"pip install '\.\[delta\]'"):
        writer_of(joined, tmp_path).start(str(tmp_path / "out"))


def test_tables_that_the_rows_do_not_fit_into(spark, joined, tmp_path):
    def refused(said: str, path: str = "out", *by: str, error: type[Exception] = UsageError):
        with pytest.raises(error, match=said):
            writer_of(joined, tmp_path).partitionBy(*by).start(str(tmp_path / path))

    refused("partitionBy names c, and the output has a, b", "new", "c")
    refused("partitionBy names all columns", "new", "a", "b")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "batch=0").mkdir()
    refused("is no Delta table, and has batch=0; choose another path", "other")
    (tmp_path / "file").touch()
    refused("cannot .* the Delta table .*file", "file", error=FileError)
    longs = pa.table({"a": pa.array([1]), "b": pa.array([1])})
    write_deltalake(tmp_path / "types", longs.set_column(1, "b", pa.array([1], pa.int32())))
    refused(r"has other columns \(b is integer there and long here\)", "types")
    write_deltalake(tmp_path / "more", longs.append_column("c", pa.array(["x"])))
    refused(r"\(c is string there and missing here\); write the same columns", "more")
    refused(r"c is string there", "more", "c")
    write_deltalake(tmp_path / "by", longs, partition_by=["a"])
    refused("is partitioned by a, not by b; leave partitionBy out", "by", "b")
    write_deltalake(tmp_path / "rules", longs)
    DeltaTable(tmp_path / "rules").alter.add_constraint({"positive": "a > 0"})
    refused(r"rules that Penstock does not keep \(delta.constraints.positive\)", "rules")
    assert not (tmp_path / "new").exists()


def test_columns_that_a_table_cannot_have(spark, tmp_path):
    sink = sink_of(tmp_path / "t")
    for ddl, said in [
        ("i interval day to second", "no type for column i, interval day to second; CAST it"),
        ("s struct<i: array<interval day to second>>", "no type for column s, struct<"),
        ("s struct<v: void>", "no type for column s, struct<v:void>"),
        ("n long, N long", "cannot have two columns n; rename one with AS"),
    ]:
        with pytest.raises(SchemaError, match=said):
            sink.open(spark.createDataFrame([], ddl).schema)
    with pytest.raises(UsageError, match="column d is double, and a Delta table is partitioned by"):
        sink_of(tmp_path / "t", "d").open(spark.createDataFrame([], "d double, n long").schema)
    assert not (tmp_path / "t").exists()


# -- once -----------------------------------------------------------------------------------------


def test_a_join_into_one_table_once(joined, sides, tmp_path):
    path, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    assert writer_of(joined, tmp_path).start(str(path)).awaitTermination(120)
    rows, log, files = found(path, "a", "b"), log_of(path), sorted(path.glob("*.parquet"))
    assert rows == expected(sides)
    assert len(log) == 1 + 3
    # Spark died before it noted the last batch: it computes the batch again.
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    again = writer_of(joined, tmp_path).start(str(path))
    assert again.awaitTermination(120)
    assert again.lastProgress["batchId"] == 2
    assert (found(path, "a", "b"), log_of(path), sorted(path.glob("*.parquet"))) == (
        rows,
        log,
        files,
    )


@pytest.mark.parametrize("point", ["before", pytest.param("after", marks=pytest.mark.slow)])
def test_a_driver_that_ends_around_a_commit(spark, joined, sides, tmp_path, point):
    """Between its files and the commit, or between that and Spark's own."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    done = run_app("delta_app", str(tmp_path), point, zone, timeout_s=300)
    assert done.returncode == EXIT, ended_of(done)
    path, commits = tmp_path / "out", tmp_path / "checkpoint" / "commits"
    assert sorted(p.name for p in commits.iterdir() if p.name.isdecimal()) == ["0"]
    assert len(log_of(path)) == 1 + (1 if point == "before" else 2)
    assert writer_of(joined, tmp_path).start(str(path)).awaitTermination(120)
    assert found(path, "a", "b") == expected(sides)
    assert len(log_of(path)) == 1 + 3
    left = {p.name for p in path.glob("*.parquet")} - {
        Path(name).name for name in DeltaTable(path).file_uris()
    }
    assert bool(left) == (point == "before")


def test_numbers_of_batches(spark, tmp_path):
    path = tmp_path / "t"
    sink = sink_of(path)
    put(spark, sink, 3, (1, "x"))
    put(spark, sink, 3, (7, "y"))  # the same rows, in a query
    put(spark, sink, 4)
    put(spark, sink, 4)
    put(spark, sink, 5, (2, "x"))
    assert found(path, "n") == [(1,), (2,)]
    assert len(log_of(path)) == 3
    with pytest.raises(DataError, match=r"batch 4 comes after batch 5 of the same query"):
        put(spark, sink, 4, (3, "x"))
    put(spark, sink_of(path, query="other"), 4, (3, "x"))
    assert found(path, "n") == [(1,), (2,), (3,)]


def test_a_second_driver_of_a_query(spark, tmp_path, monkeypatch):
    """It commits the batch while this one computes it."""
    path = tmp_path / "t"
    sink = sink_of(path)
    put(spark, sink, 0, (1, "x"))
    commit = DeltaTable.create_write_transaction

    def overtaken(table, *args, **kwargs):
        monkeypatch.setattr(DeltaTable, "create_write_transaction", commit)
        put(spark, sink_of(path), 1, (2, "x"))
        commit(table, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", overtaken)
    put(spark, sink, 1, (2, "x"))
    assert found(path, "n") == [(1,), (2,)]


def test_others_write_too(spark, tmp_path, monkeypatch):
    path = tmp_path / "t"
    sink = sink_of(path)
    put(spark, sink, 0, (1, "x"))
    commit, turns, changes = DeltaTable.create_write_transaction, [], []

    def beside(table, *args, **kwargs):
        turns.append(len(turns))
        if turns == [0]:
            write_deltalake(path, pa.table({"n": [9], "k": ["z"]}), mode="append")
        for change in changes:
            change(DeltaTable(path))
        commit(table, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", beside)
    put(spark, sink, 1, (2, "x"))
    assert found(path, "n") == [(1,), (2,), (9,)]
    assert turns == [0]  # appends do not conflict

    # A change of the table does; it is looked at again, and again.
    def touch(other):
        days = f"interval {len(turns)} days"
        other.alter.set_table_properties({"delta.logRetentionDuration": days})

    changes[:] = [touch]
    with pytest.raises(FileError, match=r"5 commits of batch 2 to .* met changes of others"):
        put(spark, sink, 2, (3, "x"))
    assert len(turns) == 6
    changes[:] = [lambda other: other.alter.add_columns([Field("new", PrimitiveType("long"))])]
    with pytest.raises(UsageError, match="new is long there and missing here"):
        put(spark, sink, 2, (3, "x"))
    assert found(path, "n") == [(1,), (2,), (9,)]


# -- rows -----------------------------------------------------------------------------------------


def test_types(spark, tmp_path):
    schema = T.StructType.fromDDL(
        "b boolean, i8 tinyint, i16 smallint, i32 int, n long, f float, d double, e decimal(20,3), "
        "x binary, s string, day date, t timestamp, z timestamp_ntz, "
        "m map<string, timestamp>, l array<struct<t: timestamp, v: decimal(5,2)>>"
    )
    at = datetime(2024, 3, 10, 7, 30, 0, 123456, tzinfo=UTC)  # an hour that New York lacks
    naive = at.replace(tzinfo=None)
    row = [True, 1, 2, 3, 4, 0.5, float("nan"), Decimal("-1.500"), b"\0", "é", date(1969, 1, 2)]
    row += [at, naive, {"k": at}, [{"t": at, "v": Decimal("1.25")}]]
    frame = spark.createDataFrame([row, [None] * len(row)], schema).coalesce(1)
    sink = sink_of(tmp_path / "t")
    sink.open(frame.schema)
    sink(frame, 0)
    read = DeltaTable(tmp_path / "t").to_pyarrow_table()
    assert read.schema.field("t").type == pa.timestamp("us", "UTC")
    assert read.schema.field("z").type == pa.timestamp("us")
    whole = next(one for one in read.to_pylist() if one["n"] is not None)
    assert repr(whole.pop("d")) == "nan"
    wanted = dict(zip(schema.names, row, strict=True))
    wanted["m"] = [("k", at)]
    wanted.pop("d")
    assert whole == wanted
    # What readers pass files over by: exact, without the columns that order otherwise.
    adds = pa.table(DeltaTable(tmp_path / "t").get_add_actions(flatten=True)).to_pylist()[0]
    assert (adds["num_records"], adds["min.n"], adds["null_count.n"]) == (2, 4, 1)
    assert adds["max.t"] == at
    assert adds.get("min.d") is None


def test_partitions(spark, tmp_path):
    path = tmp_path / "t"
    sink = sink_of(path, "k", "day")
    rows = [
        (n, [None, "", "a=b/c d%", "é"][n % 4], [date(2024, 1, 1), None][n % 2]) for n in range(40)
    ]
    frame = spark.createDataFrame(rows, "n long, k string, day date").repartition(2)
    sink.open(frame.schema)
    sink(frame, 0)
    kept = [(n, k or None, day) for n, k, day in rows]  # Delta has no empty text there
    assert found(path, "n", "k", "day") == sorted(kept, key=repr)
    table = DeltaTable(path)
    assert table.metadata().partition_columns == ["k", "day"]
    assert len(table.file_uris()) == 2 * 4  # of two tasks
    (only,) = {one["partition.k"] for one in files_of(table, "k", "é")}
    assert only == "é"
    # The table's own partitions, where none are named; and times.
    sink_of(path)(frame.limit(4), 1)
    assert len(found(path, "n")) == 44
    at = datetime(2024, 3, 10, 7, 30, 0, 123456, tzinfo=UTC)
    times = spark.createDataFrame([(1, at), (2, None)], "n long, t timestamp")
    sink = sink_of(tmp_path / "times", "t")
    sink.open(times.schema)
    sink(times, 0)
    assert found(tmp_path / "times", "n", "t") == [(1, at), (2, None)]


def files_of(table: DeltaTable, name: str, value: str) -> list[dict]:
    adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [one for one in adds if one[f"partition.{name}"] == value]


def test_small_files_are_merged(spark, tmp_path, caplog):
    path = tmp_path / "t"
    sink = sink_of(path, compactEvery=4)
    for batch in (0, 1, 2, 3):
        put(spark, sink, batch, (batch, "x"))
    table = DeltaTable(path)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    assert len(table.file_uris()) == 4
    put(spark, sink, 6, (6, "x"))  # no multiple, but beyond one
    assert len(DeltaTable(path).file_uris()) == 1
    assert found(path, "n") == [(n,) for n in (0, 1, 2, 3, 6)]
    assert list((path / "_delta_log").glob("*.checkpoint.parquet"))
    assert len(log_of(path)) < 7
    # The table still knows the batch, and old files stay for those who read them.
    put(spark, sink, 6, (7, "x"))
    assert found(path, "n") == [(n,) for n in (0, 1, 2, 3, 6)]
    assert len(list(path.glob("*.parquet"))) == 6
    # The retention is the table's.
    retention = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    DeltaTable(path).alter.set_table_properties(retention)
    (path / f"part-{uuid4().hex}.parquet").write_bytes(b"of an attempt that failed")
    foreign = ForeignFiles()
    foreign.put(path, "report.parquet", "part-1.parquet", "k=1/mine.parquet")
    put(spark, sink_of(path, compactEvery=4, vacuum="true"), 8, (8, "x"))
    foreign.require_untouched()
    assert len([file for file in path.glob("*.parquet") if file not in foreign]) == 1
    assert found(path, "n") == [(n,) for n in (0, 1, 2, 3, 6, 8)]
    # Such as copy-<version>.json: delta-rs would remove them together with the log's own.
    foreign.put(path / "_delta_log")
    put(spark, sink_of(path, compactEvery=4, vacuum="true"), 12, (9, "x"))
    foreign.require_untouched()
    assert "small files are not merged and the log is not shortened" in caplog.text
    assert found(path, "n") == [(n,) for n in (0, 1, 2, 3, 6, 8, 9)]


def test_a_table_in_an_object_store(spark, object_server, request):
    """Tasks write through delta-rs, too."""
    endpoint = dict(one.split("=", 1) for one in object_server.split("&"))["endpoint_override"]
    storage = {
        **CREDENTIALS,
        "AWS_ENDPOINT_URL": f"http://{endpoint}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }
    options = {f"storage.{key}": value for key, value in storage.items()}
    sink = sink_of(f"s3://{BUCKET}/{request.node.name}", "k", compactEvery=2, **options)
    for batch in (0, 1, 1, 2):
        put(spark, sink, batch, (batch, "é/ü"))
    table = DeltaTable(sink.location, storage_options=storage)
    assert rows_of(table.to_pyarrow_table(), ["n", "k"]) == [(n, "é/ü") for n in range(3)]
    assert len(table.file_uris()) == 1
    missing = sink_of("s3://nowhere/t", **options)
    with pytest.raises(FileError, match=r"cannot .* the Delta table s3://nowhere/t"):
        put(spark, missing, 0, (1, "x"))
