"""Counts of each worker, and their sums at the parent, which records keep in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..execute.stats import Stats
from .protocol.border import FoldingState


class EpochState(FoldingState, Protocol):
    """State of a worker that also says how much it holds."""

    @property
    def pending_bytes(self) -> int:
        """Input bytes since the last seal."""
        ...

    @property
    def entries(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def trim(self) -> None:
        """Free the memory of groups that were released."""
        ...


@runtime_checkable
class CountingPairs(Protocol):
    """State of a worker in a join."""

    pairs: Stats


@dataclass
class WorkerCounts:
    """Counts of one worker since it began.

    Parameters
    ----------
    rows, filtered, timeless : int
        Rows dealt to it; rows that WHERE left out; rows without an event time.
    filtered_covered, timeless_covered : int
        The last two as of the last mark, for the next record.
    epochs, merged : int
        Epochs ended, entries merged.
    delta_bytes : int
        Sent to leaders.
    entries, state_bytes : int
        Groups that it leads, and bytes of its state.
    credit_waits : int
        How often it had a message to send and no credit.
    lag : int
        How far the slowest worker's promise is behind its own, in the window's unit.
    checkpoint : int
        Number of its last part.
    pairs_in_window, pairs_evaluated, pairs_pruned : int
        Of a join since this worker began.
    """

    rows: int = 0
    filtered: int = 0
    timeless: int = 0
    filtered_covered: int = 0
    timeless_covered: int = 0
    epochs: int = 0
    merged: int = 0
    delta_bytes: int = 0
    entries: int = 0
    state_bytes: int = 0
    credit_waits: int = 0
    lag: int = 0
    checkpoint: int = 0
    pairs_in_window: int = 0
    pairs_evaluated: int = 0
    pairs_pruned: int = 0

    def note_pairs(self, pairs: Stats) -> None:
        """Copy the counts of a join."""
        self.pairs_in_window = pairs.pairs_in_window
        self.pairs_evaluated, self.pairs_pruned = pairs.pairs_evaluated, pairs.pairs_pruned

    def cover(self) -> None:
        """Note that a mark has come: later rows are for the record after."""
        self.filtered_covered, self.timeless_covered = self.filtered, self.timeless


#: Counts that records keep, so that callers see them grow over restarts.
_KEPT = ("filtered", "timeless")


class Statuses:
    """Latest counts of all workers, and their sums up to the last record.

    Parameters
    ----------
    size : int
        Workers.
    kept : mapping of str to int
        Counts in the record to go on from.
    """

    def __init__(self, size: int, kept: Mapping[str, int]) -> None:
        #: By rank.
        self.latest: list[Mapping[str, float]] = [{} for _ in range(size)]
        self._kept = {name: kept.get(name, 0) for name in _KEPT}
        self._before = dict(self._kept)  # counted by workers of earlier incarnations

    def sum(self, name: str) -> int:
        """Return the sum of a count over all workers, with the counts before a loss or restart."""
        return self._before.get(name, 0) + self._sum(name)

    def _sum(self, name: str) -> int:
        return round(sum(one.get(name, 0) for one in self.latest))

    def covered(self) -> dict[str, int]:
        """Return the counts for the next record, once all workers have written their parts."""
        return {name: self._before[name] + self._sum(f"{name}_covered") for name in _KEPT}

    def committed(self, kept: Mapping[str, int]) -> None:
        """Note the counts in the last record."""
        self._kept = dict(kept)

    def begin_again(self) -> None:
        """Go back to the counts of the last record, since later rows are dealt again."""
        self.latest = [{} for _ in self.latest]
        self._before = dict(self._kept)
