"""Writes the records of all ranks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.plan.window import NEVER

from ...execute.trace import Trace
from ...windows.feeds import HOLD, ONLY
from ..commits import record_of
from ..points import reached
from ..protocol.commit import Commit
from ..records.folder import CheckpointFolder
from ..records.record import Record
from .chair import Over


def merged(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the state of all intakes as that of one, which a record keeps.

    Ranks that go on from it may be fewer or more, and any of them may register a feed that the
    record has. Until one does, all hold their promises where that feed stood.

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


@dataclass
class Recorder:
    """Writes the records of all ranks, at rank 0.

    Parameters
    ----------
    folder : CheckpointFolder
    query, fingerprint, dealt : str
        Those of :class:`~..records.record.Record`.
    incarnation : int
    kept : dict of number to tuple of bytes
        Descriptions of rows of earlier numbers that were not acknowledged; changes.
    """

    folder: CheckpointFolder
    query: str
    fingerprint: str
    dealt: str
    incarnation: int
    kept: dict[int, tuple[bytes, ...]]

    def commit(self, over: Over, trace: Trace) -> None:
        """Write the record of a cut.

        Raises
        ------
        FileError
        """
        began = time.monotonic()
        reached("record")
        counts: Counter[str] = Counter()
        for part in over.parts:
            counts.update(part["counts"])
        commit = self.whole(over)
        self.folder.commit(record_of(commit, self.query, self.fingerprint, self.dealt, counts))
        reached("committed")
        trace.add("records", "record", began, time.monotonic(), number=over.number)

    def whole(self, over: Over) -> Commit:
        """Return the commit of all ranks, from what each has told of its part."""
        parts = over.parts
        acknowledged = min(part["acknowledged"] for part in parts)
        kept = self.kept
        kept[over.number] = tuple(part["rows"].encode() for part in parts if part["rows"])
        for number in [n for n, files in kept.items() if n <= acknowledged or not files]:
            del kept[number]
        return Commit(
            over.number,
            len(parts),
            self.incarnation,
            {},
            merged([part["admission"] for part in parts]),
            acknowledged,
            tuple(part["state"].encode() for part in parts),
            dict(kept),
        )


def own_commit(last: Record | None) -> Commit | None:
    """Return a record as far as it concerns one rank: how far it goes."""
    if last is None:
        return None
    return Commit(last.number, 1, last.incarnation, {}, None, last.number, (), {})
