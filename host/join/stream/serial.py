"""A running query whose changes happen one after the other, in a thread of its own."""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from penstock import arguments
from penstock.errors import UsageError, memory_explained

from ...execute.budget import Budget
from ...metrics import Report
from ...rows.received import one_batch
from ...windows.feeds import ONLY
from ...windows.source import Moment, Span, StreamSource
from .flow import Flow
from .outlet import Outlet
from .running_query import Rows, RunningQuery
from .sources import Sources
from .thread import Inbox, StreamThread

T = TypeVar("T")

#: Most batches that pushes may leave to the stream's thread without waiting.
MOST_POSTED = 128


class SerialStream(RunningQuery[Rows]):
    """A running query whose calls are handed to one thread; kinds of queries say what calls do.

    A call interrupted by an exception in its own thread has been done wholly or not at all;
    ``pushed`` tells which for batches.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the pushed rows.
    flow : Flow
    budget : Budget
        Memory of rows that wait.
    sources : Sources
        Watermarks, and late rows.
    outlet : Outlet
        Output rows that wait for ``poll``.
    tick : callable
        Does what is due; as for :class:`~.thread.StreamThread`.
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

    # -- calls of users ----------------------------------------------------------------------------

    def register(self, source: str, feed: str, disorder: Span | None = None) -> None:
        sources = self._named(source)
        arguments.text("feed", feed)
        arguments.optional(arguments.span)("disorder", disorder)

        def register() -> None:
            for one in sources:
                self._register(one, feed, disorder)

        self._change(register)

    def _register(self, source: StreamSource, feed: str, disorder: Span | None) -> None:
        """Register a feed, in the stream's thread."""
        self._sources.register(source, feed, disorder)

    def deregister(self, source: str, feed: str) -> None:
        sources = self._named(source)
        arguments.text("feed", feed)

        def deregister() -> None:
            for one in sources:
                self._sources.deregister(one, feed)
            self._advanced()

        self._change(deregister)

    def push(self, source: str, batch: Any, *, feed: str = ONLY) -> None:
        sources = {one.side.alias: one for one in self._named(source)}
        arguments.text("feed", feed)
        with memory_explained(), self._both if len(sources) > 1 else nullcontext():
            side = next(iter(sources.values())).side.side
            batch = one_batch(batch, self.schemas[side], source)
            for alias in behind(sources, lambda alias: self._pushed(sources[alias])):
                self._push(sources[alias], source, batch, feed)

    def _pushed(self, source: StreamSource) -> int:
        return self._thread.call(lambda: self._sources.batches(source, None))

    def _push(self, source: StreamSource, name: str, batch: pa.RecordBatch, feed: str) -> None:
        read = self._read(source, batch)
        if self._need_not_wait(source, batch, feed):
            return self._post(partial(self._take_posted, source, batch, read, feed))
        take_in = partial(self._take_in, source, batch, read, feed)
        deadline = time.monotonic() + self.flow.push_timeout_s
        while not self._change(take_in):
            self.budget.wait_for(self._sources.bytes_of(source, batch), deadline - time.monotonic())
        return self._settle()

    def pushed(self, source: str, feed: str | None = None) -> int:
        self._require_own_process()
        sources = self._sources.find(arguments.text("source", source))
        arguments.optional(arguments.text)("feed", feed)
        return self._thread.call(lambda: min(self._sources.batches(one, feed) for one in sources))

    def advance(self, source: str, time_: Moment, *, feed: str = ONLY) -> None:
        sources = self._named(source)
        arguments.text("feed", feed)
        arguments.moment("time_", time_)

        def signal() -> None:
            for one in sources:
                self._sources.signal(one, feed, time_)
            self._advanced()

        self._change(signal)
        self._settle()

    def poll(self) -> Rows:
        self._require_own_process()
        # A call between this one and the return, such as cast(), could be interrupted: rows lost.
        rows: Any = self._outlet.take(self._check)
        return rows

    def wait(self, rows: int, timeout_s: float) -> bool:
        arguments.whole("rows", rows)
        return self.wait_for(lambda: self._outlet.rows >= rows, timeout_s)

    def report(self) -> Report:
        self._require_own_process()
        return self._thread.call(self._report)

    def flush(self) -> None:
        self._require_own_process()
        self._thread.call(self._cut_all)
        self._drain(self.flow.push_timeout_s)

    def late(self) -> dict[str, pa.Table]:
        self._require_own_process()
        self._thread.call(_nothing)  # waits until posted batches are judged
        return self._sources.late_rows()

    def close(self) -> Rows:
        self._require_own_process()
        error = self._thread.call(self._close)
        self._thread.join(self.flow.running.timeout_s)
        if error is not None:
            raise error
        return self.poll()

    # -- what a kind of query does ----------------------------------------------------------------

    @abstractmethod
    def _read(self, source: StreamSource, batch: pa.RecordBatch) -> Any:
        """Read pushed rows, in the caller's thread; raise an error for wrong rows."""

    @abstractmethod
    def _take(self, source: StreamSource, batch: pa.RecordBatch, read: Any, feed: str) -> None:
        """Part late rows from a batch, and take the others; an error halfway ends the stream."""

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
        """Wait until all rows have had their effect; with a latency target they are left to it."""

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


def behind(sides: Iterable[str], pushed: Callable[[str], int]) -> list[str]:
    """Return the sides of a table with the fewest batches: all, unless a push failed halfway.

    So a batch that is pushed again goes where it has not been.
    """
    names = list(sides)
    if len(names) == 1:
        return names
    pushes = {name: pushed(name) for name in names}
    return [name for name in names if pushes[name] == min(pushes.values())]


def _nothing() -> None:
    """Do nothing: a call that only waits for earlier ones."""


def closed_error() -> UsageError:
    return UsageError("the stream is closed; open a new one")
