"""Merge of all ranks' intakes for the record."""

from __future__ import annotations

from typing import Any

from penstock.host.windows.feeds import HOLD, ONLY
from penstock.host.workers.ranks.admission import merged
from penstock.plan.window import FOREVER, NEVER


def state(
    feeds: dict[str, int], begun: list[str], *, watermark: int, closed: bool = False, **rows: int
) -> dict[str, Any]:
    """State of a rank: feeds with their watermarks, and rows taken."""
    source = {
        "feeds": {
            "feeds": {name: [0, at, 0, False] for name, at in feeds.items()},
            "watermark": FOREVER if closed else watermark,
            "closed": closed,
        },
        "largest": watermark,
        "late": 1,
        "taken": dict(rows),
        "rows": dict(rows),
    }
    numbers = {"a": {ONLY: 0, **{name: len(name) for name in feeds}}}
    intake = {"sources": {"a": source}, "numbers": numbers}
    return {"intake": intake, "firsts": {}, "begun": [("a", feed) for feed in begun]}


def test_a_feed_is_as_the_rank_that_begun_it_has_it() -> None:
    # Rank 1 has not heard yet that rank 0 has begun "old", and nobody has begun "left".
    first = state({ONLY: 0, "old": 50, "left": 7}, ["old"], watermark=7, old=9, left=2)
    second = state({"old": 10, "left": 7, "new": 90}, ["new"], watermark=8, old=3, new=4, left=2)
    found = merged([first, second])["intake"]
    source = found["sources"]["a"]
    assert {name: feed[1] for name, feed in source["feeds"]["feeds"].items()} == {
        "old": 50,
        "left": 7,
        "new": 90,
        HOLD: NEVER,
    }
    assert source["feeds"]["watermark"] == 7
    assert source["rows"] == {"old": 9, "left": 2, "new": 4}
    assert source["late"] == 2
    assert ONLY not in found["numbers"]["a"]


def test_feeds_of_a_rank_that_has_ended_hold_nobody() -> None:
    first = state({"over": 50}, ["over"], watermark=50, closed=True, over=9)
    second = state({"goes on": 60}, ["goes on"], watermark=60, **{"goes on": 3})
    source = merged([first, second])["intake"]["sources"]["a"]
    assert list(source["feeds"]["feeds"]) == [HOLD, "goes on"]
    assert source["feeds"]["watermark"] == 60
    assert source["rows"] == {"over": 9, "goes on": 3}
