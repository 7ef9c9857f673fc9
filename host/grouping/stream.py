"""Stream of groups of one source, in one process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from penstock import arguments
from penstock.errors import FileError, OverloadError, PenstockError
from penstock.plan.group_query import GroupQuery, require_closing
from penstock.plan.query import LEFT

from ..emit.groups.closing import Limit, group_closing
from ..emit.output import RowsByArrival
from ..execute import promptness
from ..execute.batcher import Batcher
from ..execute.budget import LOOK_S, SPARE, Budget
from ..execute.trace import Trace
from ..join.lookup.lookup_join import RelationJoin
from ..join.stream.flow import Flow
from ..join.stream.outlet import Outlet
from ..join.stream.serial import SerialStream
from ..metrics import Latency, Report
from ..windows.source import Span, StreamSource
from .event_times import EventTimes
from .folding import GroupFolding
from .intake import GroupIntake
from .report import report_of

#: Seconds after which a relation that could not be read is tried again.
_RETRY_S = 1.0


class GroupStream(SerialStream[pa.Table]):
    """Running GROUP BY over one source; a group is given once no further row of it can come.

    Parameters
    ----------
    query : GroupQuery
    schema : pyarrow.Schema
        Of what is pushed.
    disorder : int, timedelta, or mapping of source to either
        How far the time of a row may lie below the largest time before it in its feed; rows further
        below are late. An integer is in the unit of the source's time column.
    flow : Flow, optional
        Options of order and lanes have no effect: groups are always ordered, and use no lane.
    trace : bool
        Whether ``trace`` records what was folded and given when.
    lookup : RelationJoin, optional
        Of ``query.lookup``, ordered.
    owned : sequence of callable
        Called when the stream has closed.

    Raises
    ------
    QueryError
        Groups would never be complete.

    Notes
    -----
    Groups come by their time key, then by the other keys, however the input is cut into batches.
    """

    def __init__(
        self,
        query: GroupQuery,
        schema: pa.Schema,
        *,
        disorder: Span | Mapping[str, Span] = 0,
        flow: Flow | None = None,
        trace: bool = False,
        lookup: RelationJoin | None = None,
        owned: Sequence[Callable[[], None]] = (),
    ) -> None:
        require_closing(query)
        #: None if each row is a group, which is complete at once.
        self._closing = group_closing(query)
        self.query = query
        self.trace = Trace(trace)
        self.latency = Latency()
        self._owned = owned
        self._limit: Limit = -math.inf
        self._folding = GroupFolding(query, schema, lookup)
        chosen = flow or Flow()
        self._intake = GroupIntake(query, schema, disorder=disorder, idle_s=chosen.idle_s)
        budget = Budget(chosen.memory_bytes, rows_gather=chosen.latency_s > 0)
        self._batcher = Batcher(chosen.latency_s)
        self._relax = promptness.hold(chosen.latency_s) if chosen.latency_s else None
        self._error: Exception | None = None
        #: Error of a relation that cannot be read at present, while rows wait for it.
        self._trouble: FileError | None = None
        self._held = False  # whether complete groups wait until results are polled
        self._changes = 0
        #: Last change whose complete groups have all been released.
        self._since = 0
        self._rows_out = 0
        outlet = Outlet(budget, self.latency, self._folding.schema)
        super().__init__({LEFT: schema}, chosen, budget, self._intake, outlet, self._tick)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        self._require_own_process()
        arguments.seconds("timeout_s", timeout_s)
        self.budget.bells.wait_for(lambda: condition() or self._error is not None, timeout_s)
        self._check()
        return condition()

    def close(self) -> pa.Table:
        self._require_own_process()
        if self.query.lookup is not None:
            self._thread.call(self._cut_all)
        return super().close()

    def _free(self) -> None:
        if not self._closed:
            with suppress(PenstockError):  # raised already
                super().close()

    # -- in the stream's thread -------------------------------------------------------------------

    def _read(self, source: StreamSource, batch: pa.RecordBatch) -> EventTimes:
        return self._intake.read(batch)

    def _take(
        self, source: StreamSource, batch: pa.RecordBatch, read: EventTimes, feed: str
    ) -> None:
        judged = self._intake.judge(source, batch, read, feed)
        try:
            count = self._intake.take_in(judged)
        except Exception as error:  # some of it may have been done
            self._fail(error)
            raise
        self._changed()
        self._batcher.arrived(count)
        self.budget.set("waiting", self._intake.nbytes)
        if not self.flow.latency_s:
            self._step()

    def _advanced(self) -> None:
        self._changed()
        if not self.flow.latency_s:
            self._step()

    def _changed(self) -> None:
        """Number a change that may complete groups, to measure their latency."""
        self._changes += 1
        self.latency.arrived(np.array([self._changes]), time.monotonic())

    def _step(self) -> None:
        """Fold all rows that wait, and release the groups that are complete.

        Raises
        ------
        FileError
            The relation cannot be read; rows wait for it. Any other error ends the stream.
        """
        if self._error is not None:
            raise self._error
        began = time.monotonic()
        self._batcher.cut(began, everything=True)
        try:
            self._folding.settle()
            while self._intake.waits:
                self._fold_next()
            self._trouble = None
            self._release()
        except FileError as error:
            self._trouble = error
            raise
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._count_bytes()
        self._batcher.took(time.monotonic() - began)

    def _count_bytes(self) -> None:
        if self.budget.limit is not None and self._folding.nbytes > SPARE * self.budget.limit:
            self._folding.trim()
        self.budget.set("waiting", self._intake.nbytes)
        self.budget.set("groups", self._folding.nbytes)

    def _fold_next(self) -> None:
        batch, feed = self._intake.next_rows()
        began = time.monotonic()
        try:
            self._folding.fold(batch, feed)
        except FileError:
            if self._folding.is_settled:  # nothing of it was taken
                self._intake.return_rows(batch, feed)
            raise
        self.trace.add("groups", "fold", began, time.monotonic(), rows=batch.num_rows)

    def _release(self) -> None:
        """Release groups that have become complete, if there is room for results."""
        limit = self._limit_now()
        if limit == self._limit and self._closing is not None:
            return
        self._hold(is_full=self.budget.results_full and not self.budget.lifted)
        if self._held:
            return
        self._limit = limit
        began = time.monotonic()
        batch = self._folding.release(limit)
        if batch.num_rows:
            rows = batch.num_rows
            self.trace.add("groups", "release", began, time.monotonic(), rows=rows)
            self._rows_out += rows
            numbers = np.full(rows, min(self._since + 1, self._changes), np.int64)
            self._outlet.collect(RowsByArrival(batch, numbers, np.full(rows, -1, np.int64)))
        self._since = self._changes

    def _limit_now(self) -> Limit:
        if self._closing is None:
            return math.inf
        return self._closing.limit(self._intake.watermarks())

    def _hold(self, *, is_full: bool) -> None:
        if self._held != is_full:
            self._held = self.budget.tasks_wait = is_full
            self.budget.bells.ring()
            self._thread.wake()

    def _tick(self, now: float) -> float | None:
        """Fold rows that are due, and look for silent feeds; returns when to call it again."""
        try:
            return self._tick_at(now)
        except FileError:
            return now + _RETRY_S
        except Exception as error:  # raised at the next call
            self._fail(error)
            return None

    def _tick_at(self, now: float) -> float | None:
        if self._error is not None or self._closed:
            return None
        if self._held:
            self._release()
            return now + LOOK_S if self._held else now
        due = self._batcher.due(idle=True)
        if self._trouble is not None or (due is not None and due <= now):
            self._step()
            due = self._batcher.due(idle=True)
        elif due is None and self._closing is not None and self._limit_now() != self._limit:
            self._step()
        idle = self._intake.next_idle(now)
        return min([*idle, *([] if due is None else [due])], default=None)

    # -- what calls need --------------------------------------------------------------------------

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._trouble is not None:
            raise self._trouble

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self.budget.bells.ring()

    def _settle(self) -> None:
        """Do nothing: without a latency target, the call itself has folded its rows."""

    def _cut_all(self) -> None:
        if not self._closed:
            self._step()

    def _drain(self, timeout_s: float) -> None:
        self.budget.bells.wait_for(lambda: not self._held or self._error is not None, timeout_s)
        self._check()
        if self._held:
            raise OverloadError(
                f"results wait to be polled since {timeout_s:g} s, and complete groups have no "
                "room beside them; poll, or raise memory_bytes"
            )

    def _last_steps(self) -> list[Callable[[], None]]:
        return [*([self._relax] if self._relax else []), self._finish, *self._owned]

    def _finish(self) -> None:
        """End the input: fold the last rows, and release all groups."""
        self._intake.end()
        self._hold(is_full=False)
        self._step()

    def _report(self) -> Report:
        return report_of(
            self._folding,
            self._rows_out,
            arrived=dict(self._intake.arrived),
            late=dict(self._intake.late),
            memory_bytes=self.budget.parts(),
            watermark_lag=self._intake.lag(),
            latency_s=self.latency.quantiles(),
        )
