"""The folder of a streaming join: files of rows, and one record per micro-batch.

Files are written under another name, flushed to the disk and then renamed, so that each is there as
a whole or not at all; none is ever changed. The driver alone writes records, and a record names
the files that count: what a task left behind that failed is named by none, and is cleaned up.
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from penstock.errors import FileError
from penstock.spark_bridge.durable import write_text, write_whole
from penstock.spark_bridge.streaming.commit import Commit, StoredFile

#: Name of the column that stored rows begin with: their time in the window's unit.
TIME = "time"

_ROWS, _RECORDS, _QUERY = "rows", "batches", "query.json"


class RowStore(ABC):
    """Where stored rows are."""

    @abstractmethod
    def add(self, batch: int, table: pa.Table) -> tuple[str, int]:
        """Keep rows; under which name, and how many bytes they are."""

    @abstractmethod
    def read(self, file: StoredFile) -> pa.Table:
        """Rows that are kept under a name."""

    def between(self, file: StoredFile, low: int, high: int) -> pa.Table:
        """Rows of a file with ``low <= time <= high``, without the column of their time."""
        table = self.read(file)
        if not (low <= file.low and file.high <= high):
            times = times_of(table)
            first = int(np.searchsorted(times, low, side="left"))
            last = int(np.searchsorted(times, high, side="right"))
            table = table.slice(first, last - first)
        return table.remove_column(0)


@dataclass(frozen=True)
class Store(RowStore):
    """The folder; it must be one and the same on the driver and on all workers.

    Parameters
    ----------
    folder : str
    """

    folder: str

    @property
    def scope(self) -> str:
        """Within which names of rows are unique, as devices and caches know it."""
        return blake2b(self.folder.encode(), digest_size=16).hexdigest()

    @property
    def _rows(self) -> Path:
        return Path(self.folder, _ROWS)

    @property
    def _records(self) -> Path:
        return Path(self.folder, _RECORDS)

    def make(self) -> None:
        """Make the folder, if it is not there.

        Raises
        ------
        FileError
        """
        try:
            for path in (self._rows, self._records):
                path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(
                f"cannot make {self.folder}: {error.strerror}; choose a checkpointLocation that "
                "the driver and all workers can write"
            ) from error

    # -- rows -------------------------------------------------------------------------------------

    def add(self, batch: int, table: pa.Table) -> tuple[str, int]:
        """Write rows into a new file; its name and size in bytes.

        Raises
        ------
        FileError
        """
        name = f"{batch}-{uuid.uuid4().hex}.arrow"
        path = self._rows / name

        def write(file: BinaryIO) -> None:
            with pa.ipc.new_file(file, table.schema) as writer:
                # One piece, so that columns can be used in place.
                writer.write_table(table.combine_chunks(), max_chunksize=max(1, table.num_rows))

        write_whole(path, write)
        return name, path.stat().st_size

    def read(self, file: StoredFile) -> pa.Table:
        """The rows of a file, mapped into memory.

        Raises
        ------
        FileError
        """
        path = self._rows / file.name
        try:
            with pa.memory_map(str(path)) as source:
                return pa.ipc.open_file(source).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise FileError(f"{path} cannot be read: {error}; {_LOST}") from error

    def check(self, commit: Commit) -> None:
        """Find out now whether a file of a batch is gone or damaged.

        Raises
        ------
        FileError
        """
        for file in commit.files():
            path = self._rows / file.name
            try:
                size = path.stat().st_size
            except OSError as error:
                raise FileError(f"{path} is gone: {error.strerror}; {_LOST}") from error
            if size != file.bytes:
                raise FileError(f"{path} has {size} bytes, not {file.bytes}; {_LOST}")

    # -- records ----------------------------------------------------------------------------------

    def commit(self, batch: int) -> Commit | None:
        """The record of a batch, if there is one."""
        if batch < 0:
            return Commit()
        values = self._json(self._records / f"{batch}.json")
        return None if values is None else Commit.of(values)

    def put(self, commit: Commit) -> None:
        """Write the record of a batch.

        Raises
        ------
        FileError
        """
        self._put_json(self._records / f"{commit.batch}.json", commit.as_json())

    def latest(self) -> Commit | None:
        """The record of the latest batch."""
        numbers = [int(p.stem) for p in self._records.glob("*.json") if p.stem.isdecimal()]
        return self.commit(max(numbers)) if numbers else None

    def query(self) -> dict[str, Any] | None:
        """What the folder is for."""
        return self._json(Path(self.folder, _QUERY))

    def put_query(self, values: Mapping[str, Any]) -> None:
        self._put_json(Path(self.folder, _QUERY), values)

    def clean(self, commit: Commit, before: Commit) -> None:
        """Remove what neither this batch nor the one before it reads.

        Spark repeats the latest batch only, and that needs what the one before it left.
        """
        named = {file.name for one in (commit, before) for file in one.files()}
        _remove(
            path
            for path in self._rows.iterdir()
            # A later batch's file may be of another attempt that is still at work.
            if path.name not in named and int(path.name.split("-")[0]) <= commit.batch
        )
        _remove(
            path
            for path in self._records.iterdir()
            if not path.stem.isdecimal() or int(path.stem) < before.batch
        )

    def _put_json(self, path: Path, values: Mapping[str, Any]) -> None:
        write_text(path, json.dumps(values, indent=1))

    def _json(self, path: Path) -> dict[str, Any] | None:
        try:
            return json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise FileError(f"{path} cannot be read: {error}; {_LOST}") from error


#: What can be done where state is gone.
_LOST = (
    "restore the folder from a backup together with Spark's checkpoint around it, or begin anew "
    "with another checkpointLocation"
)


def times_of(table: pa.Table) -> np.ndarray:
    """Times of stored rows, int64."""
    if not table.num_rows:
        return np.zeros(0, np.int64)
    return table.column(0).chunk(0).to_numpy()


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        path.unlink(missing_ok=True)
