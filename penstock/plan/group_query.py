"""A compiled query over one table: filtered rows, keys, aggregates, and an output.

With it, the closing rule of groups in a stream, or the reason why there is none. A group is
complete when no later row can join it. This is known if a key follows the event time (the time
column, a tumbling window or a date of it), or if no two rows share their key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..errors import LikelyMistakeError, QueryError
from ..expr import ops
from ..expr.node import Expr, Op, node, transform, walk
from ..expr.periods import as_tumbling, dated
from ..types import TIMESTAMPS, Kind
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

        def of_stream(column: Expr) -> Expr:
            _, name = select[column.attr[1]].attr
            return ops.column(LEFT, name, column.type)

        if time is not None and self.lookup is not None:
            time = ops.over_columns(time, of_stream)
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


#: A query that may have groups.
Grouped = JoinQuery | GroupQuery


@dataclass(frozen=True)
class TimeKey:
    """A key of GROUP BY whose :func:`floor_of` never falls while the time of a side rises.

    Parameters
    ----------
    index : int
        Which key.
    side : str
    """

    index: int
    side: str


def time_key(query: Grouped) -> TimeKey | None:
    """The first key that follows a side's event time."""
    assert query.aggregation is not None
    for index, key in enumerate(query.aggregation.keys):
        for side in query.sides:
            if side.time is None:
                continue
            column = time_column(side.time)
            if key.sides == {side.side} and nondecreasing(key, column):
                return TimeKey(index, side.side)
    return None


def floor_of(key: Expr) -> Expr:
    """The least value of a time key from an instant on; it never falls while the instant rises.

    Wall clocks do fall, where they are put back.
    """

    def rule(current: Expr, args: tuple[Expr, ...]) -> Expr:
        attr = current.attr
        if current.op is Op.CHECKED:  # of no row, which might be an error
            return args[0]
        if current.op in (Op.LOCAL, Op.INSTANT):
            args, attr = args[:1], (attr[0], True)
        return node(current.op, args, current.type, attr)

    return transform(key, rule)


def is_per_row(query: Grouped) -> bool:
    """Whether each row of the groups' side is a group of its own, as declared."""
    assert query.aggregation is not None
    side = query.aggregation.side
    declared = dict(query.unique).get(side or "")
    if not declared:
        return False
    return declared <= {k.attr[1] for k in query.aggregation.keys if k.op is Op.COLUMN}


def require_closing(query: Grouped) -> None:
    """Refuse a query with groups that a stream could never complete, or with times of two kinds.

    Raises
    ------
    LikelyMistakeError
        Groups are never complete.
    QueryError
        A time is of another kind.
    """
    sessions = query.sessions if isinstance(query, JoinQuery) else None
    _require_linear_times(query.by_event_time if isinstance(query, JoinQuery) else query)
    aggregation = query.aggregation
    if aggregation is None or is_per_row(query):
        return
    if sessions is not None:
        raise LikelyMistakeError(
            "a stream never knows that groups of pairs of sessions are complete: group by a "
            "column that differs from row to row of one table and say so with unique, or group "
            "the pairs that the join gives"
        )
    alias = query.side(aggregation.side or "l").alias
    time_keys = time_key(query)
    if aggregation.side is None and isinstance(query, JoinQuery) and query.is_rows:
        raise LikelyMistakeError(
            "a stream cannot group by columns of both tables over ROWS: it is not known when a "
            "group has its last pair; use a time window, or group by columns of one table"
        )
    if time_keys is None:
        times = [s.time for s in query.sides if s.time is not None]
        time = "t" if not times else time_column(times[0]).attr[1]
        has_lookup = isinstance(query, GroupQuery) and query.lookup is not None
        unique = (
            ""
            if aggregation.side is None or has_lookup
            else (
                f", or, where no two rows of {alias} have the same key, say so: "
                f"unique={{'{alias}': 'COLUMN'}}"
            )
        )
        subject = (
            "these groups are"
            if aggregation.keys
            else "the one group of a query without GROUP BY is"
        )
        raise LikelyMistakeError(
            f"a stream never knows that {subject} complete, since rows with the same keys may "
            f"always follow: add the event time to GROUP BY, as window({alias}.{time}, "
            f"'10 seconds') or {alias}.{time}{unique}"
        )


def _require_linear_times(query: Grouped) -> None:
    """Refuse a time that is converted: it may fall while its column rises, past all watermarks."""
    for side in query.sides:
        if side.time is None:
            continue
        for part in walk(side.time):
            if part.op in (Op.LOCAL, Op.INSTANT):
                raise QueryError(
                    f"the time of {side.alias} is converted in the time zone {part.attr[0]}, where "
                    "it may fall as its column rises, so that a stream cannot wait for it: give "
                    "both tables a timestamp with a zone, or both one without"
                )


def time_column(time: Expr) -> Expr:
    """The column that a side's time is computed from."""
    return next(leaf for leaf in walk(time) if leaf.op is Op.COLUMN)


def nondecreasing(expr: Expr, column: Expr) -> bool:
    """Whether an integer expression's floor never falls while its only column rises."""
    current: Expr | None = expr
    while current is not column:
        if current is None or not current.type.is_integral:
            return False
        current = _followed(current)
    return True


def _followed(expr: Expr) -> Expr | None:
    """The operand such that the expression never falls while it rises; None if there is none."""
    tumbling, op, args = as_tumbling(expr), expr.op, expr.args
    if tumbling is not None:
        return tumbling.time
    if (date := dated(expr)) is not None:
        return date
    if op is Op.CAST:
        is_coarser = args[0].type.kind in TIMESTAMPS and expr.type.kind is Kind.DATE
        return args[0] if is_coarser or ops.keeps_raw(args[0].type, expr.type) else None
    if op in (Op.RAW, Op.CHECKED, Op.LOCAL, Op.INSTANT):
        return args[0]
    if op in (Op.ADD, Op.SUB, Op.SHR) and args[1].is_const:
        return args[0]
    if op is Op.ADD and args[0].is_const:
        return args[1]
    if op is Op.SUB and _truncates(*args):
        return args[0]
    if op is Op.MUL:
        for value, factor in (args, args[::-1]):
            if factor.is_const and factor.attr is not None and factor.attr >= 0:
                return value
    return None


def _truncates(value: Expr, part: Expr) -> bool:
    """Whether ``value - part`` is ``value - value % n``."""
    return (
        part.op is Op.MOD
        and part.args[0] is value
        and part.args[1].is_const
        and part.args[1].attr not in (None, 0)
        and ops.mod(value, part.args[1]) is part
    )
