"""Base of all workloads: slots, disorder, arrival ids, batches and files.

A workload is a set of named streams. Each stream is made in slots of event time. The random
numbers of a slot depend on (seed, stream, slot) alone, so a stream does not depend on how it is
read. Memory holds one slot, the rows that disorder still holds back, and one batch, whatever the
length of the stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import FileError, UsageError
from penstock.host.store.atomic import atomic

from .slots import US_PER_S, Slot

Columns = dict[str, npt.NDArray]

#: Rows that a slot should have: enough that NumPy's cost per call is small, few enough for a cache.
SLOT_ROWS = 1 << 16

#: Longest slot in microseconds. Rates are constant inside a slot, so this is also the finest
#: detail of a rate curve.
MAX_SLOT_US = 60 * US_PER_S

#: Rows of a batch unless the caller asks for another number; Spark's Arrow feed is fastest here.
BATCH_ROWS = 1 << 16

#: Instants in microseconds, the unit of Spark and DuckDB. With a zone, since Spark reads times
#: without one as TIMESTAMP_NTZ and refuses a watermark on it.
TIMESTAMP = pa.timestamp("us", tz="UTC")
#: Instants in milliseconds, where a benchmark's record has those.
TIMESTAMP_MS = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True, kw_only=True)
class Workload(ABC):
    """Base of the generators.

    Parameters
    ----------
    seconds : float
        Length of the run in seconds of event time.
    disorder_s : float
        A row arrives at most this many seconds after its event time, evenly distributed. So in
        arrival order no row is older than ``newest so far - disorder_s``.
    start : datetime
        Event time of the first instant. Without a zone it is taken as UTC.
    seed : int
        Same seed and parameters, same rows (with the same version of NumPy).
    """

    seconds: float = 600.0
    disorder_s: float = 1.0
    start: datetime = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
    seed: int = 1

    def __post_init__(self) -> None:
        check("seconds", self.seconds, low=1e-3, high=1e9, unit="s")
        check("disorder_s", self.disorder_s, low=0, high=3600, unit="s")
        check("seed", self.seed, low=0, high=2**63 - 1)

    @property
    @abstractmethod
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Schema of each stream, by stream name.

        Each has ``id`` and ``ts`` first, but for records that a benchmark fixes: those have ``t``,
        in milliseconds.
        """

    @abstractmethod
    def query(self) -> str:
        """SQL of the join or the groups this workload is made for."""

    def stages(self) -> Mapping[str, str]:
        """SQL of what runs before :meth:`query`, by the names it has for the results."""
        return MappingProxyType({})

    def oracle(self) -> str:
        """DuckDB's SQL of the same rows, times in ms; empty if the workload has none."""
        return ""

    @abstractmethod
    def rate_of(self, stream: str) -> float:
        """Mean rows per second of ``stream``."""

    @abstractmethod
    def _fill(self, stream: str, slot: Slot) -> Columns:
        """Columns of a slot in any order, ``ts`` in us since the start; ``id`` counts arrivals."""

    def table(self, stream: str) -> pa.Table:
        """All of a stream in arrival order, in memory."""
        return pa.Table.from_batches(list(self.batches(stream)), schema=self.schemas[stream])

    def tables(self) -> dict[str, pa.Table]:
        """All streams in memory, by name."""
        return {name: self.table(name) for name in self.schemas}

    def reader(self, stream: str, *, rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        """A stream as Arrow's own reader, which DuckDB, Polars and Parquet writers accept."""
        batches = self.batches(stream, rows=rows)
        return pa.RecordBatchReader.from_batches(self.schemas[stream], batches)

    def batches(self, stream: str, *, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield a stream in arrival order as batches of ``rows`` rows; the last may be shorter.

        Raises
        ------
        UsageError
            The workload has no such stream, or ``rows`` is not positive.
        """
        if stream not in self.schemas:
            raise UsageError(
                f"{type(self).__name__} has no stream {stream!r}; it has {', '.join(self.schemas)}"
            )
        check("rows", rows, low=1, high=1 << 31)
        return self._batches(stream, rows)

    def write(self, folder: str | Path, *, rows: int = SLOT_ROWS * 8) -> dict[str, Path]:
        """Write each stream as ``<stream>.parquet`` and the query as ``query.sql``.

        A stage that runs before the query is ``<stage>.sql``. What DuckDB answers in the folder,
        if the workload has it, is ``oracle.sql``. Each file appears whole, by a rename, or not at
        all. Rows are in arrival order.

        Parameters
        ----------
        folder : path
            Made if missing; files of the same name are replaced.
        rows : int
            Rows of a Parquet row group, which is what memory holds.

        Returns
        -------
        dict of str to Path
            The file of each stream.

        Raises
        ------
        FileError
            The folder or a file cannot be written.
        """
        folder = Path(folder)
        files = {name: folder / f"{name}.parquet" for name in self.schemas}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, file in files.items():
                with atomic(file) as part:
                    self._write_parquet(name, part, rows)
            for name, text in self._sql_files().items():
                with atomic(folder / f"{name}.sql") as part:
                    part.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise FileError(
                f"cannot write the workload to {folder}: {error}; choose another folder"
            ) from error
        return files

    def _write_parquet(self, stream: str, file: Path, rows: int) -> None:
        with pq.ParquetWriter(file, self.schemas[stream], compression="zstd") as writer:
            for batch in self.batches(stream, rows=rows):
                writer.write_batch(batch, row_group_size=rows)

    def _sql_files(self) -> dict[str, str]:
        """What is written as SQL, by the file's name."""
        texts = {**self.stages(), "query": self.query()}
        if oracle := self.oracle():
            views = (f"CREATE VIEW {name} AS FROM '{name}.parquet';" for name in self.schemas)
            texts["oracle"] = "\n".join([*views, f"{oracle};"])
        return texts

    def _pools(self, stream: str) -> Mapping[str, pa.Array]:
        """Values of columns that ``_fill`` gives places of, not values."""
        return MappingProxyType({})

    @property
    def _duration_us(self) -> int:
        return round(self.seconds * US_PER_S)

    @property
    def _start_us(self) -> int:
        start = self.start if self.start.tzinfo else self.start.replace(tzinfo=UTC)
        return (start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    def _slot_us(self, stream: str) -> int:
        """Length of a slot; a function of the parameters only, or batches would change rows."""
        wanted = round(self._slot_rows(stream) / self.rate_of(stream) * US_PER_S)
        # At least the disorder, since that much is sorted again in the next slot. A slot has
        # whole microseconds and at least a thousand of them.
        return max(min(wanted, MAX_SLOT_US), round(self.disorder_s * US_PER_S), 1000)

    def _slot_rows(self, stream: str) -> int:
        """Rows a slot of ``stream`` aims at."""
        return SLOT_ROWS

    def _rng(self, *path: int | str) -> np.random.Generator:
        """Generator for one purpose, named by ``path``: independent of all other paths."""
        words = [int.from_bytes(p.encode(), "little") if isinstance(p, str) else p for p in path]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, *words])))

    def _slots(self, stream: str) -> Iterator[Slot]:
        length = self._slot_us(stream)
        for number, begin in enumerate(range(0, self._duration_us, length)):
            end = min(begin + length, self._duration_us)
            yield Slot(number, begin, end, self._rng(stream, "slot", number))

    def _in_arrival_order(self, stream: str) -> Iterator[Columns]:
        """Slots after disorder: what has arrived by the end of each slot.

        Nothing of a later slot can arrive before this slot's end, so the cut is final.
        """
        held: Columns | None = None
        disorder_us = round(self.disorder_s * US_PER_S)
        for slot in self._slots(stream):
            new = self._fill(stream, slot)
            delay = slot.rng.integers(0, disorder_us, size=len(new["ts"]), endpoint=True)
            new["arrival"] = new["ts"] + delay
            held = new if held is None else _concat([held, new])
            order = np.lexsort((held["ts"], held["arrival"]))
            held = {name: column[order] for name, column in held.items()}
            ready = int(np.searchsorted(held["arrival"], slot.end_us))
            yield {name: column[:ready] for name, column in held.items()}
            held = {name: column[ready:] for name, column in held.items()}
        if held is not None:
            yield held

    def _batches(self, stream: str, rows: int) -> Iterator[pa.RecordBatch]:
        first_id = 0
        parts: list[Columns] = []
        waiting = 0
        for part in self._in_arrival_order(stream):
            parts.append(part)
            waiting += len(part["ts"])
            if waiting < rows:
                continue
            whole = _concat(parts)
            full = waiting - waiting % rows
            for begin in range(0, full, rows):
                cut = {name: column[begin : begin + rows] for name, column in whole.items()}
                yield self._to_arrow(stream, cut, first_id)
                first_id += rows
            parts = [{name: column[full:] for name, column in whole.items()}]
            waiting -= full
        if waiting:
            yield self._to_arrow(stream, _concat(parts), first_id)

    def _to_arrow(self, stream: str, columns: Columns, first_id: int) -> pa.RecordBatch:
        count, ts = len(columns["ts"]), columns["ts"] + self._start_us
        ready = {
            "id": np.arange(first_id, first_id + count),
            **columns,
            "ts": ts,
            "t": ts // 1000,
        }
        schema, pools = self.schemas[stream], self._pools(stream)
        arrays = [
            pools[field.name].take(pa.array(ready[field.name]))
            if field.name in pools
            else _to_array(ready[field.name], field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check(
    name: str, value: float, *, low: float, high: float = float("inf"), unit: str = ""
) -> None:
    """Raise UsageError unless ``low <= value <= high``; NaN never passes."""
    if not low <= value <= high:
        limits = f"{low:g} to {high:g}" + (f" {unit}" if unit else "")
        raise UsageError(f"{name} must be {limits}, not {value!r}")


def _to_array(values: npt.NDArray, dtype: pa.DataType) -> pa.Array:
    """An Arrow array; of bytes of a fixed width, the values are rows of ``uint8``."""
    if not pa.types.is_fixed_size_binary(dtype):
        return pa.array(values, type=dtype)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(dtype, len(values), [None, data])


def _concat(parts: list[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
