"""A relation in a folder or an object store."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

from penstock.errors import FileError, UsageError

from ...store.file_store import FileStore
from .changes import Change, ChangedKeys
from .keeping import RelationKeeper
from .pins import Pins
from .reading import file_store
from .records import VersionRecord
from .row_batches import Rows
from .segment import SegmentRecord
from .version import FolderVersion
from .writing import VersionWriter

_log = logging.getLogger("penstock.relation")

#: Memory for sorting.
MEMORY_BYTES = 256 << 20
#: Share of the base's bytes that updates may have before they are merged into a new base.
COMPACT_SHARE = 0.25
#: Most updates before they are merged: each adds a read to most pages.
COMPACT_DELTAS = 16


class FolderRelation(RelationKeeper):
    """A relation that is read, changed and kept in order.

    Parameters
    ----------
    files : FileStore

    Raises
    ------
    FileError
        There is none, it is damaged, or of another release's format.
    """

    def __init__(self, files: FileStore) -> None:
        super().__init__(files)
        self._writer = VersionWriter(self, files, self._layout)

    def append(self, rows: Rows, *, memory_bytes: int = MEMORY_BYTES, compact: bool = True) -> int:
        """Add rows.

        Parameters
        ----------
        rows : table, stream of Arrow batches, or path of a file
        memory_bytes : int
            Memory for sorting them.
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
        written = self._writer.write(rows, "the appended rows", keys, memory_bytes)
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
            Memory for sorting; all keys are in memory besides.
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
            keys.add_deletes(self._writer.source(deletes, "the deletes", self._layout.key_schema))
        rows = None
        if upserts is not None:
            rows = self._writer.write(upserts, "the upserts", keys, memory_bytes)
        return self._change(rows, None, keys, compact)

    def _change(
        self,
        rows: SegmentRecord | None,
        absent: ChangedKeys | None,
        replaced: ChangedKeys | None,
        compact: bool,
    ) -> int:
        """Commit an update, and merge updates where there are many."""
        change = Change(self._layout, rows, absent, replaced)
        with Pins(self._files).hold(self):
            record = self._writer.commit(change)
        if record is None:
            return self.newest()
        if compact and _is_scattered(record):
            try:
                return self.compact()
            except FileError as error:
                # The update is in; an error would make callers give its rows once more.
                _log.warning("%s is not compacted: %s", self.name, error)
        return record.number

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
        with Pins(self._files).hold(self) as number:
            version = self.version(number)
            if not version.record.deltas:
                return number
            base = self._layout.write(self._layout.rows_of(version), memory_bytes, is_sorted=True)
            record = self._writer.commit(_Compaction(version.record, base))
        return self.newest() if record is None else record.number

    def pin(self, query: str, batch: int | str, place: str | None = None) -> int:
        """The version that a batch of a query reads: the newest one at the first call.

        Several processes may ask at once, and all get the same answer, also after a restart. A
        vacuum that is told of the place keeps the version.

        Parameters
        ----------
        query, batch : str
        place : str or None
            Location of the pins; None: beside the relation.

        Raises
        ------
        FileError
        """
        pins = Pins(self._files if place is None else file_store(place))
        return pins.pin_newest(query, str(batch), self)


def _is_scattered(record: VersionRecord) -> bool:
    added = sum(one.bytes for delta in record.deltas for one in delta.segments)
    return added > COMPACT_SHARE * record.base.bytes or len(record.deltas) > COMPACT_DELTAS


@dataclass(frozen=True)
class _Compaction:
    """A version with its updates merged into a base; later updates stay.

    Parameters
    ----------
    merged : VersionRecord
    base : SegmentRecord
        All rows of that version.
    """

    merged: VersionRecord
    base: SegmentRecord

    @property
    def written(self) -> list[SegmentRecord]:
        return [self.base]

    def after(self, version: FolderVersion) -> VersionRecord | None:
        newest = version.record
        if newest.base != self.merged.base:
            return None  # another writer has merged them
        return replace(
            newest,
            number=newest.number + 1,
            created=time.time(),
            base=self.base,
            deltas=newest.deltas[len(self.merged.deltas) :],
            change=None,
        )
