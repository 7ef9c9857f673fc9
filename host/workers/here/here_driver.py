"""Driver of the one worker of a process: in the thread that calls it, without channels and cuts."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable

import pyarrow as pa

from penstock.plan.group_query import GroupQuery

from ...emit.groups.closing import Limit
from ...execute.trace import Trace
from ...join.lookup.lookup_join import RelationJoin
from ...state import GroupState
from ..counts import Statuses
from ..driving import StreamDriver
from ..protocol.messages import DealtRows, Message
from ..protocol.parent import Parent
from ..protocol.worker import Worker
from ..states import LookupState


class HereDriver(StreamDriver):
    """Driver of one worker, which is leader of all groups and helper of nobody.

    Parameters
    ----------
    query : GroupQuery
    schema : pyarrow.Schema
        Of the rows that are pushed.
    groups : type of GroupState
    limit_of : callable
        As for :class:`~..protocol.worker.Worker`.
    trace : Trace
    lookup : RelationJoin, optional
        Of ``query.lookup``, ordered.
    is_per_row : bool
        Whether each row is a group, which is complete at once, whatever the limit.
    """

    def __init__(
        self,
        query: GroupQuery,
        schema: pa.Schema,
        groups: type[GroupState],
        limit_of: Callable[[int], Limit],
        trace: Trace,
        lookup: RelationJoin | None = None,
        *,
        is_per_row: bool = False,
    ) -> None:
        super().__init__(Parent(1, saves=False), Statuses(1, {}), (), None, trace)
        self.state: GroupState | LookupState
        if lookup is None:
            self.state = groups(query, schema)
        else:
            self.state = LookupState(groups(query, lookup.schema), lookup, Counter())
        self._worker, self._is_per_row = Worker(0, 1, self.state, limit_of), is_per_row
        #: Bytes of the groups, and counts of rows that are in none.
        self.nbytes = self._filtered = self._timeless = 0

    def step(self, may_receive: Callable[[], bool]) -> bool:
        """Fold all rows, and release complete groups if there is room for results.

        Raises
        ------
        FileError
            The relation cannot be read. The rows stay; the next call goes on with them. Groups that
            were complete before wait for :meth:`release`.
        """
        worker, queue, moved = self._worker, self.parent.outgoing[0], False
        try:
            while queue or self.parent.deal(0):
                self._take(queue[0])
                queue.popleft()
                moved = True
            if worker.can_close:
                worker.end_epoch()
        finally:
            self._note_status()
        return self.release(may_receive) or moved

    def release(self, may_receive: Callable[[], bool]) -> bool:
        """Release complete groups if there is room for them; returns whether any were released."""
        if not (self.holds and may_receive()):
            return False
        self._release()
        self._note_status()
        return True

    @property
    def waiting_bytes(self) -> int:
        """Bytes of dealt rows that wait for a relation which cannot be read."""
        queue = self.parent.outgoing[0]
        return sum(one.body.nbytes for one in queue if isinstance(one, DealtRows))

    @property
    def holds(self) -> bool:
        """Whether complete groups wait for room."""
        return self.state.entries > 0 if self._is_per_row else self._worker.can_release

    def _take(self, message: Message) -> None:
        began = time.monotonic()
        folded = self._worker.take_dealt(message)
        if folded is None or not isinstance(message, DealtRows):
            return
        self._filtered += folded.filtered
        self._timeless += folded.without_time
        self.trace.add("groups", "fold", began, time.monotonic(), rows=message.body.num_rows)

    def _release(self) -> None:
        began, results = time.monotonic(), self._worker.results
        if self._is_per_row:
            self._give(began, self.state.release(math.inf))
            return
        self._worker.release()
        while results:
            self._give(began, results.popleft().body)

    def _give(self, began: float, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self.trace.add("groups", "release", began, time.monotonic(), rows=rows.num_rows)
            self.on_rows(1, rows)

    def trim(self) -> None:
        """Free the memory of groups that were released."""
        self.state.trim()
        self._note_status()

    def _note_status(self) -> None:
        self.nbytes = self.state.nbytes
        self.statuses.latest[0] = {
            "filtered": self._filtered,
            "timeless": self._timeless,
            "entries": self.state.entries,
            "state_bytes": self.nbytes,
        }
