"""Makes what ``python -m tests.golden`` keeps, with the code that is imported as penstock."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

import penstock
from penstock.host.lookup.nodes.record import change_ring
from penstock.host.lookup.nodes.ring import Node, Ring
from penstock.host.relation import RelationOptions, build, file_store
from penstock.host.workers import Workers
from tests.golden.kept import ALL, BEFORE, batches_of, rows_of
from tests.golden.streams import DISORDER, STREAMS, goes_on

_SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        ("k", pa.int64()),
        ("name", pa.string()),
        ("t", pa.int64()),
        ("x", pa.int32()),
        ("f", pa.float64()),
    ]
)
_ROWS = 24


def drawn(seed: int, count: int) -> pa.Table:
    """Random rows in about the order of time, some of them without one."""
    rng, rows, largest = Random(seed), [], 0
    for number in range(count):
        largest = max(largest, number // 3)
        rows.append(
            {
                "n": number,
                "k": rng.choice([None, 1, 2, 3]),
                "name": rng.choice([None, "", "é", "south" * 3]),
                "t": largest - rng.randint(0, DISORDER),
                "x": rng.choice([None, rng.randint(-100, 100)]),
                "f": rng.choice([None, float("nan"), -0.0, rng.random(), rng.random()]),
            }
        )
    return pa.Table.from_pylist(rows, _SCHEMA)


def relations(folder: Path) -> None:
    """Relations of three versions: rows that were built, changed and appended."""
    folder.mkdir()
    keys = list(range(1, 41))
    table = pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "label": [None if k % 7 == 0 else f"l{k % 3}" for k in keys],
            "weight": pa.array([k * 7 % 40 for k in keys], pa.int32()),
        }
    )
    for name, options in {
        "by key": RelationOptions(key=("k",), page_bytes=256, unique=True),
        "clustered": RelationOptions(cluster=("k", "weight"), page_bytes=256),
    }.items():
        relation = build(table, str(folder / name), options)
        try:
            if options.key:
                relation.update(table.slice(0, 2).set_column(1, "label", [["new", "new"]]))
                relation.update(deletes=table.select(["k"]).slice(20, 3))
            relation.append(pa.table({"k": [101], "label": ["late"], "weight": [1]}, table.schema))
            for number in relation.numbers():
                rows = version_rows(relation, number)
                put(folder.parent / "answers" / f"relation {name} {number}.arrow", rows)
        finally:
            relation.close()
    nobody = Ring(0, ()).add(Node("then", "unix:///nowhere/then"))
    change_ring(file_store(str(folder / "by key")), lambda _: nobody)


def version_rows(relation: Any, number: int) -> pa.Table:
    """Return all rows of a version."""
    version = relation.version(number)
    found = version.read(np.arange(len(version.index)), relation.schema.names)
    return pa.Table.from_batches([found.batch])


def inputs(folder: Path) -> None:
    """Rows of both sources."""
    for seed, source in enumerate("ab"):
        feather.write_feather(drawn(seed, ALL * _ROWS), folder / f"{source}.arrow", "uncompressed")


def streams(folder: Path, workers: Any, left: Path) -> None:
    """Checkpoints of the streams of processes or of ranks; rows that left before go elsewhere."""
    rank = workers.rank if isinstance(workers, Workers) else 0
    for name, stream in STREAMS.items():
        if name.startswith("ranks") == isinstance(workers, Workers):
            given = {s: batches_of(folder, s)[:BEFORE] for s in stream.sources if not rank}
            with stream.opened(workers, folder, name) as running:
                for number, table in enumerate(goes_on(running, given, stops=True)):
                    put(left / name / f"{rank}-{number}.arrow", table)


def answers(folder: Path, left: Path) -> None:
    """Rows that leave behind each checkpoint, which must be the whole query's with those before."""
    for name, stream in STREAMS.items():
        given = {source: batches_of(folder, source) for source in stream.sources}
        kept = folder / "streams" / name
        shutil.copytree(kept, left / "copy")
        with stream.opened(1, folder, name) as running:
            after = goes_on(running, given)
        shutil.rmtree(kept)
        (left / "copy").rename(kept)
        put(folder / "answers" / f"{name}.arrow", pa.concat_tables(after))
        before = [feather.read_table(path) for path in (left / name).glob("*.arrow")]
        whole = stream.whole(folder, {s: pa.Table.from_batches(given[s]) for s in given})
        if not after or rows_of([*before, *after]) != rows_of([whole]):
            raise SystemExit(f"{name}: the rows are not those of penstock.sql")


def spark_streams(folder: Path, left: Path) -> None:
    """Checkpoints of streams in Spark, and the rows that leave behind each."""
    from pyspark.sql import SparkSession

    from tests.golden.spark import ALL, BEFORE, SPARK_STREAMS, ZONE, played, table

    conf = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": ZONE,
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    for name, stream in SPARK_STREAMS.items():
        kept = folder / "spark" / name
        before = played(session, folder, name, BEFORE)[:BEFORE]
        shutil.copytree(kept, left / "copy")
        after = played(session, folder, name, ALL - BEFORE)
        shutil.rmtree(kept)
        (left / "copy").rename(kept)
        put(folder / "answers" / f"{name} in Spark.arrow", pa.concat_tables(after))
        if stream.is_of_streams:
            how = {key: value for key, value in stream.options.items() if key == "rows"}
            whole = penstock.sql(stream.query, {s: table(s) for s in "ab"}, **how)
            given = after if stream.sink == "delta" else [*before, *after]
            if rows_of([t.select(whole.column_names) for t in given]) != rows_of([whole]):
                raise SystemExit(f"{name} in Spark: the rows are not those of penstock.sql")
    session.stop()


def put(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    feather.write_feather(table, path, "uncompressed")


def main(part: str, folder: Path, left: Path) -> None:
    """Make a part of what is kept in a folder."""
    if part == "begin":
        inputs(folder)
        relations(folder / "relations")
        streams(folder, 2, left)
    elif part == "ranks":
        streams(folder, penstock.workers.mpi(), left)
    elif part == "spark":
        spark_streams(folder, left)
    else:
        answers(folder, left)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
