"""Intake of a stream's rows: late rows are dropped, and the others wait to be folded."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError
from penstock.plan.group_query import GroupQuery
from penstock.plan.query import Side

from ..join.stream.sources import Admitted, Sources
from ..rows.batch_bytes import byte_counter
from ..windows.feeds import ONLY
from ..windows.source import Moment, Span, StreamSource
from .checking import RowChecks
from .event_times import EventTimes, read_times

#: Most rows of neighbouring batches of a feed that are folded as one: a call of fold costs some
#: tens of microseconds beside its rows.
GATHERED_ROWS = 1 << 16


@dataclass(frozen=True)
class JudgedRows:
    """A checked batch whose late rows are known, before it changes any state.

    Parameters
    ----------
    admitted : Admitted
    late : ndarray of int64
        Late rows of the batch.
    """

    source: StreamSource
    feed: str
    batch: pa.RecordBatch
    admitted: Admitted
    late: np.ndarray


class RowIntake(Sources):
    """Queue of a stream's rows: takes rows and promises, and drops late rows; in one thread.

    Feeds have numbers: of ``n`` sources, source ``k`` has feeds ``k``, ``k + n`` and so on.

    Parameters
    ----------
    sides : sequence of Side
        The sources.
    schemas : mapping of side to pyarrow.Schema
        Of pushed rows.
    time_zone : str, optional
        Of the query.
    disorder : int, timedelta, or mapping of source to either
    idle_s : float, optional
        Seconds of silence after which a feed no longer holds up the others.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        schemas: Mapping[str, pa.Schema],
        time_zone: str | None,
        *,
        disorder: Span | Mapping[str, Span],
        idle_s: float | None,
    ) -> None:
        super().__init__(sides, schemas, time_zone, disorder=disorder, idle_s=idle_s)
        self._bytes = {side: byte_counter(schema) for side, schema in schemas.items()}
        self._waiting: deque[tuple[pa.RecordBatch, int, int]] = deque()
        self._places = {source.side.alias: k for k, source in enumerate(self.sources.values())}
        #: Numbers of feeds by alias and name.
        self._numbers = {alias: {ONLY: place} for alias, place in self._places.items()}
        self._next_number, self._step = 1, 1
        #: Bytes of the rows that wait.
        self.nbytes = 0

    @abstractmethod
    def check(self, source: StreamSource, batch: pa.RecordBatch, times: EventTimes) -> None:
        """Raise any error that rows of a batch can cause.

        Raises
        ------
        DataError
        """

    def time(self) -> int:
        """Return the low watermark: no later row of any source has a time below it."""
        return min(self.watermarks().values())

    def register(self, source: StreamSource, feed: str, disorder: Span | None) -> None:
        super().register(source, feed, disorder)
        numbers = self._numbers[source.side.alias]
        if feed not in numbers:
            numbers[feed] = self._number(source.side.alias, self._next_number)
            self._next_number += self._step

    def _number(self, alias: str, count: int) -> int:
        return count * len(self._places) + self._places[alias]

    def number_feeds(self, rank: int, size: int) -> None:
        """Number feeds so that no two of several processes have the same number.

        Parameters
        ----------
        rank, size : int
            This process is ``rank`` of ``size``.
        """
        free = self._free()
        for alias, numbers in self._numbers.items():
            numbers[ONLY] = self._number(alias, free + rank)
        self._next_number, self._step = free + size + rank, size

    def _free(self) -> int:
        """Return a count that no feed of any source uses."""
        numbers = (n for by_feed in self._numbers.values() for n in by_feed.values())
        return max(numbers, default=0) // len(self._places) + 1

    def bytes_of(self, source: StreamSource, batch: pa.RecordBatch) -> int:
        return self._bytes[source.side.side](batch)

    def cannot_fail(self, source: StreamSource, feed: str) -> bool:
        return self.has_feed(source, feed)

    @property
    def waits(self) -> bool:
        """Whether rows wait."""
        return bool(self._waiting)

    def judge(
        self, source: StreamSource, batch: pa.RecordBatch, times: EventTimes, feed: str
    ) -> JudgedRows:
        """Find the late rows of a feed's batch, and raise any error that its rows can cause.

        Raises
        ------
        UsageError
            The feed is unknown.
        DataError
        """
        self.require_feed(source, feed)
        admitted = self.admitted(source, feed, times.times)
        late = np.flatnonzero(~admitted.on_time)
        if times.rows is not None and len(late):
            late = times.rows[late]
        if not times.are_checked:
            self.check(source, batch, times)
        return JudgedRows(source, feed, batch, admitted, late)

    def take_in(self, judged: JudgedRows) -> int:
        """Queue the rows of a batch that are not late; return their number."""
        batch, late = judged.batch, judged.late
        self.note_taken(judged.source, judged.feed, batch, judged.admitted, late)
        if len(late):
            keep = np.ones(batch.num_rows, bool)
            keep[late] = False
            batch = batch.filter(pa.array(keep))
        if batch.num_rows:
            source = judged.source
            size = self.bytes_of(source, batch)
            self._waiting.append((batch, self._numbers[source.side.alias][judged.feed], size))
            self.nbytes += size
        return batch.num_rows

    def state(self) -> dict[str, Any]:
        """Return the state of sources and the numbers of feeds, for JSON; no rows may wait."""
        assert not self.waits
        numbers = {alias: dict(by_feed) for alias, by_feed in self._numbers.items()}
        return {"sources": super().state(), "numbers": numbers}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state["sources"])
        numbers = state["numbers"].items()
        self._numbers = {alias: dict(by_feed) for alias, by_feed in numbers}
        self._next_number = self._free()

    def next_rows(self) -> tuple[pa.RecordBatch, int]:
        """Take the oldest waiting rows, all of one feed; returns them and the feed's number."""
        batch, feed, size = self._waiting.popleft()
        self.nbytes -= size
        parts, rows = [batch], batch.num_rows
        while self._waiting:
            following, next_feed, size = self._waiting[0]
            rows += following.num_rows
            if next_feed != feed or rows > GATHERED_ROWS:
                break
            self._waiting.popleft()
            self.nbytes -= size
            parts.append(following)
        return pa.concat_batches(parts) if len(parts) > 1 else batch, feed


class GroupIntake(RowIntake):
    """Intake of the one source of a GROUP BY.

    Parameters
    ----------
    query : GroupQuery
    schema : pyarrow.Schema
        Of pushed rows.
    disorder, idle_s
        As for :class:`RowIntake`.
    """

    def __init__(
        self,
        query: GroupQuery,
        schema: pa.Schema,
        *,
        disorder: Span | Mapping[str, Span],
        idle_s: float | None,
    ) -> None:
        self.entry = entry = query.entry
        if any(disorder.values() if isinstance(disorder, Mapping) else (disorder,)):
            self._require_time("rows cannot be out of order; leave disorder out")
        super().__init__(
            (entry,), {entry.side: schema}, query.time_zone, disorder=disorder, idle_s=idle_s
        )
        self.query = query
        self._checks = RowChecks(query)

    def register(self, source: StreamSource, feed: str, disorder: Span | None) -> None:
        if disorder:
            self._require_time("rows cannot be out of order; leave disorder out")
        super().register(source, feed, disorder)

    def signal(self, source: StreamSource, feed: str, moment: Moment) -> None:
        self._require_time("nothing waits for it to advance; leave advance out")
        super().signal(source, feed, moment)

    def _require_time(self, so: str) -> None:
        """Refuse a call about event times if no key of GROUP BY follows the event time.

        Raises
        ------
        UsageError
        """
        if self.entry.time is None:
            alias = self.entry.alias
            raise UsageError(
                f"no key of GROUP BY follows the time of {alias}, and each row completes its "
                f"group, so {so}, or add window({alias}.TIME, ...) to GROUP BY"
            )

    def check(self, source: StreamSource, batch: pa.RecordBatch, times: EventTimes) -> None:
        self._checks.check(batch, times.times)

    def read(self, batch: pa.RecordBatch) -> EventTimes:
        """Read event times, and raise any error that rows can cause; in any thread.

        Raises
        ------
        DataError
        """
        times = read_times(self.entry, batch)
        self._checks.check(batch, times.times)
        return replace(times, are_checked=True)
