"""A join of streams used as Spark's users use a streaming DataFrame."""

from __future__ import annotations

import shutil
from collections import Counter

import pyarrow as pa
import pytest

import penstock
from penstock.errors import UsageError

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from penstock.spark_bridge import explain, join, sql, stream
from tests.spark_bridge.kit.streams import cut, drawn, put, stream_of, table, written

TEXT = (
    "SELECT a.n, b.n AS m, b.x FROM a JOIN b ON abs(a.x - b.x) < 3 "
    "AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t"
)
ROWS = {side: drawn(seed, 90, disorder=0, timeless=False) for seed, side in enumerate("ab")}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("streams")
    return {s: written(place / s, [table(p) for p in cut(own, 2)]) for s, own in ROWS.items()}


@pytest.fixture
def tables(spark, folders):
    return {side: stream_of(spark, folder) for side, folder in folders.items()}


def collected(frame, checkpoint, **first) -> Counter:
    """The rows of all batches, each once."""
    found: dict[int, Counter] = {}

    def keep(rows, batch: int) -> None:
        found[batch] = Counter(map(tuple, rows.collect()))

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    running = writer.trigger(availableNow=True).start(**first)
    try:
        assert running.awaitTermination(240)
    finally:
        running.stop()
    return sum(found.values(), Counter())


def test_rows_are_computed_as_of_a_dataframe(spark, tables, tmp_path):
    near = stream(spark, TEXT, tables, lanes=1)
    assert isinstance(near, DataFrame)
    assert isinstance(near.writeStream, DataStreamWriter)
    assert near.isStreaming
    assert near.sparkSession is spark
    assert near.columns == ["n", "m", "x"]
    assert near.dtypes == [("n", "bigint"), ("m", "bigint"), ("x", "int")]
    made = (
        near.where(near.x > 2)
        .filter("n % 2 = 0")
        .withColumn("sum", near["n"] + F.col("m"))
        .withColumns({"text": F.concat(F.lit("x"), "x")})
        .drop("x")
        .withColumnRenamed("m", "other")
        .select("n", "other", "sum", F.upper("text").alias("text"))
        .transform(lambda rows: rows.selectExpr("*", "other * 2 AS twice"))
    )
    assert made.columns == ["n", "other", "sum", "text", "twice"]
    assert near.columns == ["n", "m", "x"]
    on_tables = penstock.sql(TEXT, {side: table(own) for side, own in ROWS.items()})
    wanted = Counter(
        (n, m, n + m, f"X{x}", 2 * m)
        for n, m, x in zip(*(c.to_pylist() for c in on_tables.columns), strict=True)
        if x > 2 and n % 2 == 0
    )
    assert wanted
    assert collected(made, tmp_path / "checkpoint") == wanted
    rest = made.remaining(str(tmp_path / "checkpoint"))
    assert rest.columns == made.columns


def test_a_name_with_a_backtick(spark, tables):
    odd = stream(spark, TEXT, tables, lanes=1).withColumnRenamed("n", "a`b")
    assert odd.where(getattr(odd, "a`b") > 2).columns == ["a`b", "m", "x"]


def test_the_former_name_of_remaining(spark, tables):
    near = stream(spark, TEXT, tables, lanes=1)
    assert near.rest == near.remaining


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda near: near.select(F.count("*")), r"select needs more than a row .*Aggregate"),
        (
            lambda near: near.withColumn("r", F.row_number().over(Window.orderBy("n"))),
            "withColumn needs more than a row .*Window.*text of the query, or .*foreachBatch",
        ),
        (lambda near: near.groupBy("x"), "has no groupBy: write it in the text of the query"),
        (lambda near: near.join(near, "n"), "has no join: write it in the text"),
        (lambda near: near.show(), r"has no show: write the rows"),
        (lambda near: near.write, "has no write: .*foreachBatch"),
        (lambda near: near.rdd, "has no rdd: .*foreachBatch"),
        (lambda near: near.sample(0.5), "has no sample: "),
    ],
)
def test_what_needs_more_than_a_row(spark, tables, use, message):
    with pytest.raises(UsageError, match=message):
        use(stream(spark, TEXT, tables))


def test_every_method_of_a_dataframe_is_known(spark, tables):
    """Each is of the join, or says what to do: none is Spark's, which knows nothing of it."""
    near = type(stream(spark, TEXT, tables))
    own = {"__module__": None}
    for name in dir(DataFrame):
        if name.startswith("_") or name in own:
            continue
        home = next(kind for kind in near.__mro__ if name in vars(kind))
        assert home is not DataFrame, name


def test_unknown_columns(spark, tables):
    near = stream(spark, TEXT, tables)
    with pytest.raises(AttributeError, match="no attribute or column y"):
        _ = near.y
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        near.select("y")
    assert "x" in dir(near)
    assert repr(near) == "StreamingJoin[n: bigint, m: bigint, x: int]"


def test_explain_prints(spark, tables, capsys):
    near = stream(spark, TEXT, tables)
    near.explain()
    shown = capsys.readouterr().out
    assert "inner of a and b" in shown
    assert explain(spark, TEXT, tables) in shown


# -- a static DataFrame beside a stream -----------------------------------------------------------

NAMES = pa.table(
    {
        "x": pa.array([0, 1, 1, 3, None, 40], pa.int32()),
        "name": ["zero", "one", "also one", None, "nothing", "far"],
        "least": pa.array([0, 0, 50, 10, 0, 0], pa.int64()),
    }
)
LOOKUPS = {
    "equality": "SELECT a.n, d.name FROM a LEFT JOIN d ON a.x = d.x AND a.n >= d.least",
    "no equality": "SELECT a.n, d.name FROM a JOIN d ON a.n BETWEEN d.least AND d.least + 3",
    "neither": "SELECT a.n, d.x FROM a JOIN d ON d.name LIKE '%o%' AND a.n < 5",
    "semi": "SELECT a.n FROM a LEFT SEMI JOIN d ON a.x = d.x",
    "computed": (
        "SELECT a.n, upper(d.name) AS name FROM a JOIN d "
        "ON concat('x', a.x) = concat('x', d.x) WHERE a.n % 2 = 0"
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=() if one in ("semi", "computed") else pytest.mark.slow)
        for one in LOOKUPS
    ],
)
def test_a_static_table_is_looked_up(spark, tables, tmp_path, name):
    static = spark.createDataFrame(NAMES)
    made = stream(spark, LOOKUPS[name], {"a": tables["a"], "d": static})
    assert made.isStreaming
    with_view = {"a": table(ROWS["a"]), "d": NAMES}
    frames = {one: spark.createDataFrame(rows) for one, rows in with_view.items()}
    wanted = Counter(map(tuple, spark.sql(_marked(LOOKUPS[name]), **frames).collect()))
    assert wanted
    assert made.columns == spark.sql(_marked(LOOKUPS[name]), **frames).columns
    assert collected(made, tmp_path / "checkpoint") == wanted


def _marked(text: str) -> str:
    return text.replace("FROM a ", "FROM {a} a ").replace("JOIN d ", "JOIN {d} d ")


def test_it_is_stored_once(spark, folders, tmp_path):
    """A second start goes on with the rows of the first one, also where the table has changed."""
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    shutil.copytree(folders["a"], source)
    read = stream_of(spark, source)
    text = "SELECT a.n, d.name FROM a JOIN d ON a.x = d.x WHERE a.x < 2"

    def run(rows: pa.Table) -> Counter:
        static = spark.createDataFrame(rows)
        made = sql(spark, text, {"a": read, "d": static}).where("n >= 0").select("name")
        return collected(made, checkpoint)

    first = run(NAMES)
    assert first.keys() == {("zero",), ("one",), ("also one",)}
    put(source, 7, table([(200, 90, 1), (201, 90, 0)]))
    second = run(NAMES.slice(0, 1).set_column(1, "name", pa.array(["changed"])))
    assert second == {("zero",): 1, ("one",): 1, ("also one",): 1}
    assert len(list((checkpoint / "penstock" / "static").glob("*.rel"))) == 1
    other = text.replace("d.name", "d.least")
    made = sql(spark, other, {"a": read, "d": spark.createDataFrame(NAMES)})
    with pytest.raises(UsageError, match=r"was stored in .* without least; begin with a new"):
        collected(made, checkpoint)


def test_what_a_static_table_refuses(spark, tables, tmp_path):
    static = spark.createDataFrame(NAMES)
    given = {"a": tables["a"], "d": static}
    with pytest.raises(UsageError, match="d is stored under the checkpoint"):
        stream(spark, LOOKUPS["semi"], given).writeStream.start()
    batches = stream(spark, LOOKUPS["semi"], given).writeStream.format("penstock_batches")
    with pytest.raises(UsageError, match=r'only reads folders .* format\("delta"\)'):
        batches.option("checkpointLocation", str(tmp_path)).start(str(tmp_path / "out"))
    with pytest.raises(UsageError, match="disorder= is not for a look-up in a"):
        stream(spark, LOOKUPS["semi"], given, disorder=3)
    with pytest.raises(penstock.errors.QueryError):
        stream(spark, "SELECT d.name FROM a RIGHT JOIN d ON a.x = d.x", given)


def test_into_a_delta_table(spark, tables, tmp_path):
    """Each micro-batch once, also where Spark repeats the last one."""
    deltalake = pytest.importorskip("deltalake", reason="needs pip install 'penstock[delta]'")
    given = {"a": tables["a"], "d": spark.createDataFrame(NAMES)}
    for _ in range(2):
        made = stream(spark, LOOKUPS["semi"], given)
        writer = made.writeStream.format("delta").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        running = writer.start(str(tmp_path / "table"))
        assert running.awaitTermination(240)
        commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
        commits[-1].unlink()
        commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    rows = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
    expected = [n for n, _, x in ROWS["a"] if x in (0, 1, 3)]
    assert sorted(rows["n"].to_pylist()) == sorted(expected)


def test_join_takes_a_static_table(spark, tables, tmp_path):
    made = tables["a"].transform(join, spark.createDataFrame(NAMES), on=["x"], how="left_semi")
    assert made.columns == ["x", "n", "t"]
    found = collected(made, tmp_path / "checkpoint", queryName="semi")
    assert {row[0] for row in found} == {0, 1, 3}


def test_a_join_is_no_table_of_another(spark, tables):
    near = stream(spark, TEXT, tables)
    with pytest.raises(UsageError, match=r"table a is a join of streams.* spark.readStream"):
        stream(spark, TEXT, {**tables, "a": near})
