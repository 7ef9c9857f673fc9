"""Where a worker's rows, promises and marks come from, and where its results and parts go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .protocol.messages import Message, OutputRows, PartWritten


@dataclass(frozen=True)
class Status:
    """What a worker tells of itself now and then.

    Parameters
    ----------
    counts : mapping of str to number
        Those of :class:`~.counts.WorkerCounts`.
    spans : sequence of (name, began, ended, numbers)
        For the trace, in monotonic seconds.
    """

    counts: Mapping[str, float]
    spans: tuple[tuple[str, float, float, Mapping[str, float]], ...] = ()


class Upstream(ABC):
    """The parent, as a worker sees it, or whatever else deals it rows.

    No method waits. A worker that makes its own rows has an upstream that gives them.
    """

    #: Whether nothing follows.
    closed = False

    @property
    @abstractmethod
    def has_arrived(self) -> bool:
        """Whether :meth:`take` may give something."""

    @abstractmethod
    def take(self) -> Message | None:
        """Return the next message, the body of rows as a batch; None if there is none yet.

        It may look into memory that stays as it is until :meth:`done`.
        """

    @abstractmethod
    def done(self) -> None:
        """Say that the last message has been worked on."""

    @property
    @abstractmethod
    def may_give(self) -> bool:
        """Whether :meth:`give` takes a message now."""

    @abstractmethod
    def give(self, message: OutputRows | PartWritten | Status) -> None:
        """Send a message; what there is no room for goes on by :meth:`pump`."""

    @abstractmethod
    def pump(self) -> bool:
        """Go on with a message that waits for room; whether anything has moved."""


def status_header(status: Status) -> dict[str, Any]:
    """Return a status in plain values, for JSON."""
    return {"counts": dict(status.counts), "spans": [list(span) for span in status.spans]}


def status_from(header: Mapping[str, Any]) -> Status:
    """Return the status of :func:`status_header`."""
    return Status(header["counts"], tuple((n, b, e, m) for n, b, e, m in header["spans"]))
