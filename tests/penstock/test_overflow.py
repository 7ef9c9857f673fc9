"""Which arithmetic of a query may leave Spark's types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.query import compile_query
from penstock.query.ansi import beyond_spark

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("b", pa.int8()),
        ("x", pa.int32()),
        ("y", pa.int64()),
        ("p", pa.decimal128(20, 2)),
        ("u", pa.uint64()),
        ("at", pa.timestamp("us")),
    ]
)


def notes(select: str, on: str = "r.t = l.t", rest: str = "") -> list[str]:
    text = f"SELECT {select} FROM l JOIN r ON {on} {rest}"
    return beyond_spark(compile_query(text, {"l": SCHEMA, "r": SCHEMA}, time={"l": "t", "r": "t"}))


WRAPS = "exact; beyond {} Spark wraps, or raises in ANSI mode: {}"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("l.b + r.b", "TINYINT"),
        ("l.x - r.x", "INT"),
        ("l.x - r.b", "INT"),
        ("l.x * r.y", "BIGINT"),
        ("l.x * 3", "INT"),
        ("l.y * 3", "BIGINT"),
        ("-l.b", "TINYINT"),
        ("abs(l.x)", "INT"),
        ("l.x << 3", "INT"),
        ("CAST(l.x AS BIGINT) * r.y", "BIGINT"),
    ],
)
def test_integers_that_may_leave_their_type(value: str, name: str) -> None:
    (note,) = notes(f"{value} AS v")
    assert note.startswith(WRAPS.format(name, "`"))


@pytest.mark.parametrize(
    "value",
    [
        "l.x",
        "l.b + 1",
        "l.x % r.x",
        "l.x & r.y",
        "l.x >> 3",
        "greatest(l.x, r.y)",
        "l.x * 0.5",
        "l.p * r.p",
        "l.at - r.at",
        "CASE WHEN l.x > r.x THEN l.x END",
    ],
)
def test_what_stays_inside(value: str) -> None:
    assert notes(f"{value} AS v") == []


def test_every_part_of_a_query() -> None:
    assert notes("1 AS v", "r.t = l.t AND l.x + r.x > 3") == [WRAPS.format("INT", "`l.x + r.x`")]
    assert notes("1 AS v", rest="WHERE l.x + 1 > 3") == [WRAPS.format("INT", "`l.x + 1`")]
    assert notes("max(l.y - r.y) AS v") == [WRAPS.format("BIGINT", "`l.y - r.y`")]
    assert notes("1 AS v", "r.t >= l.t - 5") == [WRAPS.format("BIGINT", "the bounds of the window")]
    # Whatever is computed from it may leave the type, too.
    assert notes("abs(l.x - r.x) + 1 AS v") == [WRAPS.format("INT", "`l.x - r.x`")]
    several = notes("l.x + 1 AS a, l.x + 2 AS b, l.x + 3 AS c, l.x + 4 AS d, l.x + 4 AS e")
    assert several == [WRAPS.format("INT", "`l.x + 1`, `l.x + 2`, `l.x + 3` and 1 more")]
