"""A relation in a folder or an object store."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from penstock.errors import FileError, SchemaError, UsageError

from ...rows.file_store import FileStore
from ..border import Relation
from .changes import Change, ChangedKeys
from .layout import RelationLayout, stored_schema
from .pins import Pins
from .records import FORMAT, RELATION, VERSIONS, RelationRecord, VersionRecord, version_name
from .segment import DATA, PageSegment, SegmentRecord
from .sorting import SCRATCH
from .sources import Rows, RowSource, source_of
from .version import FolderVersion

_log = logging.getLogger("penstock.relation")

#: What to do where files are lost.
LOST = "restore the relation from a backup, or build it anew with `penstock relation build`"
AGAIN = "try again"

#: Memory for sorting.
MEMORY_BYTES = 256 << 20
#: Share of the base's bytes that updates may have before they are merged into a new base.
COMPACT_SHARE = 0.25
#: Most updates before they are merged: each adds a read to most pages.
COMPACT_DELTAS = 16
#: Seconds for which versions stay that are no longer the newest one.
KEEP_S = 3600.0
#: Seconds after which a file of no version is taken for one that a killed update has left.
ORPHANS_S = 24 * 3600.0
#: Times that an update is tried again after another writer was faster.
_TRIES = 100


def file_store(location: str) -> FileStore:
    """The files of a relation."""
    return FileStore(location, lost=LOST, again=AGAIN)


class FolderRelation(Relation):
    """A relation in a folder.

    Parameters
    ----------
    files : FileStore

    Raises
    ------
    FileError
        There is none, it is damaged, or of another release's format.
    """

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self.name = files.root
        self._stamp = files.stamp(RELATION)
        self._record = self._read_record()
        self.id = self._record.id
        self.schema, self.key = self._record.schema, self._record.key
        self.cluster, self.unique = self._record.cluster, self._record.unique
        try:
            self._layout = RelationLayout(files, self._record, self.name, files.folder)
        except FileError as error:
            raise FileError(f"{self.name} cannot be read: {error}") from error
        self.key_hash = self._layout.key_hash
        self._newest = 0
        self._segments: WeakValueDictionary[str, PageSegment] = WeakValueDictionary()
        self._versions: WeakValueDictionary[int, FolderVersion] = WeakValueDictionary()
        self._last: FolderVersion | None = None
        self.newest()

    def _read_record(self) -> RelationRecord:
        values = self._files.get_json(RELATION)
        if values is None:
            raise FileError(
                f"there is no relation at {self.name}: {RELATION} is missing; build one with "
                "`penstock relation build`, or restore it from a backup"
            )
        if values.get("format") != FORMAT:
            raise FileError(
                f"{self.name} has format {values.get('format')}, and this release reads format "
                f"{FORMAT}; read it with the release that wrote it, or build it anew"
            )
        return RelationRecord.of(values)

    # -- versions ---------------------------------------------------------------------------------

    def newest(self) -> int:
        if self._files.stamp(RELATION) != self._stamp:
            self._check_same()
        number = self._newest
        while number and self._files.size(version_name(number + 1)) is not None:
            number += 1
        if number == self._newest and (
            not number or self._files.size(version_name(number)) is None
        ):
            # The first look, or older versions are gone and newer ones with them.
            number = max(self.numbers(), default=0)
        if not number:
            raise FileError(f"{self.name} has no version in {VERSIONS}; {LOST}")
        self._newest = number
        return number

    def numbers(self) -> list[int]:
        """Numbers of the versions that are there, ascending."""
        names = self._files.names(VERSIONS)
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def version(self, number: int | None = None) -> FolderVersion:
        if number is None:
            number = self.newest()
            try:
                return self.version(number)
            except FileError:
                if self.newest() == number:
                    raise
                return self.version(self.newest())  # removed between two looks
        found = self._versions.get(number)
        if found is None:
            found = self._open_version(number)
            self._versions[number] = found
        if number >= self._newest:
            self._last = found  # kept: it is asked for again and again
        return found

    def _open_version(self, number: int) -> FolderVersion:
        record = self.version_record(number)
        if record is None:
            raise self._gone(number)
        try:
            return self._opened(record)
        except FileError:
            if self._files.size(version_name(number)) is None:  # removed meanwhile
                raise self._gone(number) from None
            raise

    def _gone(self, number: int) -> FileError:
        return FileError(
            f"version {number} of {self.name} is gone; versions there are "
            f"{', '.join(map(str, self.numbers())) or 'none'}. Keep more with `penstock "
            "relation vacuum --keep`, or read the newest one"
        )

    def _opened(self, record: VersionRecord) -> FolderVersion:
        base = self._segment(record.base)
        deltas = [
            (
                None if delta.rows is None else self._segment(delta.rows, is_delta=True),
                None if delta.gone is None else self._segment(delta.gone, gone=True, is_delta=True),
            )
            for delta in record.deltas
        ]
        return FolderVersion(self._layout, record, base, deltas, self._changed)

    def version_record(self, number: int) -> VersionRecord | None:
        """What a version is made of; None if it is gone.

        Raises
        ------
        FileError
        """
        values = self._files.get_json(version_name(number))
        if values is None:
            return None
        record = VersionRecord.of(values)
        if record.relation != self._record.id:
            self._check_same()
            raise FileError(f"version {number} of {self.name} belongs to another relation; {LOST}")
        return record

    def _check_same(self) -> None:
        """Check that the relation is the one that was opened.

        Raises
        ------
        FileError
        """
        found = self._read_record()
        if found.id != self._record.id:
            what = "with another schema" if found.schema != self.schema else "anew"
            raise FileError(
                f"{self.name} was built {what} since it was opened; open it again, and start "
                "again what reads it"
            )

    def _segment(
        self, record: SegmentRecord, *, gone: bool = False, is_delta: bool = False
    ) -> PageSegment:
        found = self._segments.get(record.name)
        if found is None:
            found = self._segments[record.name] = self._layout.segment(
                record, gone=gone, is_delta=is_delta
            )
        return found

    def _changed(self, since: int, number: int) -> np.ndarray | None:
        """Hashes of keys that changed between two versions; None if that is not known."""
        if since > number:
            return None
        found = [np.zeros(0, np.uint64)]
        for one in range(since + 1, number + 1):
            record = self.version_record(one)
            if record is None:
                return None
            change = record.change
            if change is None:
                continue
            for segment, gone in ((change.rows, False), (change.gone, True)):
                if segment is None:
                    continue
                try:
                    opened = self._segment(segment, gone=gone)
                    found.append(opened.hashes())
                except FileError:
                    return None  # removed with the versions that needed it
        return np.unique(np.concatenate(found))

    # -- changes ----------------------------------------------------------------------------------

    def append(self, rows: Rows, *, memory_bytes: int = MEMORY_BYTES, compact: bool = True) -> int:
        """Add rows.

        Parameters
        ----------
        rows : table, stream of Arrow batches, or path of a file
        memory_bytes : int
            For sorting them.
        compact : bool
            Whether updates may be merged into a new base afterwards.

        Returns
        -------
        int
            Number of the new version; of the newest one if there are no rows.

        Raises
        ------
        SchemaError
            Columns or types are others than the relation's.
        DataError
            A key is there already, and the relation is unique.
        FileError
        """
        keys = ChangedKeys(self._layout, is_of_appended=True) if self.unique else None
        written = self._written(rows, "the appended rows", keys, memory_bytes)
        return self._change(written, keys, None, compact)

    def update(
        self,
        upserts: Rows | None = None,
        deletes: Rows | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        compact: bool = True,
    ) -> int:
        """Replace and remove rows by key.

        Parameters
        ----------
        upserts : table, stream of Arrow batches, or path of a file
            All rows of their keys: they replace those that are there.
        deletes : the same
            Keys whose rows are removed: rows, or the columns of the key.
        memory_bytes : int
            For sorting; all keys are in memory besides.
        compact : bool
            Whether updates may be merged into a new base afterwards.

        Returns
        -------
        int
            Number of the new version; of the newest one if nothing changes.

        Raises
        ------
        UsageError
            The relation has no key.
        SchemaError
            Columns or types are others than the relation's.
        DataError
            A key is NULL, or is both replaced and removed; or rows share a key, and the relation
            is unique.
        FileError
        """
        if not self.key:
            raise UsageError(
                f"{self.name} has no key by which rows could be replaced or removed; append rows, "
                "or build it anew with a key"
            )
        keys = ChangedKeys(self._layout)
        if deletes is not None:
            keys.add_deletes(self._source(deletes, "the deletes", self._layout.key_schema))
        rows = None
        if upserts is not None:
            rows = self._written(upserts, "the upserts", keys, memory_bytes)
        return self._change(rows, None, keys, compact)

    def _source(self, rows: Rows, name: str, schema: pa.Schema) -> RowSource:
        """Rows with the columns of a schema.

        Raises
        ------
        SchemaError
        """
        source = source_of(rows, name)
        stored = stored_schema(source.schema)
        for field in schema:
            number = stored.get_field_index(field.name)
            if number < 0:
                raise SchemaError(
                    f"{source.name} has no column {field.name}, which {self.name} has; it has "
                    f"{', '.join(stored.names)}"
                )
            if stored.field(number).type != field.type:
                raise SchemaError(
                    f"{source.name}.{field.name} is {stored.field(number).type}, but in "
                    f"{self.name} it is {field.type}; CAST it, or build the relation anew"
                )
        unknown = [name for name in stored.names if name not in self.schema.names]
        if unknown:
            raise SchemaError(
                f"{source.name} has a column {unknown[0]}, which {self.name} does not have; leave "
                "it out, or build the relation anew"
            )
        batches = (self._layout.conform(batch, source.name, schema) for batch in source.batches)
        return RowSource(source.name, schema, batches)

    def _written(
        self, rows: Rows, name: str, keys: ChangedKeys | None, memory_bytes: int
    ) -> SegmentRecord | None:
        """Write rows of an update; None if there are none."""
        self._files.check_put_new()
        source = self._source(rows, name, self.schema)
        hashed = (self._layout.hashed(batch) for batch in source.batches)
        if keys is not None:
            hashed = keys.noted(hashed, source.name)
        written = self._layout.write(hashed, memory_bytes)
        if not written.rows:
            self._remove([written])
            return None
        return written

    def _change(
        self,
        rows: SegmentRecord | None,
        absent: ChangedKeys | None,
        replaced: ChangedKeys | None,
        compact: bool,
    ) -> int:
        """Commit an update as the next version; again if another writer was faster."""
        committed = False
        change = Change(self._layout, rows)
        try:
            change.compare(absent, replaced)
            for _ in range(_TRIES):
                version = self.version()
                record = change.after(version)
                if record is None:
                    return version.number
                if self._commit(record):
                    committed = True
                    break
                change.forget_gone(self._remove)
            else:
                raise self._overtaken()
        finally:
            if not committed:
                self._remove(change.segments)
        if compact and self._is_scattered(record):
            try:
                return self.compact()
            except FileError as error:
                # The update is in; an error would make callers give its rows once more.
                _log.warning("%s is not compacted: %s", self.name, error)
        return record.number

    def _overtaken(self) -> FileError:
        return FileError(
            f"{self.name} cannot be changed: {_TRIES} times in a row another writer was faster; "
            "let fewer programs update it at once, and try again"
        )

    def _commit(self, record: VersionRecord) -> bool:
        """Make a version, unless there is one of its number."""
        return self._files.put_new_json(version_name(record.number), record.as_dict())

    def _remove(self, segments: Sequence[SegmentRecord]) -> None:
        """Remove segments of no version; a later vacuum finds what stays."""
        with suppress(FileError):
            self._files.remove(name for one in segments for name in (one.index, one.data))

    @staticmethod
    def _is_scattered(record: VersionRecord) -> bool:
        added = sum(one.bytes for delta in record.deltas for one in delta.segments)
        return added > COMPACT_SHARE * record.base.bytes or len(record.deltas) > COMPACT_DELTAS

    def compact(self, *, memory_bytes: int = MEMORY_BYTES) -> int:
        """Merge all updates into a new base; rows stay what they are.

        Returns
        -------
        int
            Number of the new version; of the newest one if there is nothing to merge.

        Raises
        ------
        FileError
        """
        version = self.version()
        if not version.record.deltas:
            return version.number
        merged = len(version.record.deltas)
        base = self._layout.write(self._layout.rows_of(version), memory_bytes, is_sorted=True)
        committed = False
        try:
            for _ in range(_TRIES):
                newest = self.version().record
                if newest.base != version.record.base:
                    return newest.number  # another writer has merged them
                record = replace(
                    newest,
                    number=newest.number + 1,
                    created=time.time(),
                    base=base,
                    deltas=newest.deltas[merged:],
                    change=None,
                )
                committed = self._commit(record)
                if committed:
                    return record.number
            raise self._overtaken()
        finally:
            if not committed:
                self._remove([base])

    # -- care -------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """What there is, for people."""
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
        """Read everything; give a line for each file that is gone or damaged."""
        seen: set[str] = set()
        for number in self.numbers():
            try:
                record = self.version_record(number)
            except FileError as error:
                yield str(error)
                continue
            if record is None:
                continue  # removed meanwhile
            for segment, gone in record.all_segments:
                if segment.name not in seen:
                    seen.add(segment.name)
                    yield from self._check(segment, gone)

    def _check(self, record: SegmentRecord, gone: bool) -> Iterator[str]:
        try:
            segment = self._layout.segment(record, gone=gone)
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
        """Remove versions that nobody needs, and the files of these alone.

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
            Files of no version are removed if they are older: those of a killed update.

        Raises
        ------
        UsageError
            ``keep`` is below 1.
        FileError
        """
        if keep < 1:
            raise UsageError(f"vacuum keeps at least the newest version, not {keep}")
        places = [Pins(self._files), *(Pins(file_store(place)) for place in pins)]
        if pins_s is not None:
            for place in places:
                place.remove_older(pins_s)
        numbers = self.numbers()
        records = {n: r for n in numbers if (r := self.version_record(n)) is not None}
        kept = {*numbers[-keep:], *(n for place in places for n in place.numbers())}
        now = time.time()
        for number, following in pairwise(numbers):
            if following in records and now - records[following].created < keep_s:
                kept.add(number)
        least = min(kept & records.keys())
        removed = [n for n in numbers if n < least]
        needed = {
            one.name
            for number, record in records.items()
            if number >= least
            for one in (record.segments if number in kept else record.changed_segments)
        }
        known = {one.name: one for record in records.values() for one, _ in record.all_segments}
        # The oldest first: a reader that misses its version knows that there are newer ones.
        self._files.remove(version_name(number) for number in removed)
        unneeded = [one for name, one in known.items() if name not in needed]
        there = {file.name: file for file in self._files.listed(DATA)}
        names = [n for one in unneeded for n in (one.file("pages"), one.file("index"))]
        orphans = [
            file.name
            for file in there.values()
            if file.name.lstrip(".").split(".")[0] not in known and now - file.changed > orphans_s
        ]
        gone = [there[name] for name in [*names, *orphans] if name in there]
        self._files.remove(f"{DATA}/{file.name}" for file in gone)
        if self._files.folder is not None:
            remove_older(self._files.folder.glob(f"{SCRATCH}*"), orphans_s)
        return Removed(len(removed), len(gone), sum(file.bytes for file in gone))

    def pin(self, query: str, batch: int | str, place: str | None = None) -> int:
        """The version that a batch of a query reads: the newest one at the first call.

        Several processes may ask at once, and all get the same answer, also after a restart.

        Parameters
        ----------
        query, batch : str
        place : str or None
            Where pins are; None: beside the relation.

        Raises
        ------
        FileError
        """
        pins = Pins(self._files if place is None else file_store(place))
        return pins.pin(query, str(batch), self.newest())

    def close(self) -> None:
        for segment in list(self._segments.values()):
            segment.close()


def remove_older(folders: Iterable[Path], age_s: float) -> None:
    """Remove folders of killed programs, where that is possible."""
    for folder in folders:
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > age_s:
                shutil.rmtree(folder)


@dataclass(frozen=True)
class Removed:
    """What a vacuum has removed."""

    versions: int
    files: int
    bytes: int
