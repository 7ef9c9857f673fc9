"""Output in the order of arrival, by a sort in Spark.

Rows arrive by time; of rows of one time, left ones before right ones; then, in a batch DataFrame,
by their place in it. The join gives both sides' arrivals as columns after the query's own. The
output is sorted by them, and they are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.errors import QueryError
from penstock.expr import ops
from penstock.expr.node import Expr
from penstock.plan.query import LEFT, RIGHT, JoinQuery, other
from penstock.plan.window import TimeWindow
from penstock.query.statement import null_supplied
from penstock.types import int_of

#: Why groups have no order.
OF_JOINED_ROWS = (
    "ordered=True is about joined rows, and the query gives groups; sort them by their keys: "
    ".orderBy(...)"
)

#: Column with the place of a row in its batch DataFrame.
PLACE = pa.field("penstock place", pa.int64())

#: Rank of rows that arrive at one time, and of rows without a match, whose window then closes.
_RANK = {LEFT: 0, RIGHT: 1}
_ALONE = 2

#: Type that has room for every time and every end of a window.
_TIME = "decimal(38,0)"


def with_places(frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The DataFrames with the column :data:`PLACE`."""
    number = F.monotonically_increasing_id().alias(PLACE.name)
    return {name: frame.select("*", number) for name, frame in frames.items()}


def without_places(schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
    """The schemas without :data:`PLACE`, which a query cannot name."""
    return {
        name: pa.schema([f for f in schema if f.name != PLACE.name])
        for name, schema in schemas.items()
    }


@dataclass(frozen=True)
class Ordering:
    """The order of a query's output.

    Parameters
    ----------
    places : bool
        Whether the rows have a column :data:`PLACE`.
    """

    places: bool

    def extend(self, query: JoinQuery) -> JoinQuery:
        """The query, with columns for the arrivals of both rows after its own.

        Raises
        ------
        QueryError
            Its output is groups, or a side has no time.
        """
        if query.aggregation is not None:
            raise QueryError(OF_JOINED_ROWS)
        more: list[tuple[str, Expr]] = []
        for side in self._sides(query):
            time = query.side(side).time
            if time is None:
                raise QueryError(
                    f"ordered=True needs the time of {query.names[side]}; give time={{...}}"
                )
            values = [time]
            if self.places:
                values.append(ops.column(side, PLACE.name, int_of(64)))
            if side in query.kind.null_supplying:
                values = [null_supplied(value) for value in values]
            more += zip(self._columns(side), values, strict=True)
        return replace(query, select=(*query.select, *more))

    def sort(self, rows: DataFrame, query: JoinQuery) -> DataFrame:
        """The output of :meth:`extend` in order, without the arrivals.

        Pairs are sorted by the arrival of their later row, then of their earlier one; rows without
        a match by when their window closes, or, for ROWS, by when they arrive. Rows without a time
        come first.

        Parameters
        ----------
        rows : DataFrame
        query : JoinQuery
        """
        sides = self._sides(query)
        times = [F.col(self._columns(side)[0]) for side in sides]
        arrivals = [self._arrival(side, time) for side, time in zip(sides, times, strict=True)]
        later = F.greatest(*arrivals) if len(sides) == 2 else arrivals[0]
        for side in query.kind.unmatched:
            # This side's row has no match if the columns of the other side are NULL.
            lone = F.lit(True) if len(sides) == 1 else F.col(self._columns(other(side))[0]).isNull()
            later = F.when(lone, self._closing(side, query)).otherwise(later)
        hidden = self.hidden(query)
        earlier = F.least(*arrivals) if len(sides) == 2 else arrivals[0]
        ties = [F.col(name).asc_nulls_last() for name in hidden]
        return rows.orderBy(later, earlier, *ties).drop(*hidden)

    def hidden(self, query: JoinQuery) -> list[str]:
        """Names of the columns that :meth:`extend` adds."""
        return [name for side in self._sides(query) for name in self._columns(side)]

    def _sides(self, query: JoinQuery) -> tuple[str, ...]:
        """Sides whose columns are in the output."""
        return (LEFT,) if query.kind.is_existence else (LEFT, RIGHT)

    def _columns(self, side: str) -> list[str]:
        """Names of the columns with the time, and the place, of a side's row."""
        return [f"penstock {name} {side}" for name in ("time", "place")[: 1 + self.places]]

    def _arrival(self, side: str, time: Column) -> Column:
        place = F.col(self._columns(side)[1]) if self.places else F.lit(0)
        return F.when(time.isNotNull(), _moment(time, _RANK[side], place))

    def _closing(self, side: str, query: JoinQuery) -> Column:
        """Moment at which the window of a row without a match closes."""
        time, window = F.col(self._columns(side)[0]), query.window
        if not isinstance(window, TimeWindow):
            return self._arrival(side, time)
        reach = window.after if side == LEFT else window.before
        end = time if reach is None else time.cast(_TIME) + F.lit(reach).cast(_TIME)
        # Rows whose windows close at one time are sorted by their arrival next.
        return F.when(time.isNotNull(), _moment(end, _ALONE, F.lit(0), never=reach is None))


def _moment(time: Column, rank: int, place: Column, *, never: bool = False) -> Column:
    """A sort key of a moment; ``never`` comes after all others."""
    return F.struct(
        F.lit(never).alias("never"),
        time.cast(_TIME).alias("time"),
        F.lit(rank).alias("rank"),
        place.cast("long").alias("place"),
    )
