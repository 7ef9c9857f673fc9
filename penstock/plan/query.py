"""A compiled join query: two filtered sides, a window, a predicate, and an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from ..errors import QueryError
from ..expr.node import PRESENT, Expr, Op, walk
from ..types import Type
from ..zones import zone_of
from .window import LEFT, RIGHT, RowsWindow, Sessions, TimeWindow, other


class JoinKind(Enum):
    """The kind of join: the rows that it gives for matches, and for rows without one."""

    INNER = "INNER"
    LEFT = "LEFT OUTER"
    RIGHT = "RIGHT OUTER"
    FULL = "FULL OUTER"
    SEMI = "LEFT SEMI"
    ANTI = "LEFT ANTI"

    @property
    def unmatched(self) -> frozenset[str]:
        """Sides whose rows leave although they match nothing."""
        return _UNMATCHED[self]

    @property
    def null_supplying(self) -> frozenset[str]:
        """Sides whose columns are NULL where a row of the other side leaves alone."""
        if self.is_existence:
            return frozenset()
        return frozenset(other(side) for side in self.unmatched)

    @property
    def is_existence(self) -> bool:
        """Whether a row of the left side leaves once at most, without the other side's columns."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)


_UNMATCHED = {
    JoinKind.INNER: frozenset(),
    JoinKind.LEFT: frozenset({LEFT}),
    JoinKind.RIGHT: frozenset({RIGHT}),
    JoinKind.FULL: frozenset({LEFT, RIGHT}),
    JoinKind.SEMI: frozenset(),
    JoinKind.ANTI: frozenset({LEFT}),
}


@dataclass(frozen=True)
class Side:
    """One input of the join.

    Parameters
    ----------
    side : str
        "l" or "r": the first component of its columns' names in expressions.
    alias, table : str
        Name in the query, and the base table that feeds it.
    filter : Expr
        Rows for which it is not TRUE are left out before the window.
    time : Expr or None
        Event time as an integer in the window's unit; None for ROWS in order of arrival.
    unit : str
        Unit of the time column itself, "" for plain integers.
    """

    side: str
    alias: str
    table: str
    filter: Expr
    time: Expr | None
    unit: str = ""

    @property
    def shown(self) -> str:
        """The alias, with the table where that has another name: rows are pushed by either."""
        is_table = self.alias.lower() == self.table.lower()
        return self.alias if is_table else f"{self.alias} ({self.table})"


#: The folds of its value that each aggregate is computed from: of pairs here, of one source's rows
#: in ``host/state``. "nearest" is the value of the pair (or row) with the least or greatest ``by``.
FOLDS: dict[str, tuple[str, ...]] = {
    "count": ("count",),
    "sum": ("sum",),
    "avg": ("sum", "count"),
    "min": ("min",),
    "max": ("max",),
    "min_by": ("nearest",),
    "max_by": ("nearest",),
}


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over the matches of a group.

    Parameters
    ----------
    function : str
        One of :data:`FOLDS`.
    value : Expr or None
        Over columns of both sides; None for ``count(*)``.
    by : Expr or None
        Value by which ``min_by`` and ``max_by`` order.
    type : Type
        Of the result.
    text : str
        As the query has it, for messages.
    """

    function: str
    value: Expr | None
    by: Expr | None
    type: Type
    text: str

    @property
    def folds(self) -> tuple[str, ...]:
        """Names of the folds that it is computed from."""
        return FOLDS[self.function]

    @property
    def arguments(self) -> tuple[Expr, ...]:
        """The value and the value to order by, where it has them."""
        return tuple(one for one in (self.value, self.by) if one is not None)

    def over(self, computed: Callable[[Expr], Expr]) -> Aggregate:
        """The same aggregate, with each argument replaced by the expression computed of it."""
        value, by = (one if one is None else computed(one) for one in (self.value, self.by))
        return replace(self, value=value, by=by)

    @property
    def inputs(self) -> tuple[Expr, ...]:
        """Values to compute for each pair and fold; the value of ``min_by`` is not among them."""
        folded = self.by if self.by is not None else self.value
        return () if folded is None else (folded,)


@dataclass(frozen=True)
class SessionKey:
    """The key of groups by ``session_window``: rows of the other keys, at most a gap apart.

    Parameters
    ----------
    key : int
        Number of the key that is the time of a row; that of a group is the time of its first row.
    last : int
        Number of the aggregate that is the time of its last row.
    gap : int
        In the unit of that time.
    """

    key: int
    last: int
    gap: int


@dataclass(frozen=True)
class Aggregation:
    """The groups that a query gives instead of pairs.

    Parameters
    ----------
    side : str or None
        The side of all keys; each of its rows is folded over its matches. None if keys are of both
        sides: then pairs are grouped.
    keys : tuple of Expr
        Empty: all matches are one group.
    aggregates : tuple of Aggregate
    select : tuple of (str, Expr)
        Output columns, over columns ``("key", k)`` and ``("agg", k)``.
    having : Expr
        Groups for which it is not TRUE are left out; over the same columns.
    session : SessionKey, optional
        If one of the keys is a session.
    """

    side: str | None
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    select: tuple[tuple[str, Expr], ...]
    having: Expr
    session: SessionKey | None = None


@dataclass(frozen=True)
class Nearest:
    """The rows nearest to a left row: of the right rows that match, those with the least value.

    Of equal values the row that comes first is nearer.

    Parameters
    ----------
    count : int
        Most rows.
    value : Expr
        Over columns of both sides.
    is_greatest : bool
        The greatest values are nearest instead, as of a similarity. NaN is above every number.
    nulls_first : bool, optional
        Whether rows for which the value is NULL are nearer than all others, or further away; by
        default they do not join.
    """

    count: int
    value: Expr
    is_greatest: bool
    nulls_first: bool | None = None


@dataclass(frozen=True)
class JoinQuery:
    """A query ready for any device.

    Parameters
    ----------
    text : str
        The SQL.
    left, right : Side
    window : TimeWindow or RowsWindow
    predicate : Expr
        The join condition without the window; a pair joins where it is TRUE.
    select : tuple of (str, Expr)
        Output columns, over columns of both sides.
    scales : tuple of ((side, column), digits)
        Float columns declared as decimals, see ``scale`` of :func:`penstock.sql`.
    aggregation : Aggregation or None
        None if the query gives pairs; otherwise ``select`` is empty.
    kind : JoinKind
    unique : tuple of (side, columns)
        Columns that differ between any two rows of a side, as the caller declared.
    time_zone : str or None
        Of the session, if one was given.
    sessions : Sessions or None
        How rows form sessions; each side's time is then that of :data:`~.window.SESSION`.
    tests_pairs : bool
        Whether devices look for the pairs that search keys admit, where the predicate has no band
        form; the host then tests these in full.
    also_read : tuple of Expr
        Expressions whose columns are read beside those of the fields above.
    guards : tuple of Expr
        Computed for each pair, for the errors that they raise.
    nearest : Nearest or None
        Of the pairs only these join; all rows of a side are in the window.
    """

    text: str
    left: Side
    right: Side
    window: TimeWindow | RowsWindow
    predicate: Expr
    select: tuple[tuple[str, Expr], ...]
    scales: tuple[tuple[tuple[str, str], int], ...] = ()
    aggregation: Aggregation | None = None
    kind: JoinKind = JoinKind.INNER
    unique: tuple[tuple[str, frozenset[str]], ...] = ()
    time_zone: str | None = None
    sessions: Sessions | None = None
    tests_pairs: bool = False
    also_read: tuple[Expr, ...] = ()
    guards: tuple[Expr, ...] = ()
    nearest: Nearest | None = None

    @property
    def zone_label(self) -> str | None:
        """Zone of computed instants in Arrow; None for timestamps without one, which are UTC's."""
        return None if self.time_zone is None else zone_of(self.time_zone).label

    def require_pairs(self, where: str) -> None:
        """Refuse a query with groups.

        Raises
        ------
        QueryError
        """
        if self.aggregation is not None:
            raise QueryError(
                f"{where} takes a query without GROUP BY, DISTINCT and aggregates: aggregate the "
                "pairs that it gives, or use penstock.sql or penstock.stream"
            )

    @cached_property
    def by_event_time(self) -> JoinQuery:
        """The query with the event times by which rows are judged, before they have sessions."""
        sessions = self.sessions
        if sessions is None:
            return self
        left, right = (
            replace(side, time=time, unit=unit)
            for side, time, unit in zip(self.sides, sessions.times, sessions.own_units, strict=True)
        )
        keys = (*self.also_read, *sessions.keys[0], *sessions.keys[1])
        return replace(self, left=left, right=right, sessions=None, also_read=keys)

    def require_no_sessions(self, where: str) -> None:
        """Refuse a join by sessions.

        Raises
        ------
        QueryError
        """
        if self.sessions is not None:
            raise QueryError(
                f"session_window in a join is not for {where}; use penstock.sql or penstock.stream"
            )

    @property
    def is_rows(self) -> bool:
        return isinstance(self.window, RowsWindow)

    @property
    def is_windowed(self) -> bool:
        """Whether a window bounds which rows meet."""
        return self.is_rows or self.left.time is not None

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.left, self.right

    @property
    def names(self) -> dict[str, str]:
        """Each side's alias, by side."""
        return {side.side: side.alias for side in self.sides}

    def side(self, name: str) -> Side:
        return self.left if name == LEFT else self.right

    def columns_of(self, side: str) -> tuple[str, ...]:
        """Base-table columns that this side needs, sorted."""
        if self.sessions is not None:
            return self.by_event_time.columns_of(side)
        return tuple(sorted({*self.join_columns_of(side), *self.output_columns_of(side)}))

    def join_columns_of(self, side: str) -> tuple[str, ...]:
        """Base-table columns of this side that decide which pairs join, or how, sorted."""
        return self._join_columns[side]

    @cached_property
    def _join_columns(self) -> dict[str, tuple[str, ...]]:
        return self._by_side(self._join_expressions())

    def _join_expressions(self) -> list[Expr]:
        roots = [self.predicate, *self.also_read, *(side.filter for side in self.sides)]
        roots += [side.time for side in self.sides if side.time is not None]
        if self.nearest is not None:
            roots.append(self.nearest.value)
        if self.aggregation is not None:
            roots += self.aggregation.keys
            roots += [e for a in self.aggregation.aggregates for e in a.inputs]
        return roots

    def output_columns_of(self, side: str) -> tuple[str, ...]:
        """Base-table columns of this side that the output needs, sorted."""
        return self._output_columns[side]

    @cached_property
    def _output_columns(self) -> dict[str, tuple[str, ...]]:
        return self._by_side(self._output_expressions())

    def _output_expressions(self) -> list[Expr]:
        roots = [*self.guards, *(e for _, e in self.select)]
        if self.tests_pairs:
            roots.append(self.predicate)
        if self.aggregation is not None:
            roots += self.aggregation.keys
            roots += [a.value for a in self.aggregation.aggregates if a.value is not None]
        return roots

    def column_types(self) -> dict[tuple[str, str], Type]:
        """The type of every (side, name) that the query reads."""
        leaves = walk(*self._join_expressions(), *self._output_expressions())
        return {leaf.attr: leaf.type for leaf in leaves if leaf.op is Op.COLUMN}

    def _by_side(self, roots: Sequence[Expr]) -> dict[str, tuple[str, ...]]:
        names = {column for root in roots for column in columns(root)}
        return {
            side.side: tuple(sorted(c for s, c in names if s == side.side)) for side in self.sides
        }

    def scale_of(self, side: str) -> dict[str, int]:
        return {column: digits for (s, column), digits in self.scales if s == side}


def named_by_side(query: JoinQuery) -> JoinQuery:
    """The query over tables named by side: in a self-join the sides may have different rows."""
    left, right = (replace(side, table=side.side) for side in query.sides)
    return replace(query, left=left, right=right)


def columns(expr: Expr) -> set[tuple[str, str]]:
    """(side, name) of every column of a table below an expression."""
    leaves = {leaf.attr for leaf in walk(expr) if leaf.op is Op.COLUMN}
    return {(side, name) for side, name in leaves if name is not PRESENT}
