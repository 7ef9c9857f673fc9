"""Source of a worker's rows, promises and marks, and receiver of its results and parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .protocol.messages import Message, OutputRows, PartWritten


@dataclass(frozen=True)
class WorkerStatus:
    """Status that a worker sends now and then: its counts, and times for the trace.

    Parameters
    ----------
    counts : mapping of str to number
        As in :class:`~.counts.WorkerCounts`.
    spans : sequence of (name, began, ended, numbers)
        Times for the trace, in monotonic seconds.
    """

    counts: Mapping[str, float]
    spans: tuple[tuple[str, float, float, Mapping[str, float]], ...] = ()


class Upstream(ABC):
    """The parent as a worker sees it, or another source that deals rows to a worker.

    No method waits.
    """

    #: Whether no message follows.
    closed = False

    @property
    @abstractmethod
    def has_arrived(self) -> bool:
        """Whether :meth:`take` may return a message."""

    @abstractmethod
    def take(self) -> Message | None:
        """Return the next message, the body of rows as a batch; None if there is none yet.

        It may be a view of memory that is valid until :meth:`done`.
        """

    @abstractmethod
    def done(self) -> None:
        """Say that the last message has been processed, so that its memory may be reused."""

    @property
    @abstractmethod
    def may_give(self) -> bool:
        """Whether :meth:`give` takes a message now."""

    @abstractmethod
    def give(self, message: OutputRows | PartWritten | WorkerStatus) -> None:
        """Begin to send a message; :meth:`pump` goes on with it if there is no room for all."""

    @abstractmethod
    def pump(self) -> bool:
        """Go on with a message that waits for room; returns whether anything was sent."""


def status_header(status: WorkerStatus) -> dict[str, Any]:
    """Return a status as plain values, for JSON."""
    return {"counts": dict(status.counts), "spans": [list(span) for span in status.spans]}


def status_from(header: Mapping[str, Any]) -> WorkerStatus:
    """Return the status of :func:`status_header`."""
    return WorkerStatus(header["counts"], tuple((n, b, e, m) for n, b, e, m in header["spans"]))
