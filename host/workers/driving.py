"""Driver of a stream's workers, as the stream sees it."""

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

#: Number of the one feed under which a stream's promises travel: the low watermark of its sources.
#: Only the intake knows single feeds.
SOURCE = 0


class StreamDriver(ABC):
    """Driver of workers: deals, receives, cuts and commits, in the stream's thread.

    Attributes
    ----------
    job : Job
    parent : Parent
        The protocol's machine: holds rows to deal and rows to poll.
    statuses : Statuses
    trace : Trace
    admission : mapping or None
        State of the intake in the record to go on from.
    recorded_rows : mapping of number to list of RecordBatch
        Unacknowledged output of that record.
    losses : int
        How often workers had to be restarted.
    committed_at : float
        When the last record was committed, in monotonic seconds.
    reported : collection of int
        Ranks of the workers whose statuses this process gets.
    feed : int
        Number of the feed under which promises travel.
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
        """Start the workers, in a thread that lives as long as they do."""

    @abstractmethod
    def close(self) -> None:
        """Let the workers end by themselves."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the workers."""

    @abstractmethod
    def step(self, may_receive: Callable[[], bool]) -> bool:
        """Do all that is possible without waiting; returns whether anything was done."""

    @abstractmethod
    def check(self, now: float) -> bool:
        """Look for lost workers; returns whether all were restarted since one is lost."""

    @abstractmethod
    def is_ready(self, may_receive: bool) -> bool:
        """Whether :meth:`step` can do something."""

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """Processes of the workers, by rank; none once they have ended."""

    def sleep_s(self) -> float:
        """Return for how many seconds nothing is due in this process."""
        return math.inf

    def on_rows(self, number: int, batch: pa.RecordBatch) -> None:  # noqa: B027
        """Hook: output rows have come, before :attr:`parent` gives them to the caller."""
