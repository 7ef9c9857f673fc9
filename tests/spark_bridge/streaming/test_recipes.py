"""Recipes of docs/spark/streams.md for ``foreachBatch``: run as they stand there."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.spark_bridge import stream
from tests.spark_bridge.kit.delta_app import TEXT
from tests.spark_bridge.kit.streams import cut, drawn, rows_of, stream_of, table, written

PAGE = Path(__file__).parents[3] / "docs" / "spark" / "streams.md"


def into_iceberg(rows, batch):
    from pyiceberg.catalog import load_catalog

    stored = load_catalog("lake").load_table("near.rows")
    done = stored.properties.get("near.batch")  # of this query alone
    if done is not None and batch <= int(done):
        return
    with stored.transaction() as change:
        change.append(rows.toArrow().cast(stored.schema().as_arrow()))
        change.set_properties({"near.batch": str(batch)})


def test_the_page_has_the_recipe():
    assert inspect.getsource(into_iceberg) in PAGE.read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")  # of SQLAlchemy's and the catalog's own
def test_into_iceberg(spark, tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy", reason="needs pip install 'pyiceberg[sql-sqlite,pyarrow]'")
    catalog = pytest.importorskip("pyiceberg.catalog", reason="needs pip install pyiceberg")
    (tmp_path / "lake").mkdir()
    own = catalog.load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/lake"
    )
    monkeypatch.setattr(catalog, "load_catalog", lambda name: own)
    sides = {side: cut(drawn(seed, 60, disorder=3), 2) for seed, side in enumerate("ab")}
    tables = {}
    for side, parts in sides.items():
        tables[side] = stream_of(spark, written(tmp_path / side, [table(part) for part in parts]))
    joined = stream(spark, TEXT, tables, lanes=2)
    whole = {side: table([row for part in parts for row in part]) for side, parts in sides.items()}
    expected = penstock.sql(TEXT, whole)
    own.create_namespace("near")
    own.create_table("near.rows", expected.schema)

    def run() -> None:
        writer = joined.writeStream.foreachBatch(into_iceberg).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.start().awaitTermination(120)
        found = own.load_table("near.rows").scan().to_arrow()
        assert rows_of(found, ["a", "b"]) == rows_of(expected, ["a", "b"])

    run()
    for name in ("1", ".1.crc"):  # Spark died before it noted the batch
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    run()
