"""Stream on ranks that an engine has placed: the calls that users make, in every rank."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.errors import LostError, UsageError, warn_untaken
from penstock.query.options import QueryOptions

from ...grouping.intake import GATHERED_ROWS
from ...join.lookup.relation_source import RelationTable
from ...join.stream.flow import Flow
from ...join.stream.running_query import Rows, RunningQuery
from ...windows.feeds import ONLY
from ...windows.source import Span, StreamSource
from ..checkpoint import Checkpoint
from ..dealt import projected
from ..members import Workers
from ..opening import Opened, job_of, open_processes
from ..points import reached
from ..results import Polled, PolledPart
from ..stream import WorkerStream
from .open_rank import open_rank
from .rank_driver import RankDriver

#: Seconds between looks at whether the last cut is over.
_LOOK_S = 1.0


class RankStream(WorkerStream[Rows]):
    """A running query over one source, on ranks that an engine has placed.

    Each rank pushes what it reads, under feeds of its own name, and polls the groups whose keys it
    leads.

    Parameters
    ----------
    opened : Opened
        Owned.
    disorder : int, timedelta, or mapping of source to either
    """

    _driver: RankDriver

    def __init__(self, opened: Opened, disorder: Span | Mapping[str, Span]) -> None:
        #: Source and name of feeds that this rank has registered.
        self._begun: list[tuple[str, str]] = []
        #: The one of these that was given last, and is not acknowledged.
        self._again: PolledPart | None = None
        super().__init__(opened, disorder)

    def _restore(self) -> None:
        super()._restore()
        driver = self._driver
        #: Rows of the record that were not acknowledged and that this rank gives: the oldest first.
        self._recorded = deque(driver.recorded)
        self._intake.number_feeds(driver.rank, driver.job.size)
        driver.on_begin = self._begin_cut
        driver.on_begun_feed = self._begun_elsewhere
        driver.acknowledged = self._acknowledged

    # -- feeds ------------------------------------------------------------------------------------

    def _register(self, source: StreamSource, feed: str, disorder: Span | None) -> None:
        super()._register(source, feed, disorder)
        self._begun.append((source.side.alias, feed))
        self._driver.begin_feed(source.side.alias, feed)

    def _begun_elsewhere(self, rank: int, alias: str, feed: str) -> None:
        self._intake.begun_elsewhere(self._intake.aliased(alias), feed)
        self._promise()

    def _push(self, source: StreamSource, name: str, batch: pa.RecordBatch, feed: str) -> None:
        if feed == ONLY and self._opened.checkpoint is not None:
            raise UsageError(
                f"with a checkpoint each rank pushes under names of its own, by which it reads on "
                f"after a restart; register a feed of {name}, and push with feed="
            )
        super()._push(source, name, batch, feed)

    def _deal(self, rows: pa.RecordBatch, number: int) -> None:
        batch = projected(rows, self._dealt_schema(number))
        # Between two pieces messages of others are served.
        for first in range(0, batch.num_rows, GATHERED_ROWS):
            piece = batch.slice(first, GATHERED_ROWS)
            self._push_on(number, piece, piece.nbytes, piece.num_rows)

    def _settle(self) -> None:
        """Do not wait: groups are complete only with the input of all other ranks."""

    # -- cuts -------------------------------------------------------------------------------------

    def _next_cut(self) -> float | None:
        due = self._cuts.due
        # Without a checkpoint cuts only tell when an order is complete, or what was asked for.
        is_needed = self._opened.checkpoint is not None or self._ordered or due == 0.0
        return due if is_needed and not self._driver.parent.has_asked else None

    def _cut(self) -> None:
        self._driver.parent.ask()

    def _begin_cut(self) -> None:
        """Cut this rank's input, since all ranks cut."""
        self._cuts.began()
        firsts = {str(feed): n for feed, n in self._firsts.items()}
        state = {"intake": self._intake.state(), "begun": self._begun, "firsts": firsts}
        self._parent.cut(state)

    def _acknowledged(self) -> int:
        """Return the number up to which the caller has taken all rows of this rank."""
        waits = [part.number - 1 for part in (self._again, *self._recorded) if part is not None]
        return min([self._parent.acknowledged, *waits])

    # -- what is given ----------------------------------------------------------------------------

    def _offer(self) -> Polled | PolledPart | None:
        """Return the next rows: the record's unacknowledged rows first, then this rank's output."""
        if self._offered is not None and self._offered is not self._returned:
            return self._offered
        self._again = self._recorded.popleft() if self._recorded else None
        if self._again is not None:
            self._offered = self._again
            reached("release")
        elif (offered := super()._offer()) is not None:
            self._offered = PolledPart(offered.number, self._driver.rank, offered.rows)
        return self._offered

    def _pollable_rows(self) -> int:
        return super()._pollable_rows() + sum(part.rows.num_rows for part in self._recorded)

    # -- the end ----------------------------------------------------------------------------------

    def close(self) -> Rows:
        """End this rank's feeds, and serve the others until all ranks have ended.

        Meanwhile other threads may poll.
        """
        self._end(stops=False)
        return super().close()

    def stop(self) -> None:
        """Make a last checkpoint once all ranks have stopped or closed, and end."""
        if self._opened.checkpoint is not None:
            self._end(stops=True)
        super().stop()

    def _end(self, *, stops: bool) -> None:
        self._require_own_process()

        def end() -> None:
            if self._closed or self._error is not None:
                return
            if not stops:
                self._intake.end()
                self._advanced()
            self.budget.lifted = True  # others need what this rank leads, whoever polls
            self._driver.parent.end()

        self._thread.call(end)
        while not (self._closed or self._driver.parent.is_over or self._error is not None):
            self.budget.bells.wait_for(
                lambda: self._driver.parent.is_over or self._error is not None, _LOOK_S
            )

    def _finish(self) -> None:
        if self._error is not None:
            raise self._error

    def __exit__(self, *exc: object) -> None:
        if exc and exc[0] is not None and not self._closed:
            # The others must not wait for rows that do not come.
            self._thread.call(lambda: self._abandon_with(exc[1]))
            return
        rows = self.close()
        if isinstance(rows, pa.Table) and self._opened.checkpoint is None:
            warn_untaken(rows, *exc)  # with a checkpoint they are given again

    def _abandon_with(self, cause: object) -> None:
        error = LostError(f"this rank was left by an error: {type(cause).__name__}: {cause}")
        if self._error is None:
            self._driver.abandon(error)
        self._fail(error)
        self._abandon()

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._driver.abandon(error)
        super()._fail(error)


def open_workers(
    text: str,
    schemas: Mapping[str, pa.Schema],
    options: QueryOptions,
    workers: int | Workers,
    *,
    checkpoint: Checkpoint | None,
    release: str,
    disorder: Span | Mapping[str, Span],
    flow: Flow,
    trace: bool,
    relation: tuple[str, RelationTable] | None,
    device: str,
) -> RunningQuery[Any]:
    """Open a stream: on new worker processes, or in this rank together with all other ranks.

    Parameters
    ----------
    text : str
        The query; each worker compiles it anew.
    schemas : mapping of table name to pyarrow.Schema
    options : QueryOptions
    workers : int or Workers
        How many are started, or this rank, as its engine has it.
    checkpoint : Checkpoint, optional
    release : str
        "commit" or "now".
    disorder, flow, trace
        As for :class:`~penstock.host.workers.here.GroupStream`.
    relation : (str, RelationTable), optional
        Name and place of what rows are looked up in before they are grouped.
    device : str
        That each worker opens for a join.

    Returns
    -------
    RunningQuery
        ``poll`` gives rows under a number if commits release them.

    Raises
    ------
    QueryError
        It would never be known that a group is complete.
    FileError
        The checkpoint is another query's, damaged, or cannot be written.
    ProcessError
        A worker does not come up, another rank cannot begin, or they differ.
    """
    now = checkpoint is not None and release == "now"
    size = workers if isinstance(workers, int) else workers.size
    facts = text, schemas, options, size, flow, checkpoint, now, trace, relation, device
    if isinstance(workers, int):
        return WorkerStream(open_processes(job_of(*facts), flow, checkpoint, now), disorder)
    opened = open_rank(lambda: job_of(*facts), workers, flow, checkpoint, now)
    return RankStream(opened, disorder)
