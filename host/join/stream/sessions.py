"""Takes rows into a join by sessions: they wait until the session of each has closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.plan.forms import JoinForm
from penstock.plan.query import JoinKind, JoinQuery
from penstock.plan.ranges import arrival_numbers
from penstock.plan.window import FOREVER, LEFT, NEVER, RIGHT

from ...metrics import Latency
from ...sessions.open_sessions import OpenSessions
from ...windows.probe import Watermarks
from ...windows.source import Span
from .intake import SPARE, Intake, Judged
from .sources import Sources


class SessionIntake(Intake):
    """Judges rows by their event times; in the join, the number of a session is its rows' time.

    A session closes, with all its rows, once the watermarks of both sides have passed its end.
    Parameters as for :class:`~.intake.Intake`.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        forms: Sequence[JoinForm],
        latency: Latency,
        *,
        disorder: Span | Mapping[str, Span],
        idle_s: float | None,
    ) -> None:
        assert query.sessions is not None
        judged = query.by_event_time
        super().__init__(judged, schemas, forms, latency, disorder=disorder, idle_s=idle_s)
        self._open = OpenSessions(query.sessions, self._extra_bytes)
        self._clock = NEVER

    @property
    def nbytes(self) -> int:
        return super().nbytes + round(SPARE * self._open.nbytes)

    @property
    def kept_rows(self) -> int:
        return len(self._open)

    def take_in(self, judged: Judged) -> int:
        alone = [self._open.add(judged.timed)]
        if judged.timeless is not None:
            alone.append(judged.timeless)
        if self.query.kind is JoinKind.INNER:
            alone = []
        for one in alone:
            if len(one.rows):
                self._timeless.append(one.numbered(self.number(len(one.rows))))
        self.note_taken(judged.source, judged.feed, judged.batch, judged.admitted, judged.late)
        return sum(len(one.rows) for one in alone) + self.release()

    def release(self) -> int:
        self._clock = min(Sources.watermarks(self).values())
        closed = {one.side: one for one in self._open.close(self._clock)}
        none = np.zeros(0, np.int64)
        left, right = (closed[side].rows.time if side in closed else none for side in (LEFT, RIGHT))
        numbers = self.number(len(left) + len(right))
        for side, places in zip((LEFT, RIGHT), arrival_numbers(left, right), strict=True):
            if side in closed:
                self._pending.add(closed[side].numbered(numbers[places]))
        return len(numbers)

    def watermarks(self) -> Watermarks:
        closed = FOREVER if self._clock == FOREVER else self._open.following
        return {side: min(closed, self._pending.oldest(side)) for side in (LEFT, RIGHT)}

    def lag(self) -> dict[str, int]:
        return self.lag_behind(Sources.watermarks(self))
