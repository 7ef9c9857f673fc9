"""The rows of both sides as one DataFrame, whose columns (slots) both sides use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from penstock.plan.query import JoinQuery, Side

from .clock import TickClock, ticks
from .filters import push
from .shown import with_modules
from .types import columns_from_spark

#: Columns that an input gets: a row's place in its input, and the ticks of its time.
PLACE, TICKS = "place", "ticks"

_NEXT_PLACE = f"monotonically_increasing_id() AS {PLACE}"

#: Columns of the shuffled rows, by name. Each side keeps a column of its own in a slot.
Slots = Mapping[str, spark.DataType]


class SlotRows:
    """Rows of one side, with the columns that the query needs in slots.

    Parameters
    ----------
    query : JoinQuery
    side : Side
    frame : DataFrame
        The table that feeds it.

    Attributes
    ----------
    name : str
        Of the side.
    table : DataFrame
    slot_of : dict of column to slot
        The slot of each column. On either side, the k-th column of a type has its k-th slot.
    slots : dict of slot to Spark type
    """

    def __init__(self, query: JoinQuery, side: Side, frame: DataFrame) -> None:
        self.name = side.side
        self.table = frame
        # By position: names may hold dots, or differ in case only.
        self._position = {field.name: f"c{i}" for i, field in enumerate(frame.schema)}
        self.dtypes = {field.name: field.dataType for field in frame.schema}
        self.slot_of: dict[str, str] = {}
        used: Counter[str] = Counter()
        for name in columns_from_spark(query, side.side):
            dtype = self.dtypes[name].simpleString()
            self.slot_of[name] = f"{dtype} {used[dtype]}"
            used[dtype] += 1
        self.slots = {slot: self.dtypes[name] for name, slot in self.slot_of.items()}

    @cached_property
    def frame(self) -> DataFrame:
        """The rows, with columns that :meth:`column` gives."""
        return self.by_position()

    def by_position(self) -> DataFrame:
        """The table, with its columns named by position."""
        return self.table.toDF(*(f"c{i}" for i in range(len(self.table.columns))))

    def column(self, name: str) -> Column:
        """A column of :attr:`frame`, by its name in the table."""
        return F.col(self._position[name])

    def column_of_side(self, name: str) -> Column:
        """A column of :attr:`frame` beside the other side's, each under the alias of its name."""
        return F.col(f"{self.name}.{self._position[name]}")

    def select(self, slots: Slots, extra: Sequence[Column]) -> DataFrame:
        """The rows, with some columns and then the slots.

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
            column = self.column(column_in[slot]) if slot in column_in else F.lit(None).cast(dtype)
            columns.append(column.alias(slot))
        return self.frame.select(*columns)


def union_of(sides: Iterable[SlotRows], extra: Mapping[str, Sequence[Column]]) -> DataFrame:
    """The rows of both sides in one schema: ``extra`` columns of each side, then the slots."""
    left, right = sides
    slots = left.slots | right.slots
    return left.select(slots, extra[left.name]).union(right.select(slots, extra[right.name]))


class Input(SlotRows):
    """One side of a batch join, filtered and with its times computed where Spark can do that.

    Attributes
    ----------
    clock : TickClock or None
        None if Spark cannot compute its times.
    is_filtered : bool
        Whether Spark leaves out all rows that WHERE leaves out.
    """

    def __init__(self, query: JoinQuery, side: Side, frame: DataFrame) -> None:
        super().__init__(query, side, frame)
        self.clock = TickClock.from_side(side)
        self.has_places = needs_places(query)
        condition, self.is_filtered = push(side.filter, self.column)
        self._condition = condition
        # A row without a time joins nothing. In a ROWS window it is an error, so it stays.
        self._needs_time = not query.is_rows and self.name not in query.kind.unmatched

    @cached_property
    def frame(self) -> DataFrame:
        """The rows that Spark's filter leaves, also with :data:`PLACE` and :data:`TICKS`."""
        rows = self._filtered()
        more = [_NEXT_PLACE] if self.has_places else []
        if self.clock is None:
            return rows.selectExpr("*", *more) if more else rows
        name = self.clock.column
        more.append(f"{ticks(self._position[name], self.dtypes[name])} AS {TICKS}")
        timed = rows.selectExpr("*", *more)
        return timed.where(f"{TICKS} IS NOT NULL") if self._needs_time else timed

    def in_slots(self, slots: Slots, extra: Sequence[str]) -> DataFrame:
        """Select the slots as :meth:`select` does, in one call of Spark; rows without a time stay.

        Parameters
        ----------
        slots : mapping of slot to Spark type
        extra : sequence of str
            Expressions in SQL over no column.
        """
        names = self.table.columns
        is_clear = len({name.lower() for name in names}) == len(names) and all(names)
        if is_clear and self._condition is None:
            rows, name_of = self.table, {name: identifier(name) for name in names}
        else:
            rows, name_of = self._filtered(), self._position
        column_in = {slot: name_of[name] for name, slot in self.slot_of.items()}
        # The other side gives a NULL its type.
        in_slots = [f"{column_in.get(slot, 'NULL')} AS {identifier(slot)}" for slot in slots]
        return rows.selectExpr(*extra, *([_NEXT_PLACE] if self.has_places else []), *in_slots)

    def _filtered(self) -> DataFrame:
        """The table by position, without the rows that Spark's filter leaves out."""
        rows = self.by_position()
        return rows if self._condition is None else rows.filter(self._condition)

    @property
    def moment(self) -> Column | None:
        """Ticks of a row's time; None without a clock."""
        return None if self.clock is None else F.col(TICKS)

    @property
    def hashed(self) -> Column:
        """A hash of a row's values. Unlike a row number, it is the same at each reading."""
        return F.xxhash64(*(self._to_hash(name) for name in self.slot_of))

    def _to_hash(self, name: str) -> Column:
        """A column as Spark can hash it: it hashes no map, wherever one is in a column."""
        has_maps = "map<" in self.dtypes[name].simpleString()
        return F.to_json(F.struct(self.column(name))) if has_maps else self.column(name)


def in_one_partition(inputs: Iterable[Input], extra: Mapping[str, Sequence[str]]) -> DataFrame:
    """The rows of :func:`union_of` in few calls of Spark, since each takes as long as many rows.

    ``extra`` is as for :meth:`Input.in_slots`.
    """
    left, right = inputs
    slots = left.slots | right.slots
    rows = left.in_slots(slots, extra[left.name]).union(right.in_slots(slots, extra[right.name]))
    return rows.coalesce(1)


def identifier(name: str) -> str:
    """A name as SQL has it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def needs_places(query: JoinQuery) -> bool:
    """Whether the result depends on the order of rows of one time."""
    folds = () if query.aggregation is None else query.aggregation.aggregates
    is_ordered = query.is_rows or query.nearest is not None
    return is_ordered or any(fold.by is not None for fold in folds)


def computed(function: Callable[..., pa.Array], returns: str, columns: Sequence[Column]) -> Column:
    """A column that a function computes in Python from Arrow arrays of other columns."""
    # The overloads have no function of any number of columns.
    arrow_udf: Any = F.arrow_udf
    return arrow_udf(with_modules(function), returns)(*columns)
