"""Writer of records for all ranks, at rank 0."""

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
from ..protocol.commit import CheckpointCommit
from ..records.folder import CheckpointFolder
from ..records.record import Record
from .chair import Over


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


@dataclass
class Recorder:
    """Writer of records for all ranks, at rank 0.

    Parameters
    ----------
    folder : CheckpointFolder
    query, fingerprint, schema : str
        As in :class:`~..records.record.Record`.
    incarnation : int
    kept : dict of number to tuple of bytes
        Descriptions of files with unacknowledged rows, by number; changes.
    """

    folder: CheckpointFolder
    query: str
    fingerprint: str
    schema: str
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
        self.folder.commit(record_of(commit, self.query, self.fingerprint, self.schema, counts))
        reached("committed")
        trace.add("records", "record", began, time.monotonic(), number=over.number)

    def whole(self, over: Over) -> CheckpointCommit:
        """Return the commit of all ranks, made of the notes about their parts."""
        parts = over.parts
        acknowledged = min(part["acknowledged"] for part in parts)
        kept = self.kept
        kept[over.number] = tuple(part["rows"].encode() for part in parts if part["rows"])
        for number in [n for n, files in kept.items() if n <= acknowledged or not files]:
            del kept[number]
        return CheckpointCommit(
            over.number,
            len(parts),
            self.incarnation,
            {},
            merged([part["admission"] for part in parts]),
            acknowledged,
            tuple(part["state"].encode() for part in parts),
            dict(kept),
        )


def own_commit(last: Record | None) -> CheckpointCommit | None:
    """Return a record as a commit for one rank's parent: it has only number and incarnation."""
    if last is None:
        return None
    return CheckpointCommit(last.number, 1, last.incarnation, {}, None, last.number, (), {})
