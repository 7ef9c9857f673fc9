"""Stream of groups of one source, in one process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from penstock.errors import FileError, OverloadError, PenstockError
from penstock.plan.group_query import GroupQuery, require_closing
from penstock.plan.query import LEFT

from ...emit.groups.closing import Limit, group_closing
from ...emit.output import RowsByArrival
from ...execute.batcher import Batcher
from ...execute.budget import LOOK_S, SPARE, Budget
from ...execute.trace import Trace
from ...grouping.event_times import EventTimes
from ...grouping.intake import GroupIntake
from ...join.lookup.lookup_join import RelationJoin
from ...join.stream.flow import Flow
from ...join.stream.outlet import Outlet
from ...metrics import Report
from ...state import GroupState
from ...windows.source import Span, StreamSource
from ..dealing import DealingStream
from .here_driver import HereDriver

#: Seconds after which a relation that could not be read is tried again.
_RETRY_S = 1.0


class GroupStream(DealingStream[pa.Table]):
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

    _driver: HereDriver
    _intake: GroupIntake

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
        self.query = query
        closing, chosen = group_closing(query), flow or Flow()
        self._is_per_row = is_per_row = closing is None

        def limit_of(time: int) -> Limit:
            return -math.inf if closing is None else closing.limit({LEFT: time})

        driver = HereDriver(
            query, schema, GroupState, limit_of, Trace(trace), lookup, is_per_row=is_per_row
        )
        intake = GroupIntake(query, schema, disorder=disorder, idle_s=chosen.idle_s)
        self._owned = owned
        self._batcher = Batcher(chosen.latency_s)
        #: Error of a relation that cannot be read at present, while rows wait for it.
        self._trouble: FileError | None = None
        self._held = False  # whether complete groups wait until results are polled
        #: Last change that the worker was told of, and last one whose complete groups are released.
        self._promised = self._since = 0
        self._rows_out = 0
        super().__init__(driver, intake, driver.state.schema, limit_of, chosen, chosen.memory_bytes)

    def _prepare(self, flow: Flow, budget: Budget, outlet: Outlet) -> None:
        driver, parent = self._driver, self._parent
        budget.watch(
            "waiting", lambda: self._intake.nbytes + parent.held_bytes + driver.waiting_bytes
        )

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
        self._batcher.arrived(count)
        self._advanced()

    def _advanced(self) -> None:
        self._changed()
        if self.flow.latency_s:
            self.budget.note()
        else:
            self._step()

    def _step(self) -> None:
        """Deal all rows that wait, and let the worker fold them and release complete groups.

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
            while self._intake.waits:
                before = self._intake.nbytes
                rows, feed = self._intake.next_rows()
                self._push_on(feed, rows, before - self._intake.nbytes, rows.num_rows)
            if self._promise() or self._is_per_row:
                self._promised = self._changes
            self._work()
        except FileError as error:
            self._trouble = error
            raise
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._count_bytes()
        self._batcher.took(time.monotonic() - began)

    def _work(self) -> None:
        self._driver.step(self._may_receive)
        self._trouble = None
        self._note_released()

    def _note_released(self) -> None:
        """Note whether complete groups wait for room, or all are released."""
        self._hold(is_full=self._driver.holds)
        if not self._held:
            self._since = self._promised

    def _may_receive(self) -> bool:
        return self.budget.lifted or not self.budget.results_full

    def _on_rows(self, number: int, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        self._rows_out += rows
        numbers = np.full(rows, min(self._since + 1, self._changes), np.int64)
        self._outlet.collect(RowsByArrival(batch, numbers, np.full(rows, -1, np.int64)))

    def _count_bytes(self) -> None:
        driver, limit = self._driver, self.budget.limit
        if limit is not None and driver.nbytes > SPARE * limit:
            driver.trim()
        self.budget.set("groups", driver.nbytes)

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
        if self._held:  # whether a relation can be read or not
            self._driver.release(self._may_receive)
            self._note_released()
            return now + LOOK_S if self._held else now
        due = self._batcher.due(idle=True)
        if self._trouble is not None or (due is not None and due <= now):
            self._step()
            due = self._batcher.due(idle=True)
        elif due is None and self._limit_now() > self._limit:
            self._step()
        idle = self._intake.next_idle(now)
        return min([*idle, *([] if due is None else [due])], default=None)

    # -- what calls need --------------------------------------------------------------------------

    def _check(self) -> None:
        super()._check()
        if self._trouble is not None:
            raise self._trouble

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
        return [self._unhurry, self._finish, *self._owned]

    def _finish(self) -> None:
        """End the input: fold the last rows, and release all groups."""
        self._intake.end()
        self._step()

    def _report(self) -> Report:
        return self._report_with(self._rows_out)
