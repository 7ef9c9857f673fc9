"""Conversion between records on disk and the protocol's commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .dealt import unpacked
from .job import Job, WorkerStart
from .protocol.commit import CheckpointCommit
from .protocol.parent import Parent
from .records.folder import CheckpointFolder
from .records.part_files import PartFile, read_part
from .records.record import Record
from .writing import as_text, parts_of


@dataclass(frozen=True)
class RecordWriter:
    """Writer of a stream's records.

    Parameters
    ----------
    folder : CheckpointFolder
    query, fingerprint, schema : str
        As in :class:`~.records.record.Record`.
    """

    folder: CheckpointFolder
    query: str
    fingerprint: str
    schema: str

    def last(self) -> Record | None:
        """Return the record to go on from, once files that it does not name are removed.

        Raises
        ------
        FileError
            It is another query's, or damaged.
        """
        last = self.folder.newest()
        if last is not None:
            self.folder.require(last, self.query, self.fingerprint, self.schema)
        self.folder.tidy(last)
        return last

    def write(self, commit: CheckpointCommit, counts: Mapping[str, int]) -> None:
        """Write the record of a commit.

        Raises
        ------
        FileError
        """
        record = Record(
            commit.number,
            commit.size,
            commit.incarnation,
            self.query,
            self.fingerprint,
            self.schema,
            commit.promises,
            commit.admission,
            commit.acknowledged,
            parts_in(commit.states),
            {number: parts_in(texts) for number, texts in commit.rows.items()},
            dict(counts),
        )
        self.folder.commit(record)


def commit_of(record: Record) -> CheckpointCommit:
    """Make the protocol's commit of a record."""
    return CheckpointCommit(
        record.number,
        record.size,
        record.incarnation,
        dict(record.promises),
        record.admission,
        record.acknowledged,
        _texts(record.states),
        {number: _texts(parts) for number, parts in record.rows.items()},
    )


def start_of(job: Job, rank: int, parent: Parent) -> WorkerStart:
    """Make the instructions by which a worker begins from the last record."""
    last = parent.last
    return WorkerStart(
        job,
        rank,
        parent.incarnation,
        parent.committed,
        {} if last is None else last.promises,
        () if last is None else parts_in(last.states),
        0 if last is None else last.size,
    )


def rows_in(
    folder: CheckpointFolder, record: Record, schema: pa.Schema
) -> dict[int, list[pa.RecordBatch]]:
    """Read the unacknowledged output of a record, by number.

    Raises
    ------
    FileError
        A part is missing or damaged.
    """
    return {
        number: [
            unpacked(block, schema) for part in parts for block in read_part(folder.path, part)
        ]
        for number, parts in record.rows.items()
    }


def rows_by_rank(
    folder: Path, record: Record, schema: pa.Schema, is_wanted: Callable[[int], bool]
) -> list[tuple[int, int, list[pa.RecordBatch]]]:
    """Read unacknowledged output of some ranks: (number, rank, rows), by number.

    Parameters
    ----------
    is_wanted : callable
        Whether to read a rank's rows.

    Raises
    ------
    FileError
        A part is missing or damaged.
    """
    return [
        (number, part.rank, [unpacked(block, schema) for block in read_part(folder, part)])
        for number, parts in sorted(record.rows.items())
        for part in parts
        if is_wanted(part.rank)
    ]


def parts_in(texts: Sequence[bytes]) -> tuple[PartFile, ...]:
    """Return the part files that texts of a commit describe."""
    return tuple(part for text in texts for part in parts_of(text))


def _texts(parts: Sequence[PartFile]) -> tuple[bytes, ...]:
    return tuple(as_text([part]) for part in parts)
