"""Sources of rows: side of the join, units of time, disorder."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from penstock.errors import UsageError
from penstock.expr.columns import evaluate
from penstock.expr.node import Op, walk
from penstock.plan.query import Side
from penstock.plan.window import FOREVER, NEVER
from penstock.spans import without_unit
from penstock.types import TIMESTAMPS, UNIT_NS, Kind
from penstock.zones import zone_of

#: A time or span: a number in the unit of the source's time column, or a datetime object.
Moment = int | datetime.datetime
Span = int | datetime.timedelta


class Named(Protocol):
    """A side of a query with the names that callers may use for it."""

    @property
    def alias(self) -> str: ...
    @property
    def table(self) -> str: ...


S = TypeVar("S", bound=Named)


def sides_named(name: str, sides: Iterable[S]) -> list[S]:
    """Return the sides that a name means: the one with this alias, or all that read this table.

    An alias that is the name of its own table means the table: both sides of ``FROM t JOIN t u``.
    """
    wanted, sides = name.lower(), list(sides)
    reading = [side for side in sides if side.table.lower() == wanted]
    aliased = [side for side in sides if side.alias.lower() == wanted]
    return reading if not aliased or aliased[0] in reading else aliased


def check_names(disorder: Span | Mapping[str, Span] | None, sides: Sequence[Side]) -> None:
    """Refuse a disorder for a source that the query does not have.

    Raises
    ------
    UsageError
    """
    if not isinstance(disorder, Mapping):
        return
    known = {name.lower() for side in sides for name in (side.alias, side.table)}
    for name in disorder:
        if name.lower() not in known:
            aliases = " and ".join(side.shown for side in sides)
            does = "joins" if len(sides) > 1 else "groups"
            raise UsageError(f"disorder is given for {name}, but the query {does} {aliases}")


class StreamSource:
    """One source of a stream.

    Parameters
    ----------
    disorder : int, timedelta, or mapping of alias or table to either
        How far a row's time may lie below the largest time before it.
    time_zone : str, optional
        Time zone by which datetimes without a zone are read as instants, and datetimes with a zone
        as wall-clock times; UTC by default.
    """

    def __init__(
        self,
        side: Side,
        disorder: Span | Mapping[str, Span],
        time_zone: str | None = None,
    ) -> None:
        self.side = side
        self._zone = zone_of(time_zone or "UTC")
        self.column = None
        if side.time is not None:
            self.column = next(leaf for leaf in walk(side.time) if leaf.op is Op.COLUMN)
        if isinstance(disorder, Mapping):
            spans = {name.lower(): span for name, span in disorder.items()}
            disorder = spans.get(side.alias.lower(), spans.get(side.table.lower(), 0))
        self.disorder = self.span(disorder)

    def span(self, span: Span) -> int:
        """Convert a span to the window's unit."""
        if isinstance(span, datetime.timedelta):
            if span and self.side.time is None:
                raise UsageError(
                    f"{self.side.shown} has no time column, so its rows cannot be out of order; "
                    "leave disorder out, or name its time column"
                )
            # Rounded up: rows may lie as far out of order as the whole span.
            span = -self._counted(-(span // datetime.timedelta(microseconds=1)), "disorder")
        elif span > 0 and self.column is not None and self.column.type.kind in TIMESTAMPS:
            raise UsageError(without_unit(f"disorder of {self.side.alias}", span))
        if span < 0:
            raise UsageError(f"disorder of {self.side.shown} must not be negative, not {span}")
        return self._in_window_unit(span) - self._in_window_unit(0)

    def moment(self, time: Moment) -> int:
        """Convert a time to the window's unit."""
        if self.side.time is None:
            raise UsageError(
                f"{self.side.shown} has no time column, so its time cannot advance; its rows "
                "are joined in the order of arrival"
            )
        if isinstance(time, datetime.datetime):
            time = self._counted(self._micros(time), "time")
        return min(max(self._in_window_unit(time), NEVER), FOREVER)

    def _micros(self, time: datetime.datetime) -> int:
        """Convert a datetime to microseconds as the column counts them: instant or wall clock."""
        is_instant = time.tzinfo is not None
        since = time.astimezone(datetime.UTC).replace(tzinfo=None) if is_instant else time
        micros = (since - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
        kind = None if self.column is None else self.column.type.kind
        if is_instant and kind is Kind.TIMESTAMP_NTZ:
            return int(self._zone.local(np.array([micros]), "us")[0])
        if not is_instant and kind is Kind.TIMESTAMP:
            return int(self._zone.instant(np.array([micros]), "us")[0])
        return micros

    def _counted(self, micros: int, argument: str) -> int:
        unit = self.side.unit
        if not unit:
            raise UsageError(
                f"the time of {self.side.shown} is a plain integer; give {argument} as an integer, "
                f"or declare its unit ({self.side.alias}=COLUMN:s)"
            )
        return micros * 1000 // UNIT_NS[unit]

    def _in_window_unit(self, time: int) -> int:
        if self.side.time is None or self.column is None:
            return time
        return evaluate(self.side.time, {self.column: time})
