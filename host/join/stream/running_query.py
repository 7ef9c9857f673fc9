"""The calls of a running query, the same for every kind of query."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import pyarrow as pa

from penstock import arguments
from penstock.errors import PenstockError, UsageError, warn_untaken

from ...execute.stats import Stats
from ...execute.trace import Trace
from ...metrics import Report
from ...windows.feeds import ONLY
from ...windows.source import Moment, Span

if TYPE_CHECKING:
    from ...metrics.exporter import MetricsServer
    from ...page.page import Page

#: A table; with a checkpoint rows under its number, or None.
Rows = TypeVar("Rows")


class RunningQuery(ABC, Generic[Rows]):
    """A running query, as :func:`penstock.stream` opens it.

    Attributes
    ----------
    trace : Trace
        Work of each lane and when it was done, if the query was opened so; empty for joins with a
        relation.

    Notes
    -----
    Any thread may call any method.

    Examples
    --------
    >>> stream = penstock.stream(near, schemas, time=time)
    >>> stream.push("orders", orders)
    >>> stream.advance("gps", 60)  # no later row of gps is below 60 ...
    >>> stream.push("gps", gps)
    >>> stream.late()["g"].to_pylist()  # ... but this one
    [{'cab': 7, 't': 12, 'x': 2}]
    >>> stream.report().late
    {'o': 0, 'g': 1}
    >>> stream.close().num_rows
    0
    """

    trace: Trace
    #: Whether the query is closed.
    _closed = False

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Schema of the output."""

    @abstractmethod
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
            The source is unknown, has such a feed already, or needs no watermark.
        """

    @abstractmethod
    def deregister(self, source: str, feed: str) -> None:
        """End a feed, so that it no longer holds up the others.

        Raises
        ------
        UsageError
            The source or the feed is unknown.
        """

    @abstractmethod
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
        FileError
            A relation cannot be read. Rows that were taken are answered by a later call, once it
            can be read again; :meth:`pushed` tells whether the batch was taken.
        DeviceError
            No device could run a task. The stream cannot go on; close it.

        Notes
        -----
        After any of these errors except the last two, no row of the batch has been taken. After an
        interrupt, all or none have: :meth:`pushed` tells which.
        """

    @abstractmethod
    def pushed(self, source: str, feed: str | None = None) -> int:
        """Return how many batches of a source, or of one of its feeds, have been taken.

        All pushes called before have then been taken or refused, interrupted ones included.

        Raises
        ------
        UsageError
            The source is unknown.
        """

    @abstractmethod
    def advance(self, source: str, time_: Moment, *, feed: str = ONLY) -> None:
        """Promise that no later row of a source, or of a feed of it, has a time below ``time_``.

        Parameters
        ----------
        time_ : int or datetime
            An integer is in the unit of the source's time column. A signal older than an earlier
            one changes nothing.
        feed : str
            Feed that promises, if the source has registered any.

        Raises
        ------
        UsageError
            The source or feed is unknown, or its rows need no time.
        """

    @abstractmethod
    def poll(self) -> Rows:
        """Return the output rows since the last call, each once; in order only if so configured.

        Returns
        -------
        pyarrow.Table, Polled, PolledPart or None
            Without a checkpoint, or with ``release="now"``, a table. Else ``Polled``, on ranks
            ``PolledPart``: the rows that the next checkpoint covers, with its number; None if no
            further checkpoint has rows. Each call acknowledges the rows of the call before it.
            Rows that were not acknowledged are given again after a restart, with the same number
            and the rank that computed them; another rank may give them then.

        Raises
        ------
        PenstockError
            The stream has failed; earlier rows have been returned. Or a step behind the join
            fails, or a relation cannot be read: rows wait for another call.
        """

    @abstractmethod
    def wait(self, rows: int, timeout_s: float) -> bool:
        """Wait until at least ``rows`` rows can be polled; return whether they can."""

    @abstractmethod
    def flush(self) -> None:
        """Let all pushed rows have their effect, and wait until the output rows can be polled."""

    @abstractmethod
    def late(self) -> dict[str, pa.Table]:
        """Return the late rows per source since the last call; they had no effect.

        ``report().late`` keeps their number.
        """

    @abstractmethod
    def report(self) -> Report:
        """Return counts and state, for people and for metrics."""

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
        from ...metrics.exporter import serve_metrics

        return serve_metrics(self.report, arguments.whole("port", port, most=65_535))

    def page(
        self,
        port: int = 0,
        *,
        address: str = "127.0.0.1",
        token: str | None = None,
        name: str | None = None,
    ) -> Page:
        """Show the query on a page for browsers, until it is closed; needs the extra ``page``.

        Parameters
        ----------
        port : int
            0 takes the page that this process has, with further joins on it, or a free port.
        address : str
            Where to listen: this machine's loopback, or any other with a token.
        token : str, optional
            At least 16 characters that browsers must show, as ``?token=``.
        name : str, optional
            Of the query on the page; by default the aliases of its sources.

        Returns
        -------
        Page
            Its ``url`` is for a browser; it ends with the query, or by ``close()``.

        Raises
        ------
        UsageError
            The port is taken, the address needs a token, or the query is closed.
        MissingToolError
            Bokeh is not installed.

        Examples
        --------
        >>> with penstock.stream(near, schemas, time=time) as stream:
        ...     stream.page().url.startswith("http://127.0.0.1:")
        True
        """
        from ...page.page import show_reports

        if self._closed:
            raise UsageError("the query is closed, so no page shows it; open a new one")
        query = weakref.proxy(self)  # the page keeps no query alive
        return show_reports(
            lambda: query.report(),
            arguments.whole("port", port, most=65_535),
            arguments.text("address", address),
            arguments.optional(arguments.text)("token", token),
            name=arguments.optional(arguments.text)("name", name),
            trace=self.trace,
            ended=lambda: query._closed,
        )

    @property
    def stats(self) -> Stats:
        """Counts of a join's tasks and pairs.

        Raises
        ------
        AttributeError
            The query runs no tasks in this process.
        """
        raise AttributeError(
            "only a join in this process has stats; report() tells what this query did"
        )

    def failures(self) -> dict[str, int]:
        """Failed tasks per lane, each run again; on workers, how often all were restarted.

        Empty where nothing runs on lanes, and for joins with a relation.
        """
        return {}

    def parked(self) -> list[str]:
        """Lanes that are out of service because they failed too often, or hang."""
        return []

    @property
    def processes(self) -> list[int]:
        """Process numbers of the workers, by rank; empty without workers."""
        return []

    def position(self, source: str, feed: str = ONLY) -> int:
        """Return how many rows of a feed workers have taken: where its sender reads on.

        After a start from a checkpoint these are the rows that it covers. Late rows count.

        Raises
        ------
        UsageError
            The source is unknown, or the stream has no workers.
        """
        raise UsageError(
            "only a stream on workers counts the rows of feeds; pushed() counts batches"
        )

    def stop(self) -> None:
        """Make a checkpoint and end the processes; a stream that is opened on it goes on.

        Unlike :meth:`close` it ends no source, so that windows stay open. Rows that were not
        polled, or not acknowledged, are given after the next start.

        Raises
        ------
        UsageError
            The stream has no checkpoint.
        """
        raise UsageError("without a checkpoint nothing is kept; close the stream")

    @abstractmethod
    def close(self) -> Rows:
        """End all sources, and return the rows not yet polled. A second call returns none.

        After an interrupt the stream closes all the same, and the next call waits for the end. With
        a checkpoint the rows are those of its next number, as :meth:`poll` gives them: poll the
        rest of the numbers.

        Raises
        ------
        FileError
            A relation cannot be read, and rows wait for it. The stream stays open; once it can be
            read, another call ends it.
        DeviceError
            No device could run a task.
        """

    def _free(self) -> None:
        """Free what the stream owns, also if closing it has failed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            warn_untaken(self.close(), error)
        except PenstockError as failure:
            if error is None:
                raise
            if failure is not error:  # a stream that failed raises its error again
                error.add_note(f"Closing the stream failed, too: {failure}")
        finally:
            self._free()
