"""Driver of a stream's workers, as the stream sees it."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..execute.trace import Trace
from .commits import RecordWriter
from .counts import Statuses
from .points import reached
from .protocol.messages import Message, OutputRows
from .protocol.parent import Parent
from .upstream import WorkerStatus

#: Number of the one feed under which a stream's promises travel: the low watermark of its sources.
#: Only the intake knows single feeds.
SOURCE = 0


class StreamDriver(ABC):
    """Driver of workers: deals, receives, cuts and commits, in the stream's thread.

    Parameters
    ----------
    parent : Parent
        The protocol's machine: holds rows to deal and rows to poll.
    statuses : Statuses
    reported : collection of int
        Ranks of the workers whose statuses this process gets.
    records : RecordWriter or None
        None where this process writes none.
    trace : Trace

    Attributes
    ----------
    admission : mapping or None
        State of the intake in the record to go on from.
    recorded_rows : mapping of number to list of RecordBatch
        Unacknowledged output of that record, where this process gives all of it.
    losses : int
        How often workers had to be restarted.
    committed_at : float
        When the last record was committed, in monotonic seconds.
    feed : int
        Number of the feed under which promises travel.
    """

    feed = SOURCE
    losses = 0
    admission: Mapping[str, Any] | None = None

    def __init__(
        self,
        parent: Parent,
        statuses: Statuses,
        reported: Collection[int],
        records: RecordWriter | None,
        trace: Trace,
    ) -> None:
        self.parent, self.trace = parent, trace
        self.statuses, self.reported = statuses, reported
        self.recorded_rows: Mapping[int, Sequence[pa.RecordBatch]] = {}
        self.committed_at = time.monotonic()
        self._records = records

    def start(self) -> None:  # noqa: B027
        """Start the workers, in a thread that lives as long as they do."""

    def close(self) -> None:  # noqa: B027
        """Let the workers end by themselves."""

    def kill(self) -> None:  # noqa: B027
        """Kill the workers."""

    @abstractmethod
    def step(self, may_receive: Callable[[], bool]) -> bool:
        """Do all that is possible without waiting; returns whether anything was done."""

    def check(self, now: float) -> bool:
        """Look for lost workers; returns whether all were restarted since one is lost."""
        return False

    def is_ready(self, may_receive: bool) -> bool:
        """Whether :meth:`step` can do something, since a bell has rung."""
        return False

    @property
    def pids(self) -> list[int]:
        """Processes that this one has started as workers, by rank; none once they have ended."""
        return []

    # What workers give.

    def _arrived(self, rank: int, message: Message | WorkerStatus) -> None:
        """Take a message of a worker."""
        if isinstance(message, WorkerStatus):
            self.statuses.latest[rank] = message.counts
            for name, began, ended, numbers in message.spans:
                self.trace.add(f"worker {rank}", name, began, ended, **numbers)
        elif self.parent.arrived(rank, message) and isinstance(message, OutputRows):
            self.on_rows(message.number, message.body)

    def _commit(self) -> bool:
        """Write the record of a cut that is saved; returns whether there is one."""
        commit = self.parent.ready
        if commit is None:
            return False
        assert self._records is not None
        began = time.monotonic()
        counts = self._counts()
        reached("record")
        self._records.write(commit, counts)
        reached("committed")
        self.parent.commit(commit)
        self.statuses.committed(counts)
        self.committed_at = time.monotonic()
        self.trace.add("records", "record", began, self.committed_at, number=commit.number)
        return True

    def _counts(self) -> Mapping[str, int]:
        """Return the counts for the record."""
        return self.statuses.covered()

    def sleep_s(self) -> float:
        """Return for how many seconds nothing is due in this process."""
        return math.inf

    def on_rows(self, number: int, batch: pa.RecordBatch) -> None:  # noqa: B027
        """Hook: output rows have come, before :attr:`parent` gives them to the caller."""
