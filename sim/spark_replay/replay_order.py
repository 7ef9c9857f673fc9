"""The rows of a replay and their order, which its options determine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError, UsageError
from penstock.spark_bridge.sources.source_options import Options
from penstock.spark_bridge.text_values import whole
from penstock.types import UNIT_NS

from .arrival import NO_TIME, ArrivalOrder, ArrivalPiece, arriving
from .file_rows import RowFiles

#: Most rows of a batch that goes to Spark.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class ReplayPlan:
    """The rows of a replay. It travels to the tasks, which read the files again.

    Parameters
    ----------
    path : str
    time : str or None
        Time column; None to use the rows' numbers as times.
    unit : str
        Of the time, "" for a plain integer.
    disorder : int
        In that unit.
    seed : int
    """

    path: str
    time: str | None = None
    unit: str = ""
    disorder: int = 0
    seed: int = 0
    _cached: dict = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def from_options(options: Options) -> ReplayPlan:
        """
        Raises
        ------
        UsageError, FileError, SchemaError
        """
        path = options.required("path", "load(PATH) of a Parquet, CSV or Arrow file or a folder")
        time, _, unit = (options.text("time") or "").partition(":")
        if unit and unit not in UNIT_NS:
            raise UsageError(
                f"option time is COLUMN or COLUMN:UNIT, the unit one of {', '.join(UNIT_NS)}, "
                f"not {options.text('time')!r}"
            )
        if not time and options.text("disorder"):
            raise UsageError("disorder is of times: name the column with the option time")
        if time:
            dtype = RowFiles.at(path).field(time).type
            if not unit and (pa.types.is_timestamp(dtype) or pa.types.is_date(dtype)):
                unit = dtype.unit if pa.types.is_timestamp(dtype) else "D"
            elif not (pa.types.is_integer(dtype) or pa.types.is_temporal(dtype)):
                raise SchemaError(f"time column {time} has type {dtype}, which is no time")
        disorder = options.ticks("disorder", unit)
        seed = options.read("seed", whole(), 0)
        return ReplayPlan(path, time or None, unit, disorder, seed or 0)

    def __getstate__(self) -> dict:
        # Without what is derived from the files: a task derives it again.
        return {**{k: v for k, v in self.__dict__.items() if k != "arrivals"}, "_cached": {}}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)

    @property
    def files(self) -> RowFiles:
        if "files" not in self._cached:
            self._cached["files"] = RowFiles.at(self.path)
        return self._cached["files"]

    @cached_property
    def arrivals(self) -> ArrivalOrder:
        """The order of all rows; takes 24 bytes of memory per row."""
        return ArrivalOrder(self._times(0, self.files.rows), self.disorder, self.seed)

    @property
    def identity(self) -> str:
        """Differs between replays of different rows or orders."""
        chunks = [chunk.rows for chunk in self.files.chunks]
        facts = (chunks, str(self.files.schema), self.time, self.disorder, self.seed)
        return sha256(repr(facts).encode()).hexdigest()[:16]

    def pieces(self, begin: int, end: int, count: int) -> list[ArrivalPiece]:
        """Arrivals ``[begin, end)`` for so many tasks at most, with about as many rows each."""
        cuts = [begin + (end - begin) * k // count for k in range(count + 1)]
        return [self.arrivals.piece(a, b) for a, b in pairwise(cuts) if a < b]

    def read(self, piece: ArrivalPiece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a piece, in their order.

        Raises
        ------
        FileError, SchemaError
            A column is not there, or has values of another type.
        """
        times = self._times(piece.first, piece.last)
        chosen = arriving(piece, times, self.disorder, self.seed)
        rows = self.files.read(piece.first, piece.last, schema.names)
        if len(chosen) < rows.num_rows or np.any(chosen[1:] < chosen[:-1]):
            rows = rows.take(pa.array(chosen))
        try:
            cast = rows.cast(pa.schema([schema.field(name) for name in rows.column_names]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise SchemaError(
                f"rows of {self.path} are not of the schema given: {error}"
            ) from error
        for batch in cast.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS):
            if batch.num_rows:
                yield batch

    def _times(self, first: int, last: int) -> np.ndarray:
        if self.time is None:
            return np.arange(first, last)
        column = self.files.read(first, last, [self.time]).column(0).combine_chunks()
        if pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        ticks = column.cast(pa.int64())
        return pc.fill_null(ticks, NO_TIME).to_numpy(zero_copy_only=False)


def spark_types(schema: pa.Schema) -> pa.Schema:
    """A file's schema, with types that Spark has.

    Raises
    ------
    SchemaError
        It has none for a column.
    """
    return pa.schema([pa.field(f.name, _spark_type(f)) for f in schema])


def _spark_type(column: pa.Field) -> pa.DataType:
    dtype = column.type
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    if pa.types.is_unsigned_integer(dtype):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[dtype.bit_width]
    if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return pa.string()
    if pa.types.is_large_binary(dtype):
        return pa.binary()
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", None if dtype.tz is None else "UTC")
    if pa.types.is_date(dtype):
        return pa.date32()
    if pa.types.is_nested(dtype):
        raise SchemaError(
            f"column {column.name} has type {dtype}, which the replay does not carry; leave it out "
            'with schema("...") of the other columns'
        )
    return dtype
