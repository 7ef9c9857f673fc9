"""A compiled query over one table: filtered rows, keys, aggregates, and an output."""

from __future__ import annotations

from dataclasses import dataclass

from ..zones import zone_of
from .query import Aggregation, JoinQuery, Side


@dataclass(frozen=True)
class GroupQuery:
    """Groups of the rows of one table, ready to be folded.

    Parameters
    ----------
    text : str
        The SQL.
    source : Side
        The rows that are grouped, side "l"; without a time if no key follows one. With ``lookup``
        its columns are those of ``lookup.select``.
    aggregation : Aggregation
        Of side "l".
    scales : tuple of ((side, column), digits)
        Float columns declared as decimals.
    unique : tuple of (side, columns)
        Columns that differ between any two rows, as the caller declared.
    time_zone : str or None
        Of the session, if one was given.
    lookup : JoinQuery or None
        The lookup join whose pairs are grouped.
    windowed : bool
        Whether a key is a ``window`` of the source's time: a row without a time is in none. Under
        other keys it is a row like any other in a table, which ends.
    """

    text: str
    source: Side
    aggregation: Aggregation
    scales: tuple[tuple[tuple[str, str], int], ...] = ()
    unique: tuple[tuple[str, frozenset[str]], ...] = ()
    time_zone: str | None = None
    lookup: JoinQuery | None = None
    windowed: bool = False

    @property
    def zone_label(self) -> str | None:
        """Zone of computed instants in Arrow; None for timestamps without one, which are UTC's."""
        return None if self.time_zone is None else zone_of(self.time_zone).label

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.source,)

    def side(self, name: str) -> Side:
        assert name == self.source.side
        return self.source

    def scale_of(self, side: str) -> dict[str, int]:
        return {column: digits for (s, column), digits in self.scales if s == side}
