"""What drives the workers of a stream, as the stream sees it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa

from ..execute.trace import Trace
from .counts import Statuses
from .job import Job
from .protocol.parent import Parent

#: The one feed by whose number promises of a stream travel: the watermark of its source. Feeds and
#: their lateness are known only where rows come in.
SOURCE = 0


class StreamDriver(ABC):
    """Deals, receives, cuts and commits, in the stream's thread.

    Attributes
    ----------
    job : Job
    parent : Parent
        What is dealt, and what may be polled.
    statuses : Statuses
    trace : Trace
    admission : mapping or None
        State of the intake in the record to go on from.
    recorded_rows : mapping of number to list of RecordBatch
        Output of that record that was not acknowledged.
    losses : int
        How often workers had to begin again.
    committed_at : float
        When the last record was committed, in monotonic seconds.
    reported : collection of int
        Ranks of the workers whose statuses come here.
    feed : int
        Number of the feed by which promises travel.
    """

    job: Job
    parent: Parent
    statuses: Statuses
    trace: Trace
    recorded_rows: dict[int, list[pa.RecordBatch]]
    committed_at: float
    reported: Collection[int]
    admission: Mapping[str, Any] | None = None
    losses = 0
    feed = SOURCE

    @abstractmethod
    def start(self) -> None:
        """Begin, in a thread that lives as long as the workers."""

    @abstractmethod
    def close(self) -> None:
        """End in order."""

    @abstractmethod
    def kill(self) -> None:
        """End at once."""

    @abstractmethod
    def step(self, may_receive: Callable[[], bool]) -> bool:
        """Do what can be done now, without waiting; returns whether anything was."""

    @abstractmethod
    def check(self, now: float) -> bool:
        """Look whether all workers are there; returns whether all have begun again without one."""

    @abstractmethod
    def is_ready(self, may_receive: bool) -> bool:
        """Whether :meth:`step` can do something, given whether it may receive."""

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """Processes of the workers, by rank; none once they have ended."""

    def sleep_s(self) -> float:
        """Return for how many seconds nothing is due in this process."""
        return math.inf

    def on_rows(self, number: int, batch: pa.RecordBatch) -> None:  # noqa: B027
        """Take rows as they come, before :attr:`parent` gives them; for whoever counts them."""
