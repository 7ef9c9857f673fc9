"""One input of a join as Spark rows: filtered, timed, brought to the schema of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from penstock.query.plan import JoinQuery, Side
from penstock.spark_bridge.clock import Clock, ticks
from penstock.spark_bridge.filters import is_pushed, pushed

#: Columns of an input beside its own: a row's place in its input, and the ticks of its time.
PLACE, TICKS = "place", "ticks"

#: Columns of the shuffled rows, by name. Both sides use a slot, each for a column of its own.
Slots = Mapping[str, spark.DataType]


class Input:
    """One side of the join.

    Parameters
    ----------
    query : JoinQuery
    side : Side
    frame : DataFrame
        The table that feeds it.

    Attributes
    ----------
    clock : Clock or None
        How its rows are placed in slices of time; None if they cannot be.
    slot_of : dict of column to slot
        Where each column that the query needs travels.
    slots : dict of slot to Spark type
    """

    def __init__(self, query: JoinQuery, side: Side, frame: DataFrame) -> None:
        self.name = side.side
        self.clock = Clock.of(side)
        # By position: names may hold dots, or differ in case only.
        self._position = {field.name: f"c{i}" for i, field in enumerate(frame.schema)}
        dtypes = {field.name: field.dataType for field in frame.schema}
        self.slot_of: dict[str, str] = {}
        self.slots: dict[str, spark.DataType] = {}
        self._assign(query.columns_of(side.side), dtypes)
        frame = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
        condition = pushed(side.filter, self._column)
        if condition is not None:
            frame = frame.filter(condition)
        #: Whether Spark leaves out all rows that WHERE does.
        self.is_filtered = is_pushed(side.filter, self._column)
        if needs_places(query):
            frame = frame.withColumn(PLACE, F.monotonically_increasing_id())
        if self.clock is not None:
            moment = ticks(self._column(self.clock.column), dtypes[self.clock.column])
            frame = frame.withColumn(TICKS, moment)
            if not query.is_rows and self.name not in query.kind.unmatched:
                # A row without a time joins nothing; among ROWS it is an error.
                frame = frame.filter(F.col(TICKS).isNotNull())
        self.frame = frame

    def _column(self, name: str) -> Column:
        return F.col(self._position[name])

    def _assign(self, columns: Iterable[str], dtypes: Mapping[str, spark.DataType]) -> None:
        """The k-th column of a type travels in the k-th slot of that type, on either side."""
        used: Counter[str] = Counter()
        for name in columns:
            text = dtypes[name].simpleString()
            slot = f"{text} {used[text]}"
            used[text] += 1
            self.slot_of[name] = slot
            self.slots[slot] = dtypes[name]

    @property
    def moment(self) -> Column | None:
        """Ticks of a row's time; None without a clock."""
        return None if self.clock is None else F.col(TICKS)

    @property
    def hashed(self) -> Column:
        """A hash of what a row holds: unlike a number, the same whenever the row is read."""
        return F.xxhash64(*(self._column(name) for name in self.slot_of))

    def selected(self, slots: Slots, extra: Sequence[Column]) -> DataFrame:
        """The rows with the columns that both sides have, after some others.

        Parameters
        ----------
        slots : mapping of slot to Spark type
            Those of both sides.
        extra : sequence of Column
            Over the columns of :attr:`frame`.
        """
        column_in = {slot: name for name, slot in self.slot_of.items()}
        columns = list(extra)
        for slot, dtype in slots.items():
            own = column_in.get(slot)
            value = F.lit(None).cast(dtype) if own is None else self._column(own)
            columns.append(value.alias(slot))
        return self.frame.select(*columns)


def needs_places(query: JoinQuery) -> bool:
    """Whether it matters which of two rows of one time comes first."""
    made = query.aggregation
    return query.is_rows or (made is not None and any(a.by is not None for a in made.aggregates))
