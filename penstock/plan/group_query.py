"""A compiled query over one table: filtered rows, keys, aggregates, and an output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..expr import ops
from ..expr.node import Expr, Op, node, transform
from ..zones import zone_of
from .query import LEFT, Aggregation, JoinQuery, Side, columns


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
        other keys that follow the time it has the key NULL, in a group that leaves at the end.
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

    @cached_property
    def entry(self) -> Side:
        """The side that takes rows: the source, or the look-up's stream with its event time.

        Its filter is that of neither: rows are judged before they are filtered.
        """
        time, select = self.source.time, {} if self.lookup is None else dict(self.lookup.select)

        def rule(current: Expr, args: tuple[Expr, ...]) -> Expr:
            if current.op is not Op.COLUMN:
                return node(current.op, args, current.type, current.attr)
            _, name = select[current.attr[1]].attr
            return ops.column(LEFT, name, current.type)

        if time is not None and self.lookup is not None:
            time = transform(time, rule)
        return replace(self.source, filter=ops.TRUE, time=time)

    def columns_of(self, side: str) -> tuple[str, ...]:
        """Columns of the source that the groups need, sorted."""
        assert side == self.source.side
        return self._columns

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        aggregation, source = self.aggregation, self.source
        roots = [source.filter, *aggregation.keys, *([] if source.time is None else [source.time])]
        roots += [argument for one in aggregation.aggregates for argument in one.arguments]
        return tuple(sorted({name for root in roots for _, name in columns(root)}))

    @property
    def names(self) -> dict[str, str]:
        """The source's alias, by its side."""
        return {self.source.side: self.source.alias}

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.source,)

    def side(self, name: str) -> Side:
        assert name == self.source.side
        return self.source

    def scale_of(self, side: str) -> dict[str, int]:
        return {column: digits for (s, column), digits in self.scales if s == side}


def lookup_of(query: JoinQuery | GroupQuery) -> JoinQuery:
    """The look-up of a query with a relation: itself, or the one below its groups."""
    if isinstance(query, JoinQuery):
        return query
    assert query.lookup is not None
    return query.lookup
