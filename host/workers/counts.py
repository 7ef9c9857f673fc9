"""What a worker counts of itself, and asks of its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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


@dataclass
class WorkerCounts:
    """What a worker has done.

    Parameters
    ----------
    rows, filtered, timeless : int
        Rows that it was dealt; those that WHERE left out, and those without an event time.
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
    """

    rows: int = 0
    filtered: int = 0
    timeless: int = 0
    epochs: int = 0
    merged: int = 0
    delta_bytes: int = 0
    entries: int = 0
    state_bytes: int = 0
    credit_waits: int = 0
    lag: int = 0
    checkpoint: int = 0
