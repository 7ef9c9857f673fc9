"""One input of a join as Spark rows: filtered, timed, placed in lanes, brought to one schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from penstock.query.plan import RIGHT, JoinQuery, Side, TimeWindow
from penstock.spark_bridge.batch.lane import IS_RIGHT, PLACE
from penstock.spark_bridge.batch.slices import Slices
from penstock.spark_bridge.clock import Clock, ticks
from penstock.spark_bridge.filters import pushed

#: Column that says which partition a row goes to.
LANE = "lane"

_TICKS = "ticks"

#: Accuracy of quantiles: a bound may be off by one in 10,000 of the rows.
_ACCURACY = 10_000

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
        self.window = query.window
        self.clock = Clock.of(side) if isinstance(query.window, TimeWindow) else None
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
        if query.is_rows:
            frame = frame.withColumn(PLACE, F.monotonically_increasing_id())
        if self.clock is not None:
            moment = ticks(self._column(self.clock.column), dtypes[self.clock.column])
            # A row without a time joins nothing.
            frame = frame.withColumn(_TICKS, moment).filter(F.col(_TICKS).isNotNull())
        self._frame = frame

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

    def spread(self, steps: int) -> DataFrame:
        """One row: the side, how many rows have a time, and quantiles that cut it in ``steps``."""
        fractions = [k / steps for k in range(1, steps)]
        return self._frame.agg(
            F.lit(self.name).alias("side"),
            F.count(_TICKS).alias("rows"),
            F.percentile_approx(_TICKS, fractions, _ACCURACY).alias("quantiles"),
        )

    def placed(self, slots: Slots, slices: Slices | None) -> DataFrame:
        """The rows in lanes, with the columns that the shuffle has.

        Parameters
        ----------
        slots : mapping of slot to Spark type
            Those of both sides.
        slices : Slices or None
            None puts all rows into one lane.
        """
        if slices is None or self.clock is None:
            frame = self._frame.withColumn(LANE, F.lit(0))
        else:
            assert isinstance(self.window, TimeWindow)
            frame = slices.placed(self._frame, LANE, _TICKS, self.name, self.clock, self.window)
        column_in = {slot: name for name, slot in self.slot_of.items()}
        columns = [F.col(LANE), F.lit(self.name == RIGHT).alias(IS_RIGHT)]
        if PLACE in frame.columns:
            columns.append(F.col(PLACE))
        for slot, dtype in slots.items():
            own = column_in.get(slot)
            value = F.lit(None).cast(dtype) if own is None else self._column(own)
            columns.append(value.alias(slot))
        return frame.select(*columns)
