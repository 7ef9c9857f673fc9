"""Texts of one query, however they are written, and of others."""

from __future__ import annotations

import pytest

from penstock.query.parse import canonical

NEAR = "abs(a.x - b.x) < 2 AND b.t BETWEEN a.t - INTERVAL 3 SECONDS AND a.t"
TEXT = f"SELECT a.n AS a, b.n FROM a [ROWS 3] JOIN b ON {NEAR} WHERE a.c = 'It is' OR a.y > 1.50"


@pytest.mark.parametrize(
    "changed",
    [
        TEXT.replace(" ", "\n").replace("It\nis", "It is"),
        TEXT.replace(" JOIN ", " -- near\r\n\tjoin /* by x */ "),
        TEXT.replace("SELECT", "select").replace(" AND ", " and "),
        f"{TEXT} ;",
    ],
)
def test_the_same_query(changed):
    assert changed != TEXT
    assert canonical(changed) == canonical(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'It is'", "'It  is'"),
        ("'It is'", "'it is'"),
        ("ROWS 3", "ROWS 4"),
        (" [ROWS 3]", ""),
        ("a [ROWS 3] JOIN b", "a JOIN b [ROWS 3]"),
        ("3 SECONDS", "4 SECONDS"),
        ("3 SECONDS", "3 MINUTES"),
        ("JOIN", "LEFT JOIN"),
        ("JOIN", "LEFT SEMI JOIN"),
        ("< 2", "<= 2"),
        ("> 1.50", "> 1.5"),
        ("a.x - b.x", "b.x - a.x"),
        ("a.n AS a", "a.n AS A"),
        ("a.n AS a", "a.n"),
        (" OR ", " AND "),
        ("a.y", "cast(a.y AS timestamp)"),
    ],
)
def test_another_query(old, new):
    assert old in TEXT
    assert canonical(TEXT.replace(old, new, 1)) != canonical(TEXT)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.x DIV b.x", "a.x / b.x"),
        ("CAST(a.x AS TIMESTAMP)", "CAST(a.x AS TIMESTAMP_NTZ)"),
        ("CAST(a.x AS INT)", "TRY_CAST(a.x AS INT)"),
        ("CAST(a.x AS DECIMAL(10, 2))", "CAST(a.x AS DECIMAL(10, 3))"),
        ("a.x ^ b.x", "a.x | b.x"),
        ("a.x << 1", "a.x >> 1"),
        ("a.x = b.x", "a.x <=> b.x"),
        ("(a.x - b.x) - 1", "a.x - (b.x - 1)"),
        ("a.x % 2", "a.x / 2"),
    ],
)
def test_expressions_that_differ(one, other):
    texts = [f"SELECT {e} AS v FROM a JOIN b ON {NEAR}" for e in (one, other)]
    assert canonical(texts[0]) != canonical(texts[1])
