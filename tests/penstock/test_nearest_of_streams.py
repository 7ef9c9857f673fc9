"""JOIN ... NEAREST on streams: the rows of tables, however the streams are cut and out of order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError

NEAR = "m.t BETWEEN l.t - INTERVAL 20 SECOND AND l.t + INTERVAL 10 SECOND"


def rows(rng: np.random.Generator, count: int, late_s: int) -> pa.Table:
    """Rows in the order in which they arrive, with ties and NULL."""
    seconds = np.sort(rng.integers(0, 300, count))
    order = np.argsort(seconds + rng.integers(0, late_s + 1, count), kind="stable")
    return pa.table(
        {
            "id": np.arange(count),
            "t": pa.array(seconds[order] * 1_000_000, pa.timestamp("us", "UTC")),
            "x": pa.array(rng.integers(0, 9, count), mask=rng.random(count) < 0.1),
            "y": np.round(rng.normal(size=count), 1),
            "g": rng.integers(0, 3, count),
        }
    )


QUERIES = {
    "keys": "JOIN m EXACT NEAREST 2 BY DISTANCE abs(l.x - m.x) ON l.g = m.g AND {near}",
    "left": "LEFT JOIN m EXACT NEAREST 3 BY DISTANCE abs(l.x - m.x) + abs(l.y - m.y) ON {near}",
    "similar": "LEFT JOIN m APPROX NEAREST BY SIMILARITY m.x ON m.y > l.y AND {near}",
    "where": "JOIN m APPROX NEAREST 2 BY DISTANCE m.y ON {near} WHERE m.x > 4 AND l.g < 2",
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(2))
def test_rows_are_those_of_tables(name: str, seed: int) -> None:
    rng = np.random.default_rng([seed, len(name)])
    late_s = 30 * seed
    tables = {side: rows(rng, 250, late_s) for side in "lm"}
    query = f"SELECT l.id AS a, m.id AS b, m.x AS x FROM l {QUERIES[name].format(near=NEAR)}"
    wanted = penstock.sql(query, tables)
    schemas = {side: table.schema for side, table in tables.items()}
    options: dict[str, Any] = {"disorder": timedelta(seconds=late_s)} if late_s else {}
    parts, at = [], {"l": 0, "m": 0}
    with penstock.stream(query, schemas, unique={"l": "id"}, **options) as stream:
        while min(at.values()) < 250:
            side = "l" if at["l"] <= at["m"] else "m"
            size = int(rng.integers(1, 30))
            stream.push(side, tables[side].slice(at[side], size))
            at[side] += size
            parts.append(stream.poll())
        for side, first in at.items():
            stream.push(side, tables[side].slice(min(first, 250)))
        early = sum(part.num_rows for part in parts)
        parts.append(stream.close())
    found = pa.concat_tables(parts)
    assert plain(found) == plain(wanted)
    assert found.num_rows > 60
    assert early > found.num_rows // 3


def plain(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (QUERIES["keys"].replace("{near}", "true"), "window"),
        (f"{QUERIES['keys']} LIMIT 3", "LIMIT needs all rows"),
        (f"{QUERIES['keys']} GROUP BY l.id", "nearest rows of a stream"),
        (f"{QUERIES['keys']} JOIN m AS n ON n.t = m.t", "nearest rows of a stream"),
    ],
)
def test_queries_that_streams_do_not_run(query: str, message: str) -> None:
    schemas = dict.fromkeys("lm", rows(np.random.default_rng(0), 3, 0).schema)
    items = "l.id AS a, count(*) AS b" if "GROUP" in query else "l.id AS a, m.id AS b"
    with pytest.raises(QueryError, match=message):
        penstock.stream(
            f"SELECT {items} FROM l {query.format(near=NEAR)}", schemas, unique={"l": "id"}
        )


def test_distinct_is_said_by_its_name() -> None:
    schemas = dict.fromkeys("lm", rows(np.random.default_rng(0), 3, 0).schema)
    query = f"SELECT DISTINCT l.id FROM l {QUERIES['keys'].format(near=NEAR)}"
    with pytest.raises(QueryError, match="DISTINCT needs all rows"):
        penstock.stream(query, schemas, unique={"l": "id"})


def test_a_left_row_needs_a_name() -> None:
    schemas = dict.fromkeys("lm", rows(np.random.default_rng(0), 3, 0).schema)
    with pytest.raises(QueryError, match="unique="):
        penstock.stream(
            f"SELECT l.id AS a, m.id AS b FROM l {QUERIES['keys'].format(near=NEAR)}", schemas
        )


def test_a_column_called_as_places_of_rows() -> None:
    schema = rows(np.random.default_rng(0), 3, 0).schema
    schemas = {"l": schema, "m": schema.append(pa.field("PS_place", pa.int64()))}
    text = f"SELECT l.id AS a, m.id AS b FROM l {QUERIES['keys'].format(near=NEAR)}"
    with pytest.raises(QueryError, match="m has a column ps_place"):
        penstock.stream(text, schemas, unique={"l": "id"})
