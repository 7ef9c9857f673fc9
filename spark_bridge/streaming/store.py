"""The files of a streaming join: rows, and one record per micro-batch.

A file is there as a whole or not at all. None changes, except the note of the latest batch. Only
the driver writes records. A record names the files that count: files of failed tasks are in no
record, and are removed later.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import FileError
from penstock.host.join.step import RowBlock
from penstock.host.store.file_store import FileStore
from penstock.host.store.numbered import NumberedNames
from penstock.host.store.own_names import NUMBER, UUID, OwnNames
from penstock.plan.ranges import place

from .commit import BatchRecord, Part, StoredFile

#: Name of the column that stored rows begin with: their time in the window's unit.
TIME = "time"

_ROWS, _RECORDS = "rows", "batches"

#: Folder of the figures of batches, which the join itself does not read.
FIGURES = "figures"
_QUERY, _LATEST = "query.json", "latest.json"
_BATCH_NAMES, FIGURE_NAMES = NumberedNames(f"{_RECORDS}/"), NumberedNames(f"{FIGURES}/")
#: Names of all that a streaming join writes in its folder.
STORE_NAMES = OwnNames(
    rf"{_ROWS}/{NUMBER}-{UUID}\.arrow",
    _BATCH_NAMES.pattern,
    FIGURE_NAMES.pattern,
    rf"{FIGURES}/{NUMBER}-{NUMBER}\.json",
    "(?:query|latest)\\.json",
)

#: End of messages about failed writes: what to do when the cause is removed.
AGAIN = "start the query again: it goes on where it was"

#: End of messages about lost state.
LOST = (
    "restore the folder from a backup together with Spark's checkpoint around it, or begin anew "
    "with another checkpointLocation"
)


@lru_cache(maxsize=16)
def file_store(location: str, lost: str = LOST) -> FileStore:
    """Files of a streaming query at a path or URI; one object per process.

    Raises
    ------
    UsageError
        There is no such kind of store.
    """
    return FileStore(location, lost=lost, again=AGAIN, own_names=STORE_NAMES)


def _times(table: pa.Table) -> np.ndarray:
    """The first column of stored rows, in one chunk."""
    return table.column(0).chunk(0).to_numpy()


@dataclass(frozen=True)
class Store:
    """Files of one join; they must be the same for the driver and all workers.

    Parameters
    ----------
    folder : str
        A path, or the URI of an object store.
    """

    folder: str

    @property
    def scope(self) -> str:
        """Name of this store for devices and caches: names of files are unique within it."""
        return blake2b(self.folder.encode(), digest_size=16).hexdigest()

    @property
    def files(self) -> FileStore:
        """The file system or object store below the folder."""
        return file_store(self.folder)

    @property
    def shown(self) -> str:
        """The folder, for messages."""
        return self.files.root

    def make(self) -> None:
        """Make the folder, if it is not there.

        Raises
        ------
        FileError, UsageError
        """
        self.files.make((_ROWS, _RECORDS, FIGURES))

    # -- rows -------------------------------------------------------------------------------------

    def add(
        self, batch: int, table: pa.Table, block: RowBlock, cells: Mapping[str, str] | None = None
    ) -> StoredFile:
        """Write rows into a new file.

        Raises
        ------
        FileError
        """
        name = f"{batch}-{uuid.uuid4().hex}.arrow"
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            # One chunk per column, so that they can be used in place.
            writer.write_table(table.combine_chunks(), max_chunksize=max(1, table.num_rows))
        written = self.files.put(f"{_ROWS}/{name}", sink.getvalue())
        return StoredFile(**asdict(block), name=name, cells=cells, **written._asdict())

    def read(self, file: StoredFile) -> pa.Table:
        """The rows of a file; in a folder, mapped into memory.

        Raises
        ------
        FileError
            It is gone, or is not what was written.
        """
        return self.files.table(f"{_ROWS}/{file.name}", file.checksum)

    def between(self, file: StoredFile, low: int, high: int, part: Part | None = None) -> pa.Table:
        """Rows of a file, or of a part of it, with ``low <= time <= high``, in the order of time.

        The column of their time is left out.
        """
        table = self.read(file)
        if part is not None:
            slices = [table.slice(first, last - first) for first, last in part.stretches]
            table = pa.concat_tables(slices).combine_chunks()
        if file.cells is not None:
            order = np.argsort(_times(table), kind="stable")
            table = table.take(pa.array(order))
        if not (low <= file.low and file.high <= high):
            first, last = place(_times(table), low), place(_times(table), high, after=True)
            table = table.slice(first, max(0, last - first))
        return table.remove_column(0)

    def check(self, commit: BatchRecord) -> None:
        """Check that no file of a batch is gone or has another size.

        Its content is checked when it is first read.

        Raises
        ------
        FileError
        """
        for file in commit.files():
            self.files.require(f"{_ROWS}/{file.name}", file.bytes)

    # -- what a task has written ------------------------------------------------------------------

    def report(self, part: int, written: Sequence[Mapping[str, Any]]) -> str:
        """A text that tells the driver what one attempt of a task has written."""
        return json.dumps({"part": part, "written": list(written)})

    def reports(self, texts: Iterable[str]) -> dict[int, list[dict[str, Any]]]:
        """Read the reports of tasks: the entries that each part has written.

        Parameters
        ----------
        texts : iterable of str
            From :meth:`report`. Of two attempts of one part, the first counts.
        """
        by_part: dict[int, list[dict[str, Any]]] = {}
        for values in map(json.loads, texts):
            by_part.setdefault(values["part"], values["written"])
        return by_part

    # -- records ----------------------------------------------------------------------------------

    def commit(self, batch: int) -> BatchRecord | None:
        """The record of a batch, if there is one.

        Raises
        ------
        FileError
            It is damaged, or is a copy of another batch's record.
        """
        if batch < 0:
            return BatchRecord()
        values = self.files.get_json(_BATCH_NAMES.name(batch))
        return None if values is None else BatchRecord.from_json(values)

    def put(self, commit: BatchRecord) -> None:
        """Write the record of a batch.

        Raises
        ------
        FileError
        """
        self.files.put_json(_BATCH_NAMES.name(commit.batch), commit.as_json())
        self.files.put_json(_LATEST, {"batch": commit.batch})

    def latest(self) -> BatchRecord | None:
        """The record of the latest batch.

        Raises
        ------
        FileError
            It is gone or damaged.
        """
        noted = self.files.get_json(_LATEST)
        number = 0 if noted is None else noted["batch"]
        latest = self.commit(number)
        if latest is None:
            if noted is None and not _BATCH_NAMES.numbers(self.files):
                return None
            missing = _LATEST if noted is None else _BATCH_NAMES.name(number)
            raise FileError(f"{self.files.shown(missing)} is gone; {LOST}")
        # The record is written before the note, which may therefore be one behind.
        while (following := self.commit(number + 1)) is not None:
            latest, number = following, number + 1
        return latest

    def query(self) -> dict[str, Any] | None:
        """Identity of the folder's query."""
        return self.files.get_json(_QUERY)

    def put_query(self, values: Mapping[str, Any]) -> None:
        self.files.put_json(_QUERY, values)

    def clean(self, commit: BatchRecord, before: BatchRecord) -> None:
        """Remove files that neither this batch nor the one before it reads.

        Spark repeats only the latest batch, which reads what the one before it left. A file that
        a listing lacks is removed after a later batch.
        """
        named = {file.name for one in (commit, before) for file in one.files()}
        self.files.remove(
            f"{_ROWS}/{name}"
            for name in self.files.names(_ROWS)
            # Another attempt may still be writing files of a later batch.
            if name not in named and _batch_of(name) <= commit.batch
        )
        _BATCH_NAMES.keep_from(self.files, before.batch)


def _batch_of(name: str) -> float:
    """Number of a file's batch; infinite for a name that has none."""
    number = name.removeprefix(".").split("-")[0]  # hidden while it is written
    return int(number) if number.isdecimal() else inf
