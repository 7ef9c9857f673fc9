"""Judges the rows of a stream that are grouped, and lets them wait to be folded."""

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

#: Rows, at most, of neighbouring batches of a feed that are folded as one: a fold costs some tens
#: of microseconds beside its rows.
GATHERED_ROWS = 1 << 16


@dataclass(frozen=True)
class JudgedRows:
    """A batch that can be taken: all that can fail has been done, and no state has changed.

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
    """Takes rows and promises, judges the rows, and lets them wait as they are; in one thread.

    Feeds have numbers: of ``n`` sources, source ``k`` has feeds ``k``, ``k + n`` and so on.

    Parameters
    ----------
    sides : sequence of Side
        The sources.
    schemas : mapping of side to pyarrow.Schema
        Of what is pushed.
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
        self._places = {own.side.alias: k for k, own in enumerate(self.sources.values())}
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
        """Return the time below which no later row of any source comes."""
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
        """Return a count that no feed of any source has."""
        numbers = (n for own in self._numbers.values() for n in own.values())
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
        """Find the rows of a feed that are late; raise any error that its rows can cause.

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
        """Take a batch, and let its rows wait; return their number."""
        batch, late = judged.batch, judged.late
        self.note_taken(judged.source, judged.feed, batch, judged.admitted, late)
        if len(late):
            keep = np.ones(batch.num_rows, bool)
            keep[late] = False
            batch = batch.filter(pa.array(keep))
        if batch.num_rows:
            own = judged.source
            size = self.bytes_of(own, batch)
            self._waiting.append((batch, self._numbers[own.side.alias][judged.feed], size))
            self.nbytes += size
        return batch.num_rows

    def state(self) -> dict[str, Any]:
        """Return feeds, counts and numbers of feeds, for JSON; no rows may wait."""
        assert not self.waits
        numbers = {alias: dict(own) for alias, own in self._numbers.items()}
        return {"sources": super().state(), "numbers": numbers}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state["sources"])
        self._numbers = {alias: dict(own) for alias, own in state["numbers"].items()}
        self._next_number = self._free()

    def next_rows(self) -> tuple[pa.RecordBatch, int]:
        """Take the oldest waiting rows of one feed, whose number follows."""
        batch, feed, size = self._waiting.popleft()
        self.nbytes -= size
        parts, rows = [batch], batch.num_rows
        while self._waiting:
            following, own, size = self._waiting[0]
            rows += following.num_rows
            if own != feed or rows > GATHERED_ROWS:
                break
            self._waiting.popleft()
            self.nbytes -= size
            parts.append(following)
        return pa.concat_batches(parts) if len(parts) > 1 else batch, feed

    def return_rows(self, batch: pa.RecordBatch, feed: int) -> None:
        """Let rows wait again, before all others."""
        size = [*self._bytes.values()][feed % len(self._bytes)](batch)
        self._waiting.appendleft((batch, feed, size))
        self.nbytes += size


class GroupIntake(RowIntake):
    """Takes the rows and promises of the one source of groups.

    Parameters
    ----------
    query : GroupQuery
    schema : pyarrow.Schema
        Of what is pushed.
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
        """Refuse what is about event times where the groups follow none.

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
