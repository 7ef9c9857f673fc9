"""Maintenance of a relation: description, check for damage, and vacuum of unneeded files."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock.errors import FileError, UsageError

from ...store.file_store import Listed
from ...store.own_names import OwnNames
from .pins import Pins
from .reading import RelationReader, file_store
from .records import NODES, RING_NAMES, VERSION_NAMES, VERSIONS, VersionRecord
from .segment import DATA, SegmentRecord
from .sorting import RUNS, SCRATCH

#: Seconds for which versions stay that are no longer the newest one.
KEEP_S = 3600.0
#: Seconds after which a file of no version is taken for one that a killed update has left.
ORPHANS_S = 24 * 3600.0
#: Newest records of nodes that stay; older ones stay as long as what a killed update has left, so
#: that a program that is about to write the next one does not take a number that was used before.
KEPT_RINGS = 16


@dataclass(frozen=True)
class Removed:
    """Counts of things that a vacuum has removed."""

    versions: int
    files: int
    bytes: int


class RelationKeeper(RelationReader):
    """A relation whose files can be described, checked, and removed once nobody needs them."""

    def info(self) -> dict[str, Any]:
        """Describe the relation, for people."""
        version = self.version()
        record = version.record
        numbers = self.numbers()
        return {
            "name": self.name,
            "columns": {field.name: str(field.type) for field in self.schema},
            "key": list(self.key),
            "cluster": list(self.cluster),
            "unique": self.unique,
            "version": version.number,
            "created": version.created,
            "versions": len(numbers),
            "oldest_version": numbers[0],
            "rows": version.rows,
            "null_keys": record.null_keys,
            "pages": len(version.index),
            "page_bytes": self._record.page_bytes,
            "bytes": version.bytes,
            "index_bytes": version.index.memory_bytes,
            "deltas": len(record.deltas),
            "delta_bytes": version.bytes - record.base.bytes,
            "pins": len(Pins(self._files).numbers()),
        }

    def check(self) -> Iterator[str]:
        """Read all files; yield a line for each one that is missing or damaged.

        Of a version that is neither the newest one nor held or pinned beside the relation, only
        what it changed must be there: a vacuum may have removed the rest.
        """
        numbers = self.numbers()
        must = {*numbers[-1:], *Pins(self._files).needed()}
        needed: dict[SegmentRecord, bool] = {}
        unneeded: dict[SegmentRecord, bool] = {}
        for number in numbers:
            try:
                record = self.version_record(number)
            except FileError as error:
                yield str(error)
                continue
            if record is None:
                continue  # removed meanwhile
            for segment, removed in record.all_segments:
                is_needed = number in must or segment in record.changed_segments
                (needed if is_needed else unneeded)[segment] = removed
        for segment, removed in needed.items():
            yield from self._check(segment, removed)
        present = self._data_files()
        for segment in unneeded.keys() - needed.keys():
            if segment.is_among(present):
                yield from self._check(segment, unneeded[segment])

    def _check(self, record: SegmentRecord, removed: bool) -> Iterator[str]:
        try:
            segment = self._layout.segment(record, removed=removed)
        except FileError as error:
            yield str(error)
            return
        try:
            yield from segment.check(self.key_hash, self.key)
        finally:
            segment.close()

    def vacuum(
        self,
        *,
        keep: int = 1,
        keep_s: float = KEEP_S,
        pins: Sequence[str] = (),
        pins_s: float | None = None,
        orphans_s: float = ORPHANS_S,
    ) -> Removed:
        """Remove versions that nobody needs, and the files of these alone; old records of nodes.

        Parameters
        ----------
        keep : int
            The newest versions that stay.
        keep_s : float
            Versions stay that were the newest one within so many seconds: programs read them.
        pins : sequence of str
            Other places of pins: versions that a batch of a query reads stay.
        pins_s : float or None
            Older pins no longer count, and are removed; None: all pins count.
        orphans_s : float
            Files that a killed update has left are removed if they are older.

        Raises
        ------
        UsageError
            ``keep`` is below 1.
        FileError
        """
        if keep < 1:
            raise UsageError(f"vacuum keeps at least the newest version, not {keep}")
        places = [Pins(self._files), *(Pins(file_store(place)) for place in pins)]
        for place in places:
            place.remove_remains(orphans_s)
            if pins_s is not None:
                place.remove_older(pins_s)
        # Versions are listed before pins are: folder.pins says why.
        numbers = self.numbers()
        records = {n: r for n in numbers if (r := self.version_record(n)) is not None}
        kept = {*numbers[-keep:], *(n for place in places for n in place.needed())}
        now = time.time()
        for number, following in pairwise(numbers):
            if following in records and now - records[following].created < keep_s:
                kept.add(number)
        least = min(kept & records.keys())
        removed = [n for n in numbers if n < least]
        self.note_newest(numbers[-1])  # before what is older goes
        # The oldest first: a reader that misses its version knows that there are newer ones.
        self._files.remove(map(VERSION_NAMES.name, removed))
        for folder in ("", VERSIONS, NODES):
            self._files.remove_unfinished(folder, now - orphans_s)
        self._remove_rings(now - orphans_s)
        files = self._unneeded_files(records, kept, least, now - orphans_s)
        self._files.remove(file.name for file in files)
        if self._files.folder is not None:
            remove_older(self._files.folder, SCRATCH, OwnNames(RUNS), orphans_s)
        return Removed(len(removed), len(files), sum(file.bytes for file in files))

    def _remove_rings(self, before: float) -> None:
        listed = self._files.listed(NODES)
        rings = [one for one in listed if RING_NAMES.number(one.name) is not None]
        rings.sort()  # the oldest first, as with versions
        self._files.remove(one.name for one in rings[:-KEPT_RINGS] if one.changed < before)

    def _unneeded_files(
        self, records: Mapping[int, VersionRecord], kept: set[int], least: int, before: float
    ) -> list[Listed]:
        """Files of segments that no version needs, and older ones that no version names.

        Parameters
        ----------
        records : mapping of int to VersionRecord
        kept : set of int
            Versions that can be read.
        least : int
            Versions from this one on tell what they changed.
        before : float
            Unix time; files that are newer may belong to an update that is being written.
        """
        needed = {
            one.name
            for number, record in records.items()
            if number >= least
            for one in (record.segments if number in kept else record.changed_segments)
        }
        known = {one.name: one for record in records.values() for one, _ in record.all_segments}
        unneeded = {n for name, one in known.items() if name not in needed for n in one.files}
        our_names = self._files.own_names

        def is_unneeded(file: Listed) -> bool:
            segment = file.name.removeprefix(f"{DATA}/").lstrip(".").partition(".")[0]
            is_orphan = file.name in our_names and segment not in known and file.changed < before
            return is_orphan or file.name in unneeded

        return list(filter(is_unneeded, self._files.listed(DATA)))


def remove_older(where: Path, folders: str, names: OwnNames, age_s: float) -> None:
    """Remove folders of killed programs, where that is possible.

    Parameters
    ----------
    where : Path
        The folder in which they lie.
    folders : str
        Regular expression of their names.
    names : OwnNames
        Names of the files in them.
    age_s : float
    """
    for folder in where.glob(".*"):
        if re.fullmatch(folders, folder.name) and not folder.is_symlink():
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > age_s:
                    names.clear(folder)
