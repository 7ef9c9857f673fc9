"""Feeds of one side: the least promise counts, silence does not hold up for ever."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import UsageError
from penstock.host.windows.feeds import Feeds
from penstock.plan.window import FOREVER, NEVER


def two(idle_s: float | None = None) -> Feeds:
    feeds = Feeds("a", 0, idle_s)
    feeds.register("north", 0.0)
    feeds.register("south", 0.0, disorder=5)
    return feeds


def test_names() -> None:
    feeds = two()
    assert feeds.names == ["north", "south"]
    with pytest.raises(UsageError, match="feed 'north' of a is registered already"):
        feeds.register("north", 0.0)
    with pytest.raises(UsageError, match=r"a has no feed 'west' \(registered: 'north', 'south'\)"):
        feeds.signal("west", 1, 0.0)
    feeds.end()
    with pytest.raises(UsageError, match="a has ended"):
        feeds.register("west", 0.0)


def test_the_least_promise_counts() -> None:
    feeds = two()
    feeds.signal("north", 100, 0.0)
    assert feeds.watermark(0.0) == NEVER
    feeds.admit("south", np.array([50]), 0.0)
    assert feeds.watermark(0.0) == 45
    feeds.deregister("south")
    assert feeds.watermark(0.0) == 100
    feeds.deregister("north")
    assert feeds.watermark(0.0) == 100
    feeds.end()
    assert feeds.watermark(0.0) == FOREVER


def test_each_feed_is_judged_by_its_own_promise() -> None:
    feeds = two()
    assert feeds.admit("north", np.array([10, 9, 10]), 0.0).tolist() == [True, False, True]
    assert feeds.admit("south", np.array([10, 5, 4]), 0.0).tolist() == [True, True, False]


def test_what_the_side_has_promised_binds_new_feeds() -> None:
    feeds = two()
    feeds.signal("north", 100, 0.0)
    feeds.signal("south", 80, 0.0)
    assert feeds.watermark(0.0) == 80
    feeds.register("west", 0.0)
    assert feeds.admit("west", np.array([79, 80, 70]), 0.0).tolist() == [False, True, False]
    assert feeds.watermark(0.0) == 80


def test_silent_feeds_count_no_longer_until_they_are_heard() -> None:
    feeds = two(idle_s=2.0)
    feeds.signal("north", 100, 3.0)
    assert feeds.next_idle(3.0) is not None
    assert feeds.watermark(3.0) == 100
    assert feeds.admit("south", np.array([99, 100]), 3.5).tolist() == [False, True]
    assert feeds.watermark(3.5) == 100


@pytest.mark.parametrize("asked", [3.5, 50.0])
def test_it_does_not_matter_when_silence_is_noticed(asked: float) -> None:
    """South fell silent while north was still heard of, even if both are when somebody asks."""
    feeds = two(idle_s=2.0)
    feeds.signal("north", 100, 3.0)
    assert feeds.watermark(asked) == 100


def test_if_all_are_silent_nothing_moves() -> None:
    feeds = two(idle_s=1.0)
    feeds.signal("north", 100, 0.0)
    assert feeds.watermark(50.0) == NEVER
