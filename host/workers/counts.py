"""What a worker counts of itself and asks of its state, and what its parent keeps of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..execute.stats import Stats
from .protocol.border import FoldingState


class EpochState(FoldingState, Protocol):
    """A state that also says how much it holds."""

    @property
    def pending_bytes(self) -> int:
        """Input bytes since the last seal."""
        ...

    @property
    def entries(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def trim(self) -> None:
        """Give back memory of groups that have left."""
        ...


@runtime_checkable
class CountingPairs(Protocol):
    """A state that joins."""

    pairs: Stats


@dataclass
class WorkerCounts:
    """What a worker has done.

    Parameters
    ----------
    rows, filtered, timeless : int
        Rows that it was dealt; those that WHERE left out, and those without an event time.
    filtered_covered, timeless_covered : int
        The same up to the last mark: what the next record keeps.
    epochs, merged : int
        Epochs ended, entries merged.
    delta_bytes : int
        Sent to leaders.
    entries, state_bytes : int
        Groups that it leads, and bytes of its state.
    credit_waits : int
        Times that it had something to send and no credit.
    lag : int
        How far the last worker's promise is behind its own, in the window's unit.
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
        """Take over what a join has counted."""
        self.pairs_in_window = pairs.pairs_in_window
        self.pairs_evaluated, self.pairs_pruned = pairs.pairs_evaluated, pairs.pairs_pruned

    def cover(self) -> None:
        """Note that a mark has come."""
        self.filtered_covered, self.timeless_covered = self.filtered, self.timeless


#: Counts that records keep, since callers see them grow as long as the stream lives.
_KEPT = ("filtered", "timeless")


class Statuses:
    """The latest counts of all workers, and what records keep of them.

    Parameters
    ----------
    size : int
        Workers.
    kept : mapping of str to int
        Of the record to go on from.
    """

    def __init__(self, size: int, kept: Mapping[str, int]) -> None:
        #: By rank.
        self.latest: list[Mapping[str, float]] = [{} for _ in range(size)]
        self._kept = {name: kept.get(name, 0) for name in _KEPT}
        self._before = dict(self._kept)  # what workers of before this incarnation have counted

    def sum(self, name: str) -> int:
        """Return the sum of a count of all workers, those before a loss or a restart among them."""
        return self._before.get(name, 0) + self._sum(name)

    def _sum(self, name: str) -> int:
        return round(sum(one.get(name, 0) for one in self.latest))

    def covered(self) -> dict[str, int]:
        """Return what the next record keeps, once all workers have given their parts."""
        return {name: self._before[name] + self._sum(f"{name}_covered") for name in _KEPT}

    def committed(self, kept: Mapping[str, int]) -> None:
        """Note what the last record keeps."""
        self._kept = dict(kept)

    def begin_again(self) -> None:
        """Go back to the last record: what it does not cover is dealt and counted again."""
        self.latest = [{} for _ in self.latest]
        self._before = dict(self._kept)
