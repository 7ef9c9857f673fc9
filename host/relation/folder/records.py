"""Records: the contents of a relation's JSON files, and the names of all its files."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import FileError

from ...store.file_store import FileStore
from ...store.numbered import NumberedNames
from ...store.own_names import UUID, OwnNames
from .segment import DATA, SegmentRecord
from .sorting import RUNS, SCRATCH

#: Version of the format; changes whenever the contents of the files do.
FORMAT = 2
RELATION = "relation.json"
VERSIONS = "versions"
#: Records of the nodes that answer lookups (:mod:`host.lookup.nodes.record`).
NODES = "nodes"
#: Versions that batches of queries read, and that programs hold (:mod:`.pins`).
PINS, HOLDS = "pins", "holds"
#: The number of the newest version, written once that version is there.
NEWEST = "newest.json"
#: Names of the records of versions, and of rings of nodes.
VERSION_NAMES, RING_NAMES = NumberedNames(f"{VERSIONS}/", 20), NumberedNames(f"{NODES}/", 20)
#: Names of all that Penstock writes in the folder of a relation, or in one for pins.
RELATION_NAMES = OwnNames(
    rf"{re.escape(RELATION)}|{re.escape(NEWEST)}",
    rf"(?:{VERSIONS}|{NODES})/|{VERSION_NAMES.pattern}|{RING_NAMES.pattern}",
    rf"{DATA}/(?:{UUID}\.(?:pages|index))?",
    rf"{HOLDS}/(?:{UUID})?",
    rf"{PINS}/[^/.][^/]*/[^/.][^/]*",
    rf"{SCRATCH}/(?:{RUNS})?",
)


def relation_values(files: FileStore) -> dict[str, Any]:
    """Values of a relation's unchanging record.

    Raises
    ------
    FileError
        There is none, or it is damaged.
    """
    values = files.get_json(RELATION)
    if values is None:
        raise FileError(
            f"there is no relation at {files.root}: {RELATION} is missing; build one with "
            "`penstock relation build`, or restore it from a backup"
        )
    return values


@dataclass(frozen=True)
class RelationRecord:
    """The unchanging record of a relation: its schema, key and options.

    Parameters
    ----------
    id : str
        Differs from that of a relation built later in its place.
    """

    id: str
    schema: pa.Schema
    key: tuple[str, ...]
    cluster: tuple[str, ...]
    unique: bool
    page_bytes: int
    hash: str
    #: By column of the cluster: bounds of equally many rows each, as floats.
    splits: Mapping[str, list[float]]

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "id": self.id,
            "schema": b64encode(self.schema.serialize().to_pybytes()).decode(),
            "shown": {f.name: str(f.type) for f in self.schema},
            "key": list(self.key),
            "cluster": list(self.cluster),
            "unique": self.unique,
            "page_bytes": self.page_bytes,
            "hash": self.hash,
            "splits": dict(self.splits),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RelationRecord:
        return cls(
            id=values["id"],
            schema=pa.ipc.read_schema(pa.py_buffer(b64decode(values["schema"]))),
            key=tuple(values["key"]),
            cluster=tuple(values["cluster"]),
            unique=values["unique"],
            page_bytes=values["page_bytes"],
            hash=values["hash"],
            splits=values["splits"],
        )


@dataclass(frozen=True)
class Delta:
    """Segments of an update: rows that it adds, and keys whose earlier rows it removes."""

    rows: SegmentRecord | None
    removed: SegmentRecord | None

    @property
    def segments(self) -> list[SegmentRecord]:
        return [one for one in (self.rows, self.removed) if one is not None]


@dataclass(frozen=True)
class VersionRecord:
    """Record of a version: the segments that make it up, and its counts.

    Parameters
    ----------
    relation : str
        The relation's id.
    number : int
    created : float
        Seconds of Unix time.
    rows : int
    null_keys : int
        Rows whose key is NULL.
    base : SegmentRecord
    deltas : tuple of Delta
        Updates since the base was written, the oldest first.
    change : Delta or None
        Difference from the version before; None if rows are the same, only stored otherwise.
    """

    relation: str
    number: int
    created: float
    rows: int
    null_keys: int
    base: SegmentRecord
    deltas: tuple[Delta, ...]
    change: Delta | None

    @property
    def segments(self) -> list[SegmentRecord]:
        """All segments that are read for its rows."""
        return [self.base, *(one for delta in self.deltas for one in delta.segments)]

    @property
    def changed_segments(self) -> list[SegmentRecord]:
        """Segments that tell what the version changed."""
        return [] if self.change is None else self.change.segments

    @property
    def all_segments(self) -> list[tuple[SegmentRecord, bool]]:
        """All segments that the version names, each with whether it holds removed keys."""
        segments: list[tuple[SegmentRecord, bool]] = [(self.base, False)]
        for delta in [*self.deltas, *([] if self.change is None else [self.change])]:
            segments += [(one, one is delta.removed) for one in delta.segments]
        return segments

    def as_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "base": self.base.as_dict(),
            "deltas": [_delta_dict(delta) for delta in self.deltas],
            "change": None if self.change is None else _delta_dict(self.change),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> VersionRecord:
        change = values["change"]
        return cls(
            relation=values["relation"],
            number=values["number"],
            created=values["created"],
            rows=values["rows"],
            null_keys=values["null_keys"],
            base=SegmentRecord(**values["base"]),
            deltas=tuple(_delta_of(delta) for delta in values["deltas"]),
            change=None if change is None else _delta_of(change),
        )


def _delta_dict(delta: Delta) -> dict[str, Any]:
    return {
        "rows": None if delta.rows is None else delta.rows.as_dict(),
        "gone": None if delta.removed is None else delta.removed.as_dict(),
    }


def _delta_of(values: Mapping[str, Any]) -> Delta:
    rows, removed = values["rows"], values["gone"]
    return Delta(
        None if rows is None else SegmentRecord(**rows),
        None if removed is None else SegmentRecord(**removed),
    )
