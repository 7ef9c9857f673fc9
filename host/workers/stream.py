"""A running query over one source on several processes: the calls that users make."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock import arguments
from penstock.errors import OverloadError, QueryError, UsageError
from penstock.plan.closing import require_closing, time_key
from penstock.plan.group_query import GroupQuery
from penstock.plan.query import LEFT
from penstock.query.options import QueryOptions

from ..channel import Doorbell
from ..emit.groups.closing import Closing, Limit
from ..execute import promptness
from ..execute.budget import LOOK_S, RESULTS, RESULTS_SHARE, Budget
from ..execute.trace import Trace
from ..grouping.intake import EventTimes, GroupIntake, read_times
from ..join.stream.calls import QUANTILES, StreamCalls
from ..join.stream.flow import Flow
from ..join.stream.outlet import Outlet
from ..metrics import Latency, Report
from ..metrics.report import GroupsReport
from ..state import GroupState
from ..windows.feeds import ONLY
from ..windows.source import Source, Span
from .checkpoint import Checkpoint
from .dealt import dealt_schema, packed, pieces, projected
from .driver import SOURCE, Driver
from .local.job import Job
from .members import fingerprint, schema_text
from .points import arm, reached
from .records.folder import CheckpointFolder
from .reporting import worker_reports
from .results import Gathering, Polled, Tally, table_of
from .runner import EPOCH_BYTES
from .waiting import BellInbox

#: Bytes that this process may hold of batches and results where no budget is given.
_MEMORY_BYTES = 1 << 30
#: Share of the budget that batches take which no record covers; then a checkpoint is forced.
_FORCED = 0.25
#: Seconds between looks at whether all workers are there; their ends are noticed at once.
_CHECK_S = 0.25
#: Share of the latency target between two cuts.
_CUT = 0.25


class WorkerStream(StreamCalls):
    """A running query over one source, on worker processes of this machine.

    Parameters
    ----------
    text : str
        The query; each worker compiles it anew.
    schemas : mapping of table name to pyarrow.Schema
    options : QueryOptions
    size : int
        Workers.
    disorder : int, timedelta, or mapping of source to either
    flow : Flow, optional
        ``running.timeout_s`` is the lease: for so long a worker may take nothing of what it was
        sent. ``memory_bytes`` bounds what this process holds; groups come on top, in the workers.
    checkpoint : Checkpoint, optional
    now : bool
        Whether rows leave before the checkpoint that covers them.
    trace : bool

    Raises
    ------
    QueryError
        It would never be known that a group is complete.
    FileError
        The checkpoint is another query's, damaged, or cannot be written.
    ProcessError
        A worker does not come up.
    """

    def __init__(
        self,
        text: str,
        schemas: Mapping[str, pa.Schema],
        options: QueryOptions,
        size: int,
        *,
        disorder: Span | Mapping[str, Span] = 0,
        flow: Flow | None = None,
        checkpoint: Checkpoint | None = None,
        now: bool = False,
        trace: bool = False,
    ) -> None:
        chosen = flow or Flow()
        self._ordered = chosen.running.ordered
        if self._ordered and now:
            raise UsageError(
                "release='now' gives rows as workers complete them, in no order; leave ordered "
                "out, or let rows leave by commits"
            )
        self._checkpoint = checkpoint
        job = Job(
            text, schemas, options, size, self._ordered, chosen.latency_s, EPOCH_BYTES,
            None if checkpoint is None else checkpoint.folder.absolute(), trace,
        )  # fmt: skip
        query = job.compiled()
        self._closing = _closing_of(query)
        self.query = query
        self.trace = Trace(trace)
        self.latency = Latency()
        schema = schemas[query.source.table]
        self._dealt = dealt_schema(query, schema)
        hidden = GroupState(query, self._dealt, size=size).schema
        plain = pa.schema(list(hidden)[: len(hidden) - self._ordered * len(query.aggregation.keys)])
        self._intake = GroupIntake(query, schema, disorder=disorder, idle_s=chosen.idle_s)
        budget = Budget(chosen.memory_bytes or _MEMORY_BYTES, rows_gather=chosen.latency_s > 0)
        outlet = Outlet(budget, self.latency, plain)
        self._gathering = Gathering(outlet, plain, self._ordered)
        self._tally = Tally()
        budget.watch(RESULTS, self._tally.nbytes)
        arm("parent")
        self._folder = None if checkpoint is None else CheckpointFolder(checkpoint.folder)
        self._bell = Doorbell.create()
        try:
            self._driver = Driver(
                job, job.facts(query), hidden, schema_text(self._dealt), fingerprint(query),
                self._folder, now=now, lease_s=chosen.running.timeout_s, bell=self._bell,
                trace=self.trace,
            )  # fmt: skip
        except BaseException:
            self._close_files()
            raise
        self._driver.on_rows = self._on_rows
        self._parent = self._driver.parent
        self._now = now or checkpoint is None
        self._firsts: Counter[int] = Counter()
        self._limit: Limit = -math.inf
        self._error: Exception | None = None
        self._changes = self._seen = 0
        self._raised = self._changed_since_cut = self._ending = False
        self._flush_wanted = False
        self._target = self._covering = 0
        self._opened = self._cut_at = time.monotonic()
        self._check_at = 0.0
        self._is_stopped = False
        self._offered: Polled | None = None
        self._returned: Polled | None = None
        self._relax = promptness.hold(chosen.latency_s) if chosen.latency_s else None
        self._restore()
        self._started = False
        self._inbox = BellInbox(self._bell, self._is_ready, self._on_gone)
        super().__init__(
            {LEFT: schema}, chosen, budget, self._intake, outlet, self._tick, self._inbox
        )
        try:
            # In the stream's thread: children are told of the end of the thread that made them.
            self._thread.call(self._start)
        except BaseException:
            self._thread.call(self._abandon)
            raise

    def _restore(self) -> None:
        """Take over what the record has of the intake and of rows that wait."""
        admission = self._driver.admission
        self._seen = self._parent.committed
        if admission is None:
            return
        self._intake.restore(admission["intake"])
        self._firsts.update({int(feed): n for feed, n in admission["firsts"].items()})
        self._limit = self._limit_now()
        for number, batches in self._driver.recorded_rows.items():
            for batch in batches:
                self._tally.add(number, batch)

    def _start(self) -> None:
        self._driver.start()
        self._started = True

    def _abandon(self) -> None:
        """End everything, after a start that failed."""
        self._closed = True
        self._driver.kill()
        self._end_all()
        self._thread.end()

    # -- calls beyond those of all streams --------------------------------------------------------

    def position(self, source: str, feed: str = ONLY) -> int:
        """Return how many rows of a feed have been taken: where its sender reads on.

        After a start from a checkpoint these are the rows that it covers. Late rows count.

        Raises
        ------
        UsageError
            The source is unknown.
        """
        self._require_own_process()
        own = self._intake.find(arguments.text("source", source))
        arguments.text("feed", feed)
        return self._thread.call(lambda: self._intake.rows(own, feed))

    def stop(self) -> None:
        """Make a checkpoint and end the processes; a stream that is opened on it goes on.

        Unlike :meth:`close` it ends no source, so that windows stay open. Rows that were not
        polled, or not acknowledged, are given after the next start.

        Raises
        ------
        UsageError
            The stream has no checkpoint.
        """
        self._require_own_process()
        if self._checkpoint is None:
            raise UsageError("without a checkpoint nothing is kept: close the stream")
        self._is_stopped = True
        error = self._thread.call(self._close)
        self._thread.join(self.flow.running.timeout_s)
        if error is not None:
            raise error

    @property
    def processes(self) -> list[int]:
        """Process numbers of the workers, by rank."""
        return self._driver.pids

    def failures(self) -> dict[str, int]:
        """Return how often workers had to begin again, since one was lost."""
        return {"workers": self._driver.losses}

    def parked(self) -> list[str]:
        """Lanes that are out of service: none, since groups need no lane."""
        return []

    def __exit__(self, *exc: object) -> None:
        # Windows that are not complete must not be given as if they were.
        if self._checkpoint is not None and exc and exc[0] is not None:
            self.stop()
        else:
            self.close()

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        self._require_own_process()
        arguments.seconds("timeout_s", timeout_s)
        self.budget.bells.wait_for(lambda: condition() or self._error is not None, timeout_s)
        self._check()
        return condition()

    # -- in the stream's thread: what comes in ----------------------------------------------------

    def _read(self, own: Source, batch: pa.RecordBatch) -> EventTimes:
        return read_times(own.side, batch)

    def _need_not_wait(self, own: Source, batch: pa.RecordBatch, feed: str) -> bool:
        return False  # the call is short: workers fold

    def _take(self, own: Source, batch: pa.RecordBatch, read: EventTimes, feed: str) -> None:
        reached("push")
        self._intake.take_in(self._intake.judge(own, batch, read, feed))
        try:
            while self._intake.waits:
                rows, number = self._intake.next_rows()
                for piece in pieces(projected(rows, self._dealt)):
                    body = packed(piece)
                    self._parent.push(number, self._firsts[number], body, body.size)
                    self._firsts[number] += piece.num_rows
            self._note_change()
        except Exception as error:
            self._fail(error)
            raise

    def _advanced(self) -> None:
        self._note_change()

    def _note_change(self) -> None:
        """Number a change, for latency, and tell workers what it promises."""
        self._changes += 1
        self._changed_since_cut = True
        self.latency.arrived(np.array([self._changes]), time.monotonic())
        self._promise()
        self.budget.set("waiting", self._parent.held_bytes)

    def _promise(self) -> None:
        """Tell workers of a watermark that completes groups."""
        limit = self._limit_now()
        if limit <= self._limit:
            return
        self._limit, self._raised, self._changed_since_cut = limit, True, True
        self._parent.promise(SOURCE, self._intake.watermarks()[LEFT])
        self._covering = self._next_cut()
        self._gathering.note(self._covering, self._changes)

    def _limit_now(self) -> Limit:
        return self._closing.limit(self._intake.watermarks())

    # -- what is due ------------------------------------------------------------------------------

    def _tick(self, now: float) -> float | None:
        if self._error is not None or self._closed or not self._started:
            return None
        try:
            return self._tick_at(now)
        except Exception as error:  # raised at the next call
            self._fail(error)
            return None

    def _tick_at(self, now: float) -> float | None:
        if now >= self._check_at:
            self._check_at = now + _CHECK_S
            if self._driver.check(now):
                self._begun_again()
        self._promise()
        self._cut_if_due(now)
        self._work(lambda: self._inbox.empty())
        idle = self._intake.next_idle(now)
        cut = [] if (due := self._cut_due()) is None else [due]
        look = [] if self._may_receive() else [now + LOOK_S]
        return min([self._check_at, *idle, *cut, *look])

    def _work(self, goes_on: Callable[[], bool]) -> None:
        """Do all that can be done now."""
        while self._driver.step(self._may_receive()):
            self._note_cuts()
            if not goes_on():
                break
        self.budget.set("waiting", self._parent.held_bytes)

    def _begun_again(self) -> None:
        """Forget rows that will be computed again."""
        self._tally.drop(self._parent.committed + 1)

    def _on_rows(self, number: int, batch: pa.RecordBatch) -> None:
        """Take rows of a worker."""
        self._tally.add(number, batch)
        if self._checkpoint is None:
            found = self._parent.poll()
            assert found is not None
            self._gathering.add(*found)
            if not self._ordered:
                self._tally.drop(number)

    def _note_cuts(self) -> None:
        """See whether a cut is over."""
        while self._seen < self._parent.committed:
            self._seen += 1
            if self._checkpoint is None:
                self._gathering.over(self._seen)
                self._tally.drop(self._seen)
            self._cut_at = time.monotonic()
            self.budget.bells.ring()

    def _may_receive(self) -> bool:
        """Whether there is room for results, or nobody could make it by polling."""
        if self.budget.lifted or not self.budget.results_full:
            return True
        return not (self._outlet.rows or self._pollable_rows())

    def _pollable_rows(self) -> int:
        if self._checkpoint is None:
            return 0
        return self._tally.rows(None if self._now else self._parent.committed)

    def _cut_if_due(self, now: float) -> None:
        due = self._cut_due()
        if due is not None and due <= now and self._parent.may_cut:
            self._flush_wanted = self._raised = self._changed_since_cut = False
            firsts = {str(feed): n for feed, n in self._firsts.items()}
            self._parent.cut({"intake": self._intake.state(), "firsts": firsts})

    def _cut_due(self) -> float | None:
        """Return when to cut, in monotonic seconds; None if there is no need."""
        if not self._parent.may_cut:
            return None
        if self._flush_wanted:
            return 0.0
        if self._checkpoint is None:
            return self._cut_at + _CUT * self.flow.latency_s if self._raised else None
        limit = self.budget.limit or _MEMORY_BYTES
        if self._changed_since_cut and (
            self._parent.held_bytes > _FORCED * limit
            or self._tally.nbytes() > RESULTS_SHARE * limit / 2
        ):
            return 0.0
        return self._cut_at + self._checkpoint.every_s if self._changed_since_cut else None

    def _is_ready(self) -> bool:
        return self._started and self._driver.is_ready(self._may_receive())

    def _on_gone(self, name: str) -> None:
        self._check_at = 0.0

    # -- what calls need --------------------------------------------------------------------------

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._intake.recorded and (time.monotonic() > self._opened + self.flow.push_timeout_s):
            source, feed = self._intake.recorded[0]
            raise UsageError(
                f"the checkpoint has feed {feed!r} of {source}, which nobody has registered for "
                f"{self.flow.push_timeout_s:g} s, and no group is complete without it; register "
                f"it and push from position({source!r}, {feed!r}) on, or deregister it"
            )

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._driver.kill()
        self.budget.bells.ring()

    def _settle(self) -> None:
        """Wait for groups that a change has completed, unless a checkpoint releases them."""
        if self.flow.latency_s or self._checkpoint is not None:
            return
        self.wait_for(
            lambda: self._seen >= self._covering or self.budget.results_full,
            self.flow.push_timeout_s,
        )

    def _want_cut(self) -> int:
        """Cut as soon as possible; returns the number of the cut that covers all until now."""
        self._flush_wanted = True
        return self._next_cut()

    def _next_cut(self) -> int:
        """Return the number of the next cut that can begin."""
        return self._parent.committed + (1 if self._parent.may_cut else 2)

    def _cut_all(self) -> None:
        if not self._closed:
            self._target = self._want_cut()

    def _drain(self, timeout_s: float) -> None:
        self._check()
        if self._closed or self.wait_for(lambda: self._seen >= self._target, timeout_s):
            return
        raise OverloadError(
            f"workers have not grouped all rows within {timeout_s:g} s; poll the results if many "
            "wait, use more workers, or give a longer push_timeout_s"
        )

    def _offer(self) -> Polled | None:
        """Return the next rows of a checkpoint, those that did not reach the caller first."""
        self._check()
        if self._offered is None or self._offered is self._returned:
            found = self._parent.poll()
            self._offered = None
            if found is not None:
                number, batches = found
                rows = table_of(batches, self.schema, self._ordered)
                self._tally.drop(number)
                self._offered = Polled(number, rows)
                self.budget.note()
        reached("release")
        return self._offered

    def poll(self) -> pa.Table:
        if self._checkpoint is None:
            return super().poll()
        self._require_own_process()
        return self._piece()

    def _piece(self) -> pa.Table:
        offered = self._thread.call(self._offer)
        rows = self.schema.empty_table() if offered is None else offered.rows
        self._returned = offered
        return rows

    def wait(self, rows: int, timeout_s: float) -> bool:
        if self._checkpoint is None:
            return super().wait(rows, timeout_s)
        arguments.whole("rows", rows)
        return self.wait_for(lambda: self._pollable_rows() >= rows, timeout_s)

    # -- the end ----------------------------------------------------------------------------------

    def _last_steps(self) -> list[Callable[[], None]]:
        return [self._finish, self._driver.close, self._end_all]

    def _finish(self) -> None:
        """End the feeds, and wait for all rows, under a last number."""
        if self._error is not None:
            raise self._error
        if not self._is_stopped:
            self._intake.end()
            self._promise()
        target = self._want_cut()
        deadline = time.monotonic() + self.flow.running.timeout_s
        while self._parent.committed < target:
            now = time.monotonic()
            if now > deadline:
                raise OverloadError(
                    f"workers have not ended within {self.flow.running.timeout_s:g} s; some of "
                    "the last rows are missing"
                )
            if self._driver.check(now):
                self._begun_again()
            self._cut_if_due(now)
            self._work(lambda: True)
            if self._parent.committed < target:
                self._inbox.wait(_CHECK_S)

    def _end_all(self) -> None:
        self._driver.kill()
        if self._relax is not None:
            self._relax()
            self._relax = None
        self._close_files()
        self.budget.bells.ring()

    def _close_files(self) -> None:
        self._bell.close()
        if self._folder is not None:
            self._folder.close()

    def _report(self) -> Report:
        statuses = self._driver.statuses
        parts: dict[str, int] = dict(self.budget.parts())
        parts["workers"] = round(sum(one.get("state_bytes", 0) for one in statuses))
        return Report(
            arrived=dict(self._intake.arrived),
            late=dict(self._intake.late),
            rows=self._tally.given,
            evaluations=0,
            pairs_pruned=0,
            pairs_in_window=0,
            window_rows=0,
            memory_bytes=parts,
            watermark_lag=self._intake.lag(),
            latency_s={share: self.latency.quantile(share) for share in QUANTILES},
            lanes=(),
            groups=GroupsReport(round(sum(one.get("entries", 0) for one in statuses)), 0, 0),
            workers=worker_reports(self._driver),
        )


class NumberedStream(WorkerStream):
    """A running query whose rows leave under the number of the checkpoint that covers them."""

    def poll(self) -> Polled | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the rows of the next checkpoint; they acknowledge those of the call before.

        Returns
        -------
        Polled or None
            None if no further checkpoint has rows.
        """
        self._require_own_process()
        return self._numbered()

    def _numbered(self) -> Polled | None:
        offered = self._thread.call(self._offer)
        self._returned = offered
        return offered

    def close(self) -> Polled | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """End the source; returns as :meth:`poll`, which gives what is left."""
        super().close()
        return self._offered


def _closing_of(query: GroupQuery) -> Closing:
    """Return what tells when groups are complete.

    Raises
    ------
    QueryError
        They never are, or their rows' own arrival completes them.
    """
    require_closing(query)
    key = time_key(query)
    if key is None:
        raise QueryError(
            "workers need groups that follow the event time, and these are complete with each "
            f"row; leave workers out, or add window({query.source.alias}.t, ...) to GROUP BY"
        )
    return Closing(query, key)


def open_workers(
    text: str,
    schemas: Mapping[str, pa.Schema],
    options: QueryOptions,
    size: int,
    checkpoint: Checkpoint | None,
    release: str,
    **how: Any,
) -> WorkerStream:
    """Open a stream on workers; its rows are numbered if commits release them."""
    now = release == "now"
    is_numbered = checkpoint is not None and not now
    kind = NumberedStream if is_numbered else WorkerStream
    return kind(
        text,
        schemas,
        options,
        size,
        checkpoint=checkpoint,
        now=now and checkpoint is not None,
        **how,
    )
