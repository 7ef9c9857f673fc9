"""``str(plan)``: a plan says from a query's text and its tables' schemas alone how it is run."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.plan.lookup import LookupPlan
from penstock.plan.plan import plan
from penstock.query import compile_query
from penstock.query.compiler import compile_select
from penstock.query.options import QueryOptions

ROWS = pa.schema([("k", pa.string()), ("t", pa.timestamp("us")), ("x", pa.float64())])
WINDOW = "b.t BETWEEN a.t AND a.t + INTERVAL 5 SECONDS"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            f"SELECT a.k, b.x FROM a JOIN b ON a.k = b.k AND abs(a.x - b.x) < 0.5 AND {WINDOW}",
            [
                "  reads k string, t timestamp_ntz[us], x float64",
                "window 0 <= right.time - left.time <= 5000000 us",
                "searched by b.k, is a.k = b.k",
                "searched by b.x, follows from abs(a.x - b.x) < 0.5",
                "leaving pairs with their later row",
                "output k: string, x: float64",
            ],
        ),
        (
            f"SELECT a.k FROM a LEFT ANTI JOIN b ON a.x * b.x > 3 AND {WINDOW}",
            [
                "join left anti",
                "form a probes b: general, because",
                "  w0 b.x; float64",
                "per pair ",
                "searched by no key: every pair in the window is tested",
                "leaving rows of a when the watermark of b has passed the end of their window",
            ],
        ),
        (
            f"SELECT a.t, max(b.x) AS m FROM a JOIN b ON a.k = b.k AND {WINDOW} GROUP BY a.t",
            [
                "groups by a.t; each row of a is folded over its matches on the device",
                "  in a stream leave when no later pair can have their a.t",
                "form a probes b: band, 1 test",
                "  t0 b.k: >= a.k, <= a.k; string",
                "  true where t0",
                "folds MAX(b.x): max",
            ],
        ),
    ],
)
def test_a_plan_tells_how_it_is_run(text: str, facts: list[str]) -> None:
    query = compile_query(text, {"a": ROWS, "b": ROWS}, time={"a": "t", "b": "t"})
    lines = [
        " ".join((line[:14].rstrip(), line[14:].strip())) for line in str(plan(query)).split("\n")
    ]
    for fact in facts:
        assert any(line.startswith(fact) for line in lines), lines


def test_a_look_up_tells_how_rows_are_found() -> None:
    text = "SELECT a.k FROM a JOIN b ON {}"
    for condition, found in (
        ("a.k = b.k AND a.x < 2", "by key         b.k = a.k"),
        ("a.x < b.x", "by scanning    pages of b: all are read"),
    ):
        query = compile_query(text.format(condition), {"a": ROWS, "b": ROWS}, relation="b")
        assert str(LookupPlan(query, "b", ("k",))).splitlines()[-1] == found


def test_a_join_without_a_window_says_so() -> None:
    text = "SELECT a.k FROM a JOIN b ON a.x < b.x"
    query = compile_select(text, {"a": ROWS, "b": ROWS}, QueryOptions(all_rows=True))
    lines = str(plan(query)).splitlines()
    assert "window         none: all rows meet" in lines
    assert not any(line.split()[0] == "filter" for line in lines)
