"""What a record keeps of the intakes of all ranks, in the form of one intake.

Ranks that go on from it may be fewer or more, and any of them may register a feed that the record
has. Until one does, all hold their promises where that feed stood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.plan.window import NEVER

from ...windows.feeds import HOLD, ONLY


def merged(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the state of all intakes as that of one.

    Parameters
    ----------
    states : sequence of mapping
        By rank: the state of its intake, source and name of the feeds that it has ``begun``, and
        the first rows of feeds by their number.
    """
    intakes = [state["intake"] for state in states]
    sources = [intake["sources"] for intake in intakes]
    numbers: dict[str, dict[str, int]] = {alias: {} for alias in sources[0]}
    for intake in intakes:
        for alias, own in intake["numbers"].items():
            numbers[alias].update((name, n) for name, n in own.items() if name != ONLY)
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
    """Return the state of a source, whose feeds are spread over the ranks."""
    feeds: dict[str, Any] = {}
    open_ = [not state["feeds"]["closed"] for state in states]
    # A feed that a rank has begun is known best there; others have it as the last record had it.
    for is_own in (False, True):
        for state, is_open, own in zip(states, open_, begun, strict=True):
            for name, feed in state["feeds"]["feeds"].items():
                if name not in (ONLY, HOLD) and is_own == (name in own):
                    feeds[name] = feed if is_open or not is_own else None
    largest = [state["largest"] for state in states if state["largest"] is not None]
    taken: dict[str, int] = {}
    rows: dict[str, int] = {}
    for state in states:
        _raise(taken, state["taken"])
        _raise(rows, state["rows"])
    return {
        "feeds": {
            "feeds": {
                HOLD: [0, NEVER, 0, False],
                **{name: feed for name, feed in feeds.items() if feed is not None},
            },
            "watermark": min(state["feeds"]["watermark"] for state in states),
            # Ranks that begin again after the end register their feeds, to learn where they are.
            "closed": False,
        },
        "largest": max(largest, default=None),
        "late": sum(state["late"] for state in states),
        "taken": taken,
        "rows": rows,
    }


def _raise(counts: dict[str, int], others: Mapping[str, int]) -> None:
    """Take over counts that are larger: of a feed only the rank that has begun it counts on."""
    for name, count in others.items():
        counts[name] = max(count, counts.get(name, 0))
