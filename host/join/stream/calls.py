"""The calls that users make of a running query, whatever it does with its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, Self

import pyarrow as pa

from penstock import arguments
from penstock.errors import memory_explained, warn_untaken

from ...metrics import MetricsServer, Report, serve_metrics
from ...rows.received import one_batch
from ...windows.feeds import ONLY
from ...windows.source import Moment, Span, StreamSource
from .serial import SerialStream

#: Quantiles of latency in a report.
QUANTILES = (0.5, 0.95, 0.99)


class StreamCalls(SerialStream):
    """The calls of a running query.

    Notes
    -----
    Any thread may call any method. A call interrupted by an exception in its own thread has been
    done wholly or not at all; ``pushed`` tells which for batches.
    """

    def register(self, source: str, feed: str, disorder: Span | None = None) -> None:
        """Register a feed of a source, whose watermark is the least of all its feeds.

        The first registered feed replaces the unnamed one that a source starts with.

        Parameters
        ----------
        source : str
            Alias of one side, or a table.
        feed : str
            Name of the feed, not empty.
        disorder : int or timedelta, optional
            Disorder of this feed; the source's by default.

        Raises
        ------
        UsageError
            The source is unknown, or has such a feed already.
        """
        sources = self._named(source)
        arguments.text("feed", feed)
        arguments.optional(arguments.span)("disorder", disorder)

        def register() -> None:
            for one in sources:
                self._sources.register(one, feed, disorder)

        self._change(register)

    def deregister(self, source: str, feed: str) -> None:
        """End a feed, so that it no longer holds up the others.

        Raises
        ------
        UsageError
            The source or the feed is unknown.
        """
        sources = self._named(source)
        arguments.text("feed", feed)

        def deregister() -> None:
            for one in sources:
                self._sources.deregister(one, feed)
            self._advanced()

        self._change(deregister)

    def push(self, source: str, batch: Any, *, feed: str = ONLY) -> None:
        """Push the next rows of a source, in order of arrival.

        Parameters
        ----------
        source : str
            Alias of one side, or a table; one that is joined with itself is pushed to both sides,
            also where one of them has no alias but its name.
        batch : RecordBatch, Table, or any object with ``__arrow_c_stream__``
            Columns may have other types than the stream was opened with, if these hold each of
            their values.
        feed : str
            Feed that the rows come from, if the source has registered any.

        Raises
        ------
        UsageError
            The source or feed is unknown, or the stream is closed.
        SchemaError
            The batch lacks a column, or the type of a column does not hold its values.
        DataError
            A value breaks a promise of its column.
        OverloadError
            The memory budget had no room for the rows for too long.
        DeviceError
            No device could run a task. The stream cannot go on; close it.

        Notes
        -----
        After any of these errors except DeviceError, no row of the batch has been taken. After an
        interrupt, all or none have: :meth:`pushed` tells which.
        """
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
        """Return how many batches of a source, or of one of its feeds, have been taken.

        All pushes called before have then been taken or refused, interrupted ones included.

        Raises
        ------
        UsageError
            The source is unknown.
        """
        self._require_own_process()
        sources = self._sources.find(arguments.text("source", source))
        arguments.optional(arguments.text)("feed", feed)
        return self._thread.call(lambda: min(self._sources.batches(one, feed) for one in sources))

    def advance(self, source: str, time_: Moment, *, feed: str = ONLY) -> None:
        """Promise that no later row of a source, or of a feed of it, has a time below ``time_``.

        Parameters
        ----------
        time_ : int or datetime
            An integer is in the unit of the source's time column. A signal older than an earlier
            one changes nothing.
        feed : str
            Feed that promises, if the source has registered any.
        """
        sources = self._named(source)
        arguments.text("feed", feed)
        arguments.moment("time_", time_)

        def signal() -> None:
            for one in sources:
                self._sources.signal(one, feed, time_)
            self._advanced()

        self._change(signal)
        self._settle()

    def poll(self) -> pa.Table:
        """Return the output rows since the last call, each once; in order only if so configured.

        Raises
        ------
        DeviceError
            No device could run a task. Earlier rows have been returned.
        """
        self._require_own_process()
        return self._outlet.take(self._check)

    def wait(self, rows: int, timeout_s: float) -> bool:
        """Wait until at least ``rows`` rows can be polled; return whether they can."""
        arguments.whole("rows", rows)
        return self.wait_for(lambda: self._outlet.rows >= rows, timeout_s)

    def report(self) -> Report:
        """Return counts and state, for people and for metrics."""
        self._require_own_process()
        return self._thread.call(self._report)

    def serve_metrics(self, port: int = 0) -> MetricsServer:
        """Serve metrics to Prometheus and to ``penstock top``, until the result is closed.

        Parameters
        ----------
        port : int
            Port on this machine's loopback; 0 takes a free one.

        Raises
        ------
        UsageError
            The port is taken.
        """
        return serve_metrics(self.report, arguments.whole("port", port, most=65_535))

    def failures(self) -> dict[str, int]:
        """Failed tasks per lane; each was run again. Empty where nothing runs on lanes."""
        return {}

    def parked(self) -> list[str]:
        """Lanes that are out of service because they failed too often, or hang."""
        return []

    def flush(self) -> None:
        """Let all pushed rows have their effect, and wait until the output rows can be polled."""
        self._require_own_process()
        self._thread.call(self._cut_all)
        self._drain(self.flow.push_timeout_s)

    def late(self) -> dict[str, pa.Table]:
        """Return the late rows per source since the last call; they had no effect.

        ``report().late`` keeps their number.
        """
        self._require_own_process()
        self._thread.call(_nothing)  # waits until posted batches are judged
        return self._sources.late_rows()

    def close(self) -> pa.Table:
        """End all sources, and return the rows not yet polled. A second call returns none.

        After an interrupt the stream closes all the same, and the next call waits for the end.
        """
        self._require_own_process()
        error = self._thread.call(self._close)
        self._thread.join(self.flow.running.timeout_s)
        if error is not None:
            raise error
        return self.poll()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        warn_untaken(self.close(), *exc)


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
