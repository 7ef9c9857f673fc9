"""Reads a relation in a folder or an object store: its versions and their rows."""

from __future__ import annotations

import logging
import time
from weakref import WeakValueDictionary

import numpy as np

from penstock.errors import FileError

from ...store.file_store import FileStore
from ..border import Relation
from .page_layout import RelationLayout
from .records import (
    FORMAT,
    NEWEST,
    RELATION,
    RELATION_NAMES,
    VERSION_NAMES,
    VERSIONS,
    RelationRecord,
    VersionRecord,
    relation_values,
)
from .segment import DATA, PageSegment, SegmentRecord
from .version import FolderVersion

_log = logging.getLogger("penstock.relation")

#: Advice for lost files, for messages.
LOST = "restore the relation from a backup, or build it anew with `penstock relation build`"
AGAIN = "try again"


def file_store(location: str) -> FileStore:
    """The files of a relation."""
    return FileStore(location, lost=LOST, again=AGAIN, own_names=RELATION_NAMES)


def note_newest(files: FileStore, relation: str, number: int) -> None:
    """Note which version of a relation is the newest, once its file is there.

    The note shows if that file is lost: without it the version before would be taken for the
    newest. A note that is missing or behind is no error, since a writer may be killed before it.

    Parameters
    ----------
    files : FileStore
    relation : str
        The relation's id.
    number : int
    """
    try:
        files.put_json(NEWEST, {"relation": relation, "version": number})
    except FileError as error:  # the version is there; an error would make callers write it again
        _log.warning("cannot note that version %d is the newest: %s", number, error)


class RelationReader(Relation):
    """A relation whose versions are read.

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
        values = relation_values(self._files)
        if values.get("format") != FORMAT:
            raise FileError(
                f"{self.name} has format {values.get('format')}, and this release reads format "
                f"{FORMAT}; read it with the release that wrote it, or build it anew"
            )
        return RelationRecord.from_dict(values)

    def newest(self) -> int:
        if self._files.stamp(RELATION) != self._stamp:
            self._check_same()
        number = VERSION_NAMES.newest(self._files, self._newest)
        noted = max(self._newest, self._noted())
        if number < noted:  # another writer may have been faster between the two looks
            number = VERSION_NAMES.newest(self._files, noted)
        if not number:
            raise FileError(f"{self.name} has no version in {VERSIONS}; {LOST}")
        if number < noted:
            raise FileError(
                f"version {noted} of {self.name}, the newest one, is gone: "
                f"{self._files.shown(VERSION_NAMES.name(noted))} is missing or no file, and the "
                f"newest that is there is {number}; {LOST}. To go on with version {number}, if the "
                f"folder was copied while it was changed, remove {NEWEST} in it"
            )
        self._newest = number
        return number

    def _noted(self) -> int:
        """Number of the version that was noted as the newest one; 0 if none was."""
        values = self._files.get_json(NEWEST)
        is_own = values is not None and values.get("relation") == self._record.id
        return values["version"] if values is not None and is_own else 0

    def note_newest(self, number: int) -> None:
        """Note that a version is the newest one, unless it is noted already."""
        if self._noted() < number:
            note_newest(self._files, self._record.id, number)

    def is_newest(self, number: int) -> bool:
        """Whether a version is the newest one: it exists, and has no successor."""
        # In this order: the oldest versions are removed first, so while this one is there, a
        # successor that is not there has not been committed yet.
        no_successor = self._files.size(VERSION_NAMES.name(number + 1)) is None
        return no_successor and self._files.size(VERSION_NAMES.name(number)) is not None

    def numbers(self) -> list[int]:
        """Numbers of the existing versions, ascending."""
        return VERSION_NAMES.numbers(self._files)

    def readable(self) -> list[int]:
        """Numbers of the versions whose files all exist, ascending.

        Of versions between kept ones, a vacuum leaves only the changes.
        """
        present = self._data_files()
        records = {n: r for n in self.numbers() if (r := self.version_record(n)) is not None}
        return [n for n, r in records.items() if all(s.is_among(present) for s in r.segments)]

    def _data_files(self) -> set[str]:
        return {file.name for file in self._files.listed(DATA)}

    def version(self, number: int | None = None) -> FolderVersion:
        if number is None:
            number = self.newest()
            try:
                return self.version(number)
            except FileError:
                if self.newest() == number:
                    raise
                return self.version(self.newest())  # removed between two looks
        opened = self._versions.get(number)
        if opened is None:
            opened = self._open_version(number)
            self._versions[number] = opened
        if number >= self._newest:
            self._last = opened  # kept: it is asked for again and again
        return opened

    def _open_version(self, number: int) -> FolderVersion:
        record = self.version_record(number)
        if record is None:
            raise self._lost_version(number)
        try:
            return self._opened(record)
        except FileError as error:
            if number < self.newest() and number not in self.readable():
                raise self._lost_version(number) from error
            raise

    def number_at(self, time_us: int) -> int:
        """Number of the version that was the newest one at an instant.

        Parameters
        ----------
        time_us : int
            Microseconds of Unix time.

        Raises
        ------
        FileError
            There was none, or it is not known, since versions of that time were removed.
        """
        times = {n: r.created for n in self.numbers() if (r := self.version_record(n)) is not None}
        # Rounded as Python's datetime does, which at * 1e6 is not.
        micros = {n: int(at) * 1_000_000 + round(at % 1 * 1e6) for n, at in times.items()}
        number = max((n for n, at in micros.items() if at <= time_us), default=0)
        following = min((n for n in times if n > number), default=None)
        if following is None or (number and following == number + 1):
            return number
        first = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(times[following]))
        missing = range(number + 1, following)
        lost = f"; versions {missing[0]} to {missing[-1]} are gone" if missing else ""
        raise FileError(
            f"{self.name} has no version of that time: version {following} was made at {first} "
            f"UTC{lost}. Versions there are {self._existing()}"
        )

    def _existing(self) -> str:
        return ", ".join(map(str, self.readable())) or "none"

    def _lost_version(self, number: int) -> FileError:
        if not 0 < number <= self.newest():
            return FileError(
                f"{self.name} has no version {number}; versions there are {self._existing()}"
            )
        return FileError(
            f"version {number} of {self.name} is gone; versions there are {self._existing()}. Keep "
            "more with `penstock relation vacuum --keep`, or read the newest one"
        )

    def _opened(self, record: VersionRecord) -> FolderVersion:
        base = self._segment(record.base)
        deltas = [
            (
                None if delta.rows is None else self._segment(delta.rows, is_delta=True),
                None
                if delta.removed is None
                else self._segment(delta.removed, removed=True, is_delta=True),
            )
            for delta in record.deltas
        ]
        return FolderVersion(self._layout, record, base, deltas, self._changed)

    def version_record(self, number: int) -> VersionRecord | None:
        """Record of a version; None if it was removed.

        Raises
        ------
        FileError
        """
        values = self._files.get_json(VERSION_NAMES.name(number))
        if values is None:
            return None
        record = VersionRecord.from_dict(values)
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
        record = self._read_record()
        if record.id != self._record.id:
            how = "with another schema" if record.schema != self.schema else "anew"
            raise FileError(
                f"{self.name} was built {how} since it was opened; open it again, and start "
                "again what reads it"
            )

    def _segment(
        self, record: SegmentRecord, *, removed: bool = False, is_delta: bool = False
    ) -> PageSegment:
        opened = self._segments.get(record.name)
        if opened is None:
            opened = self._segments[record.name] = self._layout.segment(
                record, removed=removed, is_delta=is_delta
            )
        return opened

    def _changed(self, since: int, number: int) -> np.ndarray | None:
        """Hashes of keys that changed between two versions; None if that is not known."""
        if since > number:
            return None
        hashes = [np.zeros(0, np.uint64)]
        for one in range(since + 1, number + 1):
            record = self.version_record(one)
            if record is None:
                return None
            change = record.change
            if change is None:
                continue
            for segment, removed in ((change.rows, False), (change.removed, True)):
                if segment is None:
                    continue
                try:
                    opened = self._segment(segment, removed=removed)
                    hashes.append(opened.hashes())
                except FileError:
                    return None  # removed with the versions that needed it
        return np.unique(np.concatenate(hashes))

    def close(self) -> None:
        for segment in list(self._segments.values()):
            segment.close()
