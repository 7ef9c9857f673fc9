"""What Spark's own UI tells of joins, and how errors in tasks read."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark import cloudpickle
from pyspark.errors import PythonException

from penstock.spark_bridge import explain, relation, sql, stream
from penstock.spark_bridge.explaining import show
from penstock.spark_bridge.shown import described, task_of
from tests.spark_bridge.kit.streams import stream_of, table, written

TIME = {"a": "t", "b": "t"}
QUERY = "SELECT a.id, b.id AS j FROM a LEFT JOIN b ON abs(a.x - b.x) < 2 AND abs(a.t - b.t) <= 10"


@pytest.fixture
def frames(spark):
    made = spark.range(40).selectExpr("id", "id * 3 AS t", "id % 7 + 0.126D AS x")
    return {"a": made, "b": made.limit(30)}


def descriptions(spark) -> list[str]:
    """Those of all jobs of the session, from what its UI shows."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    every = [jobs.apply(k).description() for k in range(jobs.length())]
    return [one.get() for one in every if one.isDefined()]


def plan_of(frame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        frame.explain()
    return shown.getvalue()


def test_nodes_have_names(spark, frames):
    assert "MapInArrow penstock left outer join of a and b(" in plan_of(
        sql(spark, QUERY, frames, time=TIME)
    )
    groups = "SELECT a.id, count(*) AS n FROM a JOIN b ON abs(a.t - b.t) <= 10 GROUP BY a.id"
    assert "MapInArrow penstock merged groups(" in plan_of(sql(spark, groups, frames, time=TIME))


def test_an_error_begins_with_its_message(spark, frames):
    found = sql(spark, QUERY, frames, time=TIME, scale={"a.x": 2, "b.x": 2})
    with pytest.raises(PythonException) as raised:
        found.collect()
    text = str(raised.value)
    said = text.index("penstock.errors.DataError: ")
    assert "Traceback" not in text[:said]
    line = text[said:].splitlines()[0]
    assert "is declared with 2 decimal digits, but row 0 holds 0.126; declare more" in line
    assert text.rstrip().splitlines()[-1] == line


LACKING = """
import pickle, sys
sys.modules["penstock"] = None
try:
    with open(sys.argv[1], "rb") as file:
        pickle.load(file)(iter(()))
except ModuleNotFoundError as error:
    print(error)
"""


def test_a_python_without_penstock_is_told_where_to_get_it(tmp_path):
    travels = tmp_path / "task"
    travels.write_bytes(cloudpickle.dumps(task_of("join", lambda batches: show(batches))))
    command = [sys.executable, "-c", LACKING, str(travels)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"this executor, {sys.executable}, has no module penstock" in said
    assert "`penstock spark pack` makes; see docs/spark/deploy.md" in said


def test_every_task_can_say_so():
    """Each function that Spark gets for its tasks is made by the one place that wraps them."""
    count = 0
    for path in Path(penstock.spark_bridge.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        wrapped = {
            target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and _wraps(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            called = getattr(node, "func", None)
            name = getattr(called, "attr", getattr(called, "id", ""))
            if re.fullmatch("map(InArrow|InPandas|Partitions)|arrow_udf|applyIn.*", name):
                given = node.args[0]
                assert _wraps(given) or getattr(given, "id", "") in wrapped, (path, node.lineno)
                count += 1
    assert count > 8


def _wraps(node: ast.expr) -> bool:
    called = getattr(node, "func", None)
    return isinstance(called, ast.Name) and called.id in ("task_of", "with_modules")


@pytest.mark.slow
def test_other_errors_in_the_same_workers_are_told_with_their_calls(spark, frames):
    with pytest.raises(PythonException, match="DataError"):
        sql(spark, QUERY, frames, time=TIME, scale={"a.x": 2, "b.x": 2}).collect()

    def fail(batches):
        raise ValueError("of the user")

    with pytest.raises(PythonException, match="in fail"):
        spark.range(4).mapInArrow(fail, "id long").collect()


def test_jobs_are_described(spark, frames):
    big = {name: frame.repartition(2) for name, frame in frames.items()}
    sql(spark, QUERY, big, time=TIME, partitioning="rows")
    assert "Penstock: counts rows for the lanes of the left outer join of a and b" in descriptions(
        spark
    )


@pytest.mark.slow
def test_jobs_of_relations_and_streams_are_described(spark, frames, tmp_path):
    relation(spark, frames["b"], tmp_path / "b.rel", key="id", lanes=2)
    assert "Penstock: stores a DataFrame as a relation" in descriptions(spark)
    folder = written(tmp_path / "source", [table([(1, 1, 1), (2, 2, 2)])])
    near = stream(
        spark,
        "SELECT a.n FROM a JOIN b ON abs(a.x - b.x) < 2 AND abs(a.t - b.t) <= INTERVAL 3 SECONDS",
        {side: stream_of(spark, folder) for side in "ab"},
    )
    writer = near.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    running = writer.trigger(availableNow=True).start()
    assert running.awaitTermination(240)
    assert (
        "Penstock: batch 0 of the inner join of a and b: 2 rows of a, 2 rows of b came, 0 of them "
        "too late; 4 in the window" in descriptions(spark)
    )


def test_a_description_ends(spark):
    context = spark.sparkContext

    def fail() -> None:
        with described(spark, "counts"):
            assert context.getLocalProperty("spark.job.description") == "Penstock: counts"
            raise ZeroDivisionError

    context.setJobDescription("of the user")
    try:
        with pytest.raises(ZeroDivisionError):
            fail()
        assert context.getLocalProperty("spark.job.description") == "of the user"
    finally:
        context.setJobDescription(None)
    with described(spark, "counts"):
        pass
    assert context.getLocalProperty("spark.job.description") is None


def test_an_explanation_is_a_screen(spark, frames):
    text = explain(spark, QUERY, frames, time=TIME)
    assert len(text.splitlines()) < 24
    facts = [("form", f"number {k}") for k in range(9)] + [("device", "cpu")]
    assert show(facts).splitlines()[3:] == [
        "form         number 3",
        "             and 5 more, with extended=True",
        "device       cpu",
    ]
    assert len(show(facts, extended=True).splitlines()) == 10
    assert len(show(facts[4:]).splitlines()) == 6
