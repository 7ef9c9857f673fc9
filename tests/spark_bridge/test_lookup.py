"""Batch DataFrames that look up rows of a relation."""

from __future__ import annotations

import re

import pytest

import penstock
from penstock.errors import FileError, QueryError, SchemaError, UsageError

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from pyspark.errors import PythonException

from penstock.host.relation import open_relation
from penstock.spark_bridge import explain, relation, sql, stream
from penstock.spark_bridge.lookup.versions import DRIVER
from tests.host.lookup.nodes.kit import nodes_of
from tests.spark_bridge.kit.lookups import (
    DDL,
    QUERIES,
    counted,
    customers,
    frame,
    orders,
    renew,
    stored,
)

LEFT = QUERIES["left"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("lookups")


@pytest.fixture(scope="module")
def rel(place):
    return stored(place / "customers.rel")


@pytest.fixture(scope="module")
def rows(spark, place):
    return frame(spark, place / "orders", orders()).cache()


def expected(query, location, **options):
    table = penstock.relation(location)
    return penstock.sql(query, {"orders": orders(), "customers": table}, **options)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(one, marks=() if one in ("left", "anti", "groups") else pytest.mark.slow)
        for one in QUERIES
    ],
)
def test_every_kind(spark, rel, rows, kind):
    tables = {"orders": rows, "customers": penstock.relation(rel.name)}
    found = sql(spark, QUERIES[kind], tables).toArrow()
    wanted = expected(QUERIES[kind], rel.name)
    assert counted(found.cast(wanted.schema)) == counted(wanted)
    assert found.num_rows


def test_columns_are_not_null_where_spark_says_so(spark, tmp_path):
    """The rows' own, and none of the relation: rows without a match have NULL there."""
    rows = spark.range(9).selectExpr("id", "if(id % 3 = 0, NULL, id) AS x")
    stored_rows = relation(spark, rows, tmp_path / "rows.rel", key="id")
    for text in (
        "SELECT a.id, a.x, b.id AS j FROM a LEFT JOIN b ON a.x = b.id",
        "SELECT a.id, count(*) AS n, sum(b.id) AS s FROM a JOIN b ON a.x = b.id GROUP BY a.id",
    ):
        joined = sql(spark, text, {"a": rows, "b": stored_rows})
        in_spark = text.replace("FROM a", "FROM {a} a").replace("JOIN b", "JOIN {b} b")
        wanted = spark.sql(in_spark, a=rows, b=rows)
        nulls, nulls_in_spark = ([one.nullable for one in f.schema] for f in (joined, wanted))
        assert nulls == nulls_in_spark
        assert not all(nulls)
        assert sorted(joined.collect(), key=str) == sorted(wanted.collect(), key=str)


def test_tasks_ask_the_nodes_of_a_relation(spark, place, rows):
    own = stored(place / "with_nodes.rel")
    wanted = expected(LEFT, own.name)
    with nodes_of(own.name, 2) as nodes:
        tables = {"orders": rows, "customers": penstock.relation(own.name, nodes=True)}
        assert "the nodes of the relation own the arcs" in explain(spark, LEFT, tables)
        found = sql(spark, LEFT, tables).toArrow()
        assert counted(found.cast(wanted.schema)) == counted(wanted)
        assert sum(node.counts.entered for node in nodes) > 0


def test_groups_are_merged(spark, rel, rows):
    query = (
        "SELECT o.amount, count(*) AS n, sum(c.floor) AS s, max(c.floor) AS most "
        "FROM orders o JOIN customers c ON o.customer = c.id GROUP BY o.amount HAVING count(*) > 9"
    )
    tables = {"orders": rows, "customers": penstock.relation(rel.name)}
    found = sql(spark, query, tables).toArrow()
    wanted = expected(query, rel.name)
    assert found.num_rows > 5
    assert counted(found.cast(wanted.schema)) == counted(wanted)
    all_rows = query.replace("o.amount, ", "").replace(" GROUP BY o.amount", "")
    assert sql(spark, all_rows, tables).collect() == [
        tuple(expected(all_rows, rel.name).to_pylist()[0].values())
    ]


PLACES = {
    "two lanes": ({"lanes": 2}, "2, each with the rows whose keys lie in its arc.*; lanes=2"),
    "arcs": ({"partitioning": "arcs"}, "3, each with the rows whose keys lie .*partitioning='arcs"),
    "in place": ({"partitioning": "in place"}, "stay where they are; partitioning='in place'"),
    "auto": ({"partitioning": "auto"}, "stay where they are; a task keeps 100% of what comes"),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=() if one in ("arcs", "in place") else pytest.mark.slow)
        for one in PLACES
    ],
)
def test_places(spark, rel, rows, name):
    options, why = PLACES[name]
    tables = {"orders": rows, "customers": penstock.relation(rel.name)}
    wanted = expected(LEFT, rel.name)
    found = sql(spark, LEFT, tables, **options)
    assert counted(found.toArrow().cast(wanted.schema)) == counted(wanted)
    if options.get("partitioning") != "auto":
        # Spark reuses the workers, and each of them keeps what it has read by arc.
        assert counted(found.toArrow().cast(wanted.schema)) == counted(wanted)
    assert re.search(why, explain(spark, LEFT, tables, **options))


def test_arcs_of_what_is_computed_and_of_no_key(spark, rel, rows):
    tables = {"orders": rows, "customers": penstock.relation(rel.name)}
    moved = "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer + 1 = 2 * c.id"
    wanted = expected(moved, rel.name)
    assert counted(sql(spark, moved, tables, lanes=3).toArrow().cast(wanted.schema)) == counted(
        wanted
    )
    near = LEFT.replace("o.customer = c.id", "abs(o.customer - c.id) < 2")
    assert "2, each with a share of the rows" in explain(spark, near, tables, lanes=2)
    with pytest.raises(UsageError, match="partitioning='arcs' sends rows to tasks by their key"):
        sql(spark, near, tables, partitioning="arcs")


def test_order(spark, place, rel):
    whole = frame(spark, place / "ordered", orders(), partitions=1)
    tables = {"orders": whole, "customers": penstock.relation(rel.name)}
    read = whole.toArrow()["id"].to_pylist()
    found = sql(spark, LEFT, tables, ordered=True).toArrow()["id"].to_pylist()
    assert list(dict.fromkeys(found)) == read


def test_conditions_without_the_key(spark, rel, rows):
    query = (
        "SELECT o.id, c.name FROM orders o LEFT JOIN customers c "
        "ON abs(o.customer - c.id) < 2 AND o.amount > c.floor"
    )
    found = sql(spark, query, {"orders": rows, "customers": penstock.relation(rel.name)}).toArrow()
    assert counted(found) == counted(expected(query, rel.name))
    text = explain(spark, query, {"orders": rows, "customers": penstock.relation(rel.name)})
    assert "scan: rows of a task meet all pages" in text


def test_a_column_of_the_relation_alone(spark, rel, rows):
    query = "SELECT c.name FROM orders o JOIN customers c ON o.customer = c.id"
    found = sql(spark, query, {"orders": rows, "customers": penstock.relation(rel.name)})
    assert found.columns == ["name"]
    assert counted(found.toArrow()) == counted(expected(query, rel.name))


@pytest.mark.slow
@pytest.mark.slow
def test_a_version_that_the_query_names(spark, place, rows, tmp_path):
    made = stored(place / "named.rel")
    renew(made, 2)
    one = LEFT.replace("customers c", "customers VERSION AS OF 1 c")
    tables = {"orders": rows, "customers": penstock.relation(made.name)}
    found = sql(spark, one, tables).toArrow()
    wanted = expected(one, made.name)
    assert counted(found.cast(wanted.schema)) == counted(wanted)
    assert {n[:3] for n in found["name"].to_pylist() if n} == {"v1 "}
    assert re.search(r"version +1 for all rows, as the query says", explain(spark, one, tables))
    # It is pinned.
    assert made.vacuum(keep_s=0).versions == 0
    with pytest.raises(FileError, match=r"VERSION AS OF 3: .* has no version 3"):
        sql(spark, one.replace("OF 1", "OF 3"), tables)
    with pytest.raises(QueryError, match=r"only a relation \(penstock.relation\) has versions"):
        sql(spark, LEFT.replace("orders o", "orders VERSION AS OF 1 o"), tables)
    streamed = spark.readStream.schema(DDL).parquet(str(place / "orders"))
    running = stream(spark, one, {**tables, "orders": streamed}).writeStream
    written = running.format("parquet").option("path", str(tmp_path / "out"))
    query = written.option("checkpointLocation", str(tmp_path / "log")).trigger(availableNow=True)
    query.start().awaitTermination()
    names = spark.read.parquet(str(tmp_path / "out")).toArrow()["name"].to_pylist()
    assert {n[:3] for n in names if n} == {"v1 "}
    DRIVER.release()


def test_the_version_is_that_of_the_call(spark, place, rows):
    made = stored(place / "renewed.rel")
    table = penstock.relation(made.name)
    before = sql(spark, LEFT, {"orders": rows, "customers": table})
    unread = sql(spark, LEFT, {"orders": rows, "customers": table}, memory_bytes=1 << 22)
    assert renew(made, 2) == 2
    after = sql(spark, LEFT, {"orders": rows, "customers": table})
    assert {n[:3] for n in before.toArrow()["name"].to_pylist() if n} == {"v1 "}
    assert {n[:3] for n in after.toArrow()["name"].to_pylist() if n} == {"v2 "}
    # The workers have kept a newer version than that of the first call.
    assert {n[:3] for n in before.toArrow()["name"].to_pylist() if n} == {"v1 "}
    # Both are pinned, as long as this process may use them.
    assert made.vacuum(keep_s=0).versions == 0
    assert {n[:3] for n in unread.toArrow()["name"].to_pylist() if n} == {"v1 "}
    DRIVER.release()
    assert made.vacuum(keep_s=0).versions == 1
    gone = sql(spark, LEFT, {"orders": rows, "customers": table}, memory_bytes=1 << 23)
    renew(made, 3)
    DRIVER.release()
    made.vacuum(keep_s=0)
    with pytest.raises(PythonException, match=r"version 2 of .* is gone"):
        gone.collect()


def test_explain(spark, rel, rows):
    tables = {"orders": rows, "customers": penstock.relation(rel.name)}
    text = explain(spark, LEFT, tables, memory_bytes=1 << 21)
    assert "c a relation, whose rows are looked up" in text
    assert "ordered by a hash of id" in text
    assert "400 rows" in text
    assert "2,097,152 bytes per task" in text
    assert "pages are found by c.id = o.customer" in text
    assert "1 for all rows, the newest one at the time of the call" in text


REFUSED = {
    "memory": ({"memory_bytes": 1000}, UsageError, "needs .* at least"),
    "pins of a batch": ({"pins": "/tmp"}, UsageError, "pins= is not for a batch query"),
    "partitioning": ({"partitioning": "time"}, UsageError, "with a relation, leave it out"),
    "arcs and order": ({"partitioning": "arcs", "ordered": True}, UsageError, "leave one of them"),
    "lanes in place": ({"partitioning": "in place", "lanes": 2}, UsageError, "leave one of them"),
    "no lanes": ({"lanes": 0}, UsageError, "lanes must be 1 or more"),
    "lanes and order": ({"lanes": 2, "ordered": True}, UsageError, "leave one of them out"),
    "a window": ({"time": {"o": "id"}}, QueryError, "no window"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_on_the_call(spark, rel, rows, name):
    options, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        sql(spark, LEFT, {"orders": rows, "customers": penstock.relation(rel.name)}, **options)


def test_more_refusals(spark, rel, rows):
    table = penstock.relation(rel.name)
    with pytest.raises(UsageError, match="disorder= is not for a look-up"):
        stream(spark, LEFT, {"orders": rows, "customers": table}, disorder=1)
    text = "SELECT o.id FROM orders o JOIN customers c ON c.id BETWEEN o.id - 1 AND o.id + 1"
    both = {"orders": rows, "customers": rows}
    with pytest.raises(UsageError, match="memory_bytes= is not for a"):
        sql(spark, text, both, time={"o": "id", "c": "id"}, memory_bytes=1)
    tables = {"orders": rows, "customers": table}
    with pytest.raises(QueryError, match="ordered=True is about joined rows"):
        sql(spark, QUERIES["groups"], tables, ordered=True)


# -- relations made by a job ----------------------------------------------------------------------


def contents(location):
    opened = open_relation(location)
    assert list(opened.check()) == []
    version = opened.version()
    return opened, counted(penstock_table([one.batch for one in version.batches()], opened.schema))


def penstock_table(batches, schema):
    import pyarrow as pa

    return pa.Table.from_batches([b.cast(schema) for b in batches], schema)


LAYOUTS = {
    "key": {"key": "id"},
    "key, one lane": {"key": ["id"], "lanes": 1},
    "two columns": {"key": ("name", "id"), "lanes": 5, "unique": True},
    "cluster": {"cluster": ["floor", "id"]},
    "cluster of one, with a key": {"key": "id", "cluster": "floor", "lanes": 2},
}


@pytest.fixture(scope="module")
def people(spark, place):
    import pyarrow.parquet as pq

    pq.write_table(customers(), place / "people.parquet")
    return spark.read.parquet(str(place / "people.parquet")).repartition(2)


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(one, marks=() if one in ("key", "cluster") else pytest.mark.slow)
        for one in LAYOUTS
    ],
)
def test_a_relation_of_a_frame(spark, place, people, layout):
    location = str(place / f"{layout}.rel")
    made = relation(spark, people, location, page_bytes=1024, **LAYOUTS[layout])
    assert made == penstock.relation(location)
    opened, rows = contents(location)
    assert rows == counted(customers())
    assert opened.info()["null_keys"] == (
        0 if not opened.key else sum(v is None for v in customers()["id"].to_pylist())
    )
    index = opened.version().index
    assert (index.first[1:] > index.first[:-1]).all()
    assert len(list((place / f"{layout}.rel" / "data").iterdir())) == 2


def test_relations_of_few_rows(spark, place, people, rows):
    none = relation(spark, people.where("false"), place / "none.rel", key="id")
    nulls = relation(spark, people.where("id IS NULL"), place / "nulls.rel", key="id")
    for table in (none, nulls):
        tables = {"orders": rows, "customers": table}
        assert sql(spark, QUERIES["anti"], tables).count() == 600
    assert contents(nulls.location)[0].info()["null_keys"] > 0


def test_a_relation_is_looked_up_and_updated(spark, place, people, rows):
    table = relation(spark, people, place / "used.rel", key="id")
    renew(open_relation(table.location), 3)
    found = sql(spark, LEFT, {"orders": rows, "customers": table}).toArrow()
    wanted = expected(LEFT, table.location)
    assert counted(found.cast(wanted.schema)) == counted(wanted)
    assert {n[:3] for n in found["name"].to_pylist() if n} == {"v3 "}


@pytest.mark.slow
def test_relations_that_cannot_be_made(spark, place, rel, people):
    with pytest.raises(FileError, match="exists"):
        relation(spark, people, rel.name, key="id")
    with pytest.raises(UsageError, match="needs a key"):
        relation(spark, people, place / "keyless.rel")
    with pytest.raises(SchemaError, match="no column od"):
        relation(spark, people, place / "wrong.rel", cluster="od")
    with pytest.raises(SchemaError, match="interval month, which a relation cannot store"):
        relation(
            spark, people.selectExpr("id", "INTERVAL '1' MONTH f"), place / "months.rel", key="id"
        )
    with pytest.raises(PythonException, match="several rows have the key id = "):
        relation(spark, people, place / "twice.rel", key="id", unique=True)
    assert not [p for p in place.iterdir() if "twice" in p.name]
