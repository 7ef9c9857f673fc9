"""A running query whose changes happen one after the other, in a thread of its own."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from penstock import arguments
from penstock.errors import UsageError

from ...execute.budget import Budget
from ...metrics import Report
from ...windows.source import StreamSource
from .flow import Flow
from .outlet import Outlet
from .sources import Sources
from .thread import Inbox, StreamThread

T = TypeVar("T")

#: Most batches that pushes may leave to the stream's thread without waiting.
MOST_POSTED = 128


class SerialStream(ABC):
    """A running query, and how its calls come to its thread; what they do is left to its kind.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the pushed rows.
    flow : Flow
    budget : Budget
    sources : Sources
    outlet : Outlet
    tick : callable
        As for :class:`~.thread.StreamThread`.
    inbox : Inbox, optional
        As for :class:`~.thread.StreamThread`.
    """

    def __init__(
        self,
        schemas: Mapping[str, pa.Schema],
        flow: Flow,
        budget: Budget,
        sources: Sources,
        outlet: Outlet,
        tick: Callable[[float], float | None],
        inbox: Inbox[Any] | None = None,
    ) -> None:
        self.schemas = schemas
        self.flow = flow
        self.budget = budget
        self._sources = sources
        self._outlet = outlet
        self._process = os.getpid()
        # Held briefly and by plain ``with``: an interrupt within cannot leave it taken.
        self._gate = threading.Lock()
        #: Held while a batch of a table that is joined with itself is pushed to both sides.
        self._both = threading.Lock()
        self._closed = False
        self._thread = StreamThread(tick, inbox)

    # -- what a kind of query does ----------------------------------------------------------------

    @abstractmethod
    def _read(self, source: StreamSource, batch: pa.RecordBatch) -> Any:
        """Read pushed rows, in the caller's thread; raise an error for wrong rows."""

    @abstractmethod
    def _take(self, source: StreamSource, batch: pa.RecordBatch, read: Any, feed: str) -> None:
        """Judge a batch, and take it; an error after a change ends the stream, too."""

    @abstractmethod
    def _advanced(self) -> None:
        """Do what follows when watermarks may have risen."""

    @abstractmethod
    def _check(self) -> None:
        """Raise the error that ended the stream, if one has."""

    @abstractmethod
    def _fail(self, error: Exception) -> None:
        """End the stream with an error, which every later call raises."""

    @abstractmethod
    def _settle(self) -> None:
        """Wait until all rows have had their effect, if there is no latency target."""

    @abstractmethod
    def _cut_all(self) -> None:
        """Let all waiting rows have their effect."""

    @abstractmethod
    def _drain(self, timeout_s: float) -> None:
        """Wait until the output rows of all cut batches can be polled."""

    @abstractmethod
    def _last_steps(self) -> list[Callable[[], None]]:
        """Return the steps that end the stream, in order; each runs even if others fail."""

    @abstractmethod
    def _report(self) -> Report:
        """Make the report, in the stream's thread."""

    @abstractmethod
    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition on the stream's progress is true; return whether it is.

        Raises
        ------
        PenstockError
            The stream has failed.
        """

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._outlet.schema

    def _require_own_process(self) -> None:
        """Refuse a forked process, which has no threads of the stream."""
        if os.getpid() != self._process:
            raise UsageError(
                f"the stream belongs to process {self._process}, and this one was forked from it; "
                "open a stream of its own here, or use it there"
            )

    def _named(self, name: str) -> list[StreamSource]:
        """Return the sources of this name: both sides of a table that is joined with itself.

        Raises
        ------
        UsageError
        """
        self._require_own_process()
        if self._closed:
            raise closed_error()
        return self._sources.find(arguments.text("source", name))

    def _change(self, do: Callable[[], T]) -> T:
        """Call ``do`` in the stream's thread, unless the stream is closed by then."""

        def unless_closed() -> T:
            if self._closed:
                raise closed_error()
            return do()

        return self._thread.call(unless_closed)

    def _need_not_wait(self, source: StreamSource, batch: pa.RecordBatch, feed: str) -> bool:
        """Whether a batch will certainly be taken, so that its push need not wait."""
        if not self.flow.latency_s or self._thread.posted >= MOST_POSTED:
            return False
        self._check()
        count = self._sources.bytes_of(source, batch)
        is_free = self.budget.is_little(count) and self.budget.fits(MOST_POSTED * count)
        return is_free and self._sources.cannot_fail(source, feed)

    def _post(self, take: Callable[[], None]) -> None:
        """Post a batch to the stream's thread, unless the stream is closed by then."""
        with self._gate:
            if self._closed:
                raise closed_error()
            self._thread.post(take)

    def _take_posted(
        self, source: StreamSource, batch: pa.RecordBatch, read: Any, feed: str
    ) -> None:
        try:
            self._take(source, batch, read, feed)
        except Exception as error:  # no caller waits: the next call raises it
            self._fail(error)

    def _take_in(self, source: StreamSource, batch: pa.RecordBatch, read: Any, feed: str) -> bool:
        """Take a batch if there is room for it; return whether there is."""
        self._check()
        if not self.budget.fits(self._sources.bytes_of(source, batch)):
            return False
        self._take(source, batch, read, feed)
        return True

    def _close(self) -> Exception | None:
        """Join the remaining rows and end all threads; return the error, only once."""
        if self._closed:
            return None
        with self._gate:  # no batch is posted after this
            self._closed = True
        self._thread.do_posted()
        self.budget.lifted = True  # the last rows leave at once
        failed = None
        for step in self._last_steps():
            try:
                step()
            except Exception as error:  # the other steps must still be done
                failed = failed or error
        self._thread.end()
        return failed


def closed_error() -> UsageError:
    return UsageError("the stream is closed; open a new one")
