"""Records: one file per checkpoint, which names its parts; it exists completely or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import FileError

from ...store.atomic import atomic
from ...store.checksums import sealed, unsealed
from .part_files import PartFile, explained

#: Version of the form of records and parts.
FORM = 1
#: Regular expression of the names of records.
NAME = r"record-[0-9]{10}\.json"


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


def name_of(number: int) -> str:
    """Return the name of a record's file."""
    return f"record-{number:010d}.json"


def number_of(name: str) -> int | None:
    """Return the number in the name of a record's file; None for other files."""
    return int(name[7:17]) if re.fullmatch(NAME, name) else None


def write_record(folder: Path, record: Record) -> None:
    """Write a record; from then on a stream goes on from it.

    Raises
    ------
    FileError
    """
    name = name_of(record.number)
    values = asdict(record)
    values["form"] = FORM
    with (
        explained(folder, f"write {name}"),
        atomic(folder / name, durable=True) as partial,
    ):
        partial.write_text(sealed(name, json.loads(json.dumps(values))), encoding="utf-8")


def read_record(folder: Path, number: int) -> Record:
    """Read a record.

    Raises
    ------
    FileError
        It is damaged, or of another version.
    """
    name = name_of(number)
    try:
        values = unsealed(name, (folder / name).read_bytes())
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
    except OSError as cause:
        if isinstance(cause, FileError):
            raise
        raise FileError(
            f"cannot read {folder / name}: {cause.strerror}; let this user read it"
        ) from cause
    except (ValueError, KeyError, TypeError) as cause:
        raise FileError(
            f"the checkpoint in {folder} is damaged: {name}: {cause}; bring the folder back from "
            "a copy, or begin anew in an empty one and push from the beginning"
        ) from cause
