"""Sorting of more rows than memory holds: sorted runs on disk, which are merged."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import FileError

from ...store.file_store import explained

#: Prefix of the names of folders of runs.
_PREFIX = ".sort."
#: Their names as the system makes them, and the names of files in them.
SCRATCH = rf"{re.escape(_PREFIX)}[a-z0-9_]{{8}}"
RUNS = "run-[0-9]+|keyless|unordered|rows"
#: What to do when the cause of an error is removed.
_AGAIN = "try again"
#: Bytes of a batch that is read from a run.
RUN_BATCH_BYTES = 1 << 20
#: Share of the memory that rows take before they are sorted; then there are two copies of them.
_SHARE = 4
#: Rows of a batch of small ones.
_LEAST_ROWS = 256


@contextmanager
def scratch(folder: str | Path) -> Iterator[Path]:
    """A hidden folder within a folder, for as long as the ``with`` block lasts.

    Raises
    ------
    FileError
    """
    with explained(str(folder), _AGAIN):
        folder_made = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder)
    with folder_made as path:
        yield Path(path)


class Spool:
    """Rows on disk, to be read again in the order in which they came.

    Parameters
    ----------
    path : Path
        A new file.
    schema : Schema
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._writer: Any = None
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises
        ------
        FileError
        """
        if not batch.num_rows:
            return
        with explained(str(self._path), _AGAIN):
            if self._writer is None:
                self._writer = pa.ipc.new_file(str(self._path), self._schema)
            self._writer.write_batch(batch, None)
        self.rows += batch.num_rows

    def close(self) -> None:
        """End the file.

        Raises
        ------
        FileError
        """
        with explained(str(self._path), _AGAIN):
            if self._writer is not None:
                self._writer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; the file is removed behind the last one."""
        self.close()
        if self._writer is None:
            return
        try:
            with pa.OSFile(str(self._path)) as file:
                reader = pa.ipc.open_file(file)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"cannot read {self._path}: {error}; {_AGAIN}") from error
        self._path.unlink(missing_ok=True)


class Sorter:
    """Sorts rows by their first column, of uint64.

    Parameters
    ----------
    folder : Path
        Folder for the runs.
    schema : Schema
    memory_bytes : int
        About what is used besides the caller's rows.
    """

    def __init__(self, folder: Path, schema: pa.Schema, memory_bytes: int) -> None:
        self._folder, self._schema = folder, schema
        self._memory_bytes = memory_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._runs: list[Spool] = []
        self._runs_begun = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises
        ------
        FileError
        """
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes * _SHARE > self._memory_bytes:
            run = self._new_run()
            for part in self._sorted_parts():
                run.write(part)
            run.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, sorted; rows with one value in no particular order.

        Raises
        ------
        FileError
        """
        if not self._runs:
            yield from self._sorted_parts()
            return
        run = self._new_run()
        for part in self._sorted_parts():
            run.write(part)
        run.close()
        most = max(2, self._memory_bytes // (_SHARE * RUN_BATCH_BYTES))
        while len(self._runs) > most:
            merged, self._runs = self._runs[:most], self._runs[most:]
            run = self._new_run()
            for part in merge(one.batches() for one in merged):
                run.write(part)
            run.close()
        yield from merge(run.batches() for run in self._runs)

    def _new_run(self) -> Spool:
        self._runs_begun += 1
        self._runs.append(Spool(self._folder / f"run-{self._runs_begun}", self._schema))
        return self._runs[-1]

    def _sorted_parts(self) -> Iterator[pa.RecordBatch]:
        """The rows that are held, sorted, in batches; they are held no longer."""
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held).combine_chunks()
        self._held, self._held_bytes = [], 0
        order = np.argsort(rows.column(0).to_numpy(), kind="stable")
        step = batch_rows(rows)
        for start in range(0, len(order), step):
            part = rows.take(pa.array(order[start : start + step]))
            yield from part.combine_chunks().to_batches()


def batch_rows(rows: pa.Table) -> int:
    """Number of rows per batch of a run, from the size of these rows."""
    return max(_LEAST_ROWS, rows.num_rows * RUN_BATCH_BYTES // max(rows.nbytes, 1))


class _Run:
    """A sorted run while it is merged: its remaining rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.batch: pa.RecordBatch | None = None
        self.values = np.zeros(0, np.uint64)
        self._next()

    def _next(self) -> None:
        self.batch = next(self._batches, None)
        if self.batch is not None:
            self.values = self.batch.column(0).to_numpy()

    def take(self, bound: np.uint64) -> pa.RecordBatch:
        """The rows of the batch up to a value; it goes on with the next batch behind the last."""
        assert self.batch is not None
        count = int(np.searchsorted(self.values, bound, "right"))
        rows = self.batch.slice(0, count)
        if count == len(self.values):
            self._next()
        else:
            self.batch, self.values = self.batch.slice(count), self.values[count:]
        return rows


def merge(runs: Iterable[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs: a batch of each is in memory."""
    with ExitStack() as stack:
        opened = []
        for run in runs:
            stack.callback(run.close)  # pyright: ignore[reportAttributeAccessIssue]
            opened.append(_Run(run))
        open_runs = [run for run in opened if run.batch is not None]
        while open_runs:
            # No run has unread rows below the least of the batches' last values.
            bound = min(run.values[-1] for run in open_runs)
            parts = [run.take(bound) for run in open_runs]
            rows = pa.Table.from_batches(parts).combine_chunks()
            order = np.argsort(rows.column(0).to_numpy(), kind="stable")
            yield from rows.take(pa.array(order)).combine_chunks().to_batches()
            open_runs = [run for run in open_runs if run.batch is not None]
