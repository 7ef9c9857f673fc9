"""Orders that look up customers: rows, queries, and a stream of files."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.host.relation import FolderRelation, RelationOptions, build

DDL = "id long, customer long, amount int"

#: One of each kind; the relation is on either side.
QUERIES = {
    "inner": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id "
    "AND o.amount >= c.floor",
    "left": "SELECT o.id, o.amount - c.floor AS d, c.name FROM orders o LEFT JOIN customers c "
    "ON o.customer = c.id AND o.amount >= c.floor",
    "right": "SELECT o.id, c.name FROM customers c RIGHT JOIN orders o ON o.customer = c.id "
    "WHERE o.amount > 2",
    "semi": "SELECT o.id FROM orders o LEFT SEMI JOIN customers c ON o.customer = c.id "
    "AND o.amount >= c.floor",
    "anti": "SELECT o.id FROM orders o LEFT ANTI JOIN customers c ON o.customer = c.id "
    "AND o.amount >= c.floor",
    "groups": "SELECT o.id, count(*) AS n, sum(c.floor) AS s FROM orders o JOIN customers c "
    "ON o.customer = c.id GROUP BY o.id",
}


def customers(version: int = 1) -> pa.Table:
    """Rows of the relation: some keys with several rows, some without, some NULL."""
    draw = random.Random(7)
    rows = 400
    return pa.table(
        {
            "id": pa.array(
                [None if draw.random() < 0.03 else draw.randrange(250) for _ in range(rows)],
                pa.int64(),
            ),
            "name": [f"v{version} {k}" for k in range(rows)],
            "floor": pa.array([draw.randrange(10) for _ in range(rows)], pa.int32()),
        }
    )


def orders(count: int = 600, seed: int = 1, first: int = 0) -> pa.Table:
    """Rows of the stream."""
    draw = random.Random(seed)
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "customer": pa.array(
                [None if draw.random() < 0.05 else draw.randrange(300) for _ in range(count)],
                pa.int64(),
            ),
            "amount": pa.array([draw.randrange(10) for _ in range(count)], pa.int32()),
        }
    )


def stored(path: Path, version: int = 1) -> FolderRelation:
    """The customers as a relation of many small pages."""
    return build(customers(version), str(path), RelationOptions(key=("id",), page_bytes=512))


def renew(relation: FolderRelation, version: int) -> int:
    """Replace all customers that have a key."""
    rows = customers(version)
    return relation.update(rows.filter(rows["id"].is_valid()), compact=False)


def frame(spark, folder: Path, table: pa.Table, partitions: int = 3):
    """A batch DataFrame, read from a file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(table, path)
    return spark.read.schema(DDL).parquet(str(path)).repartition(partitions)


def counted(rows: pa.Table) -> Counter:
    return Counter(map(repr, rows.to_pylist()))
