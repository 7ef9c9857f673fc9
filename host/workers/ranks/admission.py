"""State of all ranks' intakes, merged into the one that a record has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.plan.window import NEVER

from ...windows.feeds import HOLD, ONLY


def merged(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the intake states of all ranks into the state of one intake, for the record.

    The ranks that go on from it may be fewer or more, and any of them may register a feed of the
    record. Until one does, all hold their promises where that feed stood.

    Parameters
    ----------
    states : sequence of mapping
        By rank: the state of its ``intake``, the (source, name) of feeds that it has ``begun``, and
        the next row number, ``firsts``, by number of the feed.
    """
    intakes = [state["intake"] for state in states]
    sources = [intake["sources"] for intake in intakes]
    numbers: dict[str, dict[str, int]] = {alias: {} for alias in sources[0]}
    for intake in intakes:
        for alias, by_name in intake["numbers"].items():
            numbers[alias].update((name, n) for name, n in by_name.items() if name != ONLY)
    firsts: dict[str, int] = {}
    for state in states:
        _raise(firsts, state["firsts"])
    return {
        "intake": {
            "sources": {
                alias: _source(
                    [one[alias] for one in sources],
                    [{feed for source, feed in s["begun"] if source == alias} for s in states],
                )
                for alias in sources[0]
            },
            "numbers": numbers,
        },
        "firsts": firsts,
    }


def _source(states: Sequence[Mapping[str, Any]], begun: Sequence[set[str]]) -> dict[str, Any]:
    """Merge the states of a source, whose feeds are spread over the ranks."""
    feeds: dict[str, Any] = {}
    open_ = [not state["feeds"]["closed"] for state in states]
    # The rank that has begun a feed knows it best; the others have it from the last record.
    for is_own in (False, True):
        for state, is_open, begun_there in zip(states, open_, begun, strict=True):
            for name, feed in state["feeds"]["feeds"].items():
                if name not in (ONLY, HOLD) and is_own == (name in begun_there):
                    feeds[name] = feed if is_open or not is_own else None
    largest = [state["largest"] for state in states if state["largest"] is not None]
    counts: dict[str, int] = {}
    rows: dict[str, int] = {}
    for state in states:
        _raise(counts, state["taken"])
        _raise(rows, state["rows"])
    return {
        "feeds": {
            "feeds": {
                HOLD: [0, NEVER, 0, False],
                **{name: feed for name, feed in feeds.items() if feed is not None},
            },
            "watermark": min(state["feeds"]["watermark"] for state in states),
            # Ranks that restart after the end register their feeds, to learn their positions.
            "closed": False,
        },
        "largest": max(largest, default=None),
        "late": sum(state["late"] for state in states),
        "taken": counts,
        "rows": rows,
    }


def _raise(counts: dict[str, int], of_rank: Mapping[str, int]) -> None:
    """Raise counts to a rank's larger ones: only the rank that has begun a feed counts on."""
    for name, count in of_rank.items():
        counts[name] = max(count, counts.get(name, 0))
