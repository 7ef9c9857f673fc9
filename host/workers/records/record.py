"""Records: one file per checkpoint, which names its parts; it exists completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import FileError

from ...store.numbered import NumberedNames
from .part_files import LOST, PartFile, files_of

#: Version of the form of records and parts.
FORM = 1
#: Names of records.
NAMES = NumberedNames("record-", 10)


@dataclass(frozen=True)
class Record:
    """Record of a checkpoint, as its file has it.

    Parameters
    ----------
    number : int
        From 1 on.
    size, incarnation : int
        Number of workers that wrote it, and how often all had been started.
    query, fingerprint : str
        Text of the query, and checksum of the compiled query.
    schema : str
        Columns of dealt batches.
    promises : mapping of feed to time
        Promises that workers had got at the cut.
    admission : mapping
        State of the intake at the cut, for JSON.
    acknowledged : int
        The caller has taken all rows up to this number.
    states : tuple of PartFile
        Files with the state of each worker, by rank.
    rows : mapping of int to tuple of PartFile
        Files with unacknowledged output, by the number under which it is given.
    counts : mapping of str to int
        Counts of all workers at the cut that callers may ask for.
    """

    number: int
    size: int
    incarnation: int
    query: str
    fingerprint: str
    schema: str
    promises: Mapping[int, int]
    admission: Mapping[str, Any]
    acknowledged: int
    states: tuple[PartFile, ...]
    rows: Mapping[int, tuple[PartFile, ...]]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def parts(self) -> list[PartFile]:
        """All files that the record needs."""
        return [*self.states, *(part for parts in self.rows.values() for part in parts)]


def write_record(folder: Path, record: Record) -> None:
    """Write a record; from then on it is the one to go on from.

    Raises
    ------
    FileError
    """
    values = json.loads(json.dumps(asdict(record)))  # keys of JSON are texts
    files_of(folder).put_json(NAMES.name(record.number), {**values, "form": FORM})


def read_record(folder: Path, number: int) -> Record:
    """Read a record.

    Raises
    ------
    FileError
        The record is gone, damaged, or of another version.
    """
    files, name = files_of(folder), NAMES.name(number)
    shown, values = files.shown(name), files.get_json(name)
    if values is None:
        raise FileError(f"{shown} is gone; {LOST}")
    try:
        if values.pop("form") != FORM:
            raise FileError(
                f"the checkpoint in {folder} was written by another version of Penstock; finish "
                "that stream with it, or begin anew in an empty folder"
            )
        values["states"] = tuple(PartFile(**part) for part in values["states"])
        values["promises"] = {int(feed): time for feed, time in values["promises"].items()}
        values["rows"] = {
            int(number): tuple(PartFile(**part) for part in parts)
            for number, parts in values["rows"].items()
        }
        return Record(**values)
    except (KeyError, TypeError, ValueError) as cause:
        raise FileError(f"{shown} cannot be read: {cause}; {LOST}") from cause
