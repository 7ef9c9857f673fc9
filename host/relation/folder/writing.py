"""Writing versions of a relation: the rows of a change, and the version that follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from penstock.errors import FileError, SchemaError

from ...store.file_store import FileStore
from ...store.numbered import put_once
from .changes import ChangedKeys
from .page_layout import RelationLayout, stored_schema
from .reading import RelationReader, note_newest
from .records import VERSION_NAMES, VersionRecord
from .row_batches import Rows, RowSource, source_of
from .segment import SegmentRecord
from .version import FolderVersion

#: Times that a change is tried again after another writer was faster.
_TRIES = 100


class NextVersion(Protocol):
    """A change that makes a version of whatever version is the newest."""

    @property
    def written(self) -> Sequence[SegmentRecord]:
        """Segments written so far."""
        ...

    def after(self, version: FolderVersion) -> VersionRecord | None:
        """The version that follows; None if nothing changes."""
        ...


class VersionWriter:
    """Writes the rows of changes, and commits versions.

    Parameters
    ----------
    relation : RelationReader
    files : FileStore
    layout : RelationLayout
    """

    def __init__(self, relation: RelationReader, files: FileStore, layout: RelationLayout) -> None:
        self._relation, self._files, self._layout = relation, files, layout

    def source(self, rows: Rows, name: str, schema: pa.Schema) -> RowSource:
        """Rows with the columns of a schema.

        Raises
        ------
        SchemaError
        """
        source = source_of(rows, name)
        relation = self._relation
        stored = stored_schema(source.schema)
        for field in schema:
            if field.name not in stored.names:
                raise SchemaError(
                    f"{source.name} has no column {field.name}, which {relation.name} has; it has "
                    f"{', '.join(stored.names)}"
                )
        unknown = [name for name in stored.names if name not in relation.schema.names]
        if unknown:
            raise SchemaError(
                f"{source.name} has a column {unknown[0]}, which {relation.name} does not have; "
                "leave it out, or build the relation anew"
            )
        batches = (self._layout.conform(batch, source.name, schema) for batch in source.batches)
        return RowSource(source.name, schema, batches)

    def write(
        self, rows: Rows, name: str, keys: ChangedKeys | None, memory_bytes: int
    ) -> SegmentRecord | None:
        """Write rows of an update; None if there are none.

        Raises
        ------
        SchemaError, DataError, FileError
        """
        self._files.check_put_new()
        source = self.source(rows, name, self._relation.schema)
        hashed = (self._layout.hashed(batch) for batch in source.batches)
        if keys is not None:
            hashed = keys.noted(hashed, source.name)
        written = self._layout.write(hashed, memory_bytes)
        if not written.rows:
            self.remove([written])
            return None
        return written

    def commit(self, change: NextVersion) -> VersionRecord | None:
        """Make the next version; again if another writer was faster. None if nothing changes.

        Segments of the change are removed, unless the version needs them.

        Raises
        ------
        DataError
            The change does not fit the newest version.
        FileError
        """
        needed: Sequence[SegmentRecord] = ()
        try:
            for _ in range(_TRIES):
                record = change.after(self._relation.version())
                if record is None:
                    return None
                try:
                    name = VERSION_NAMES.name(record.number)
                    is_made = put_once(self._files, name, record.as_dict())
                except BaseException:
                    if self._may_be_there(record.number):
                        needed = record.segments
                    raise
                if is_made:
                    needed = record.segments
                    note_newest(self._files, record.relation, record.number)
                    return record
        finally:
            self.remove(one for one in change.written if one not in needed)
        raise FileError(
            f"{self._relation.name} cannot be changed: {_TRIES} times in a row another writer was "
            "faster; let fewer programs update it at once, and try again"
        )

    def _may_be_there(self, number: int) -> bool:
        """Whether a version may be there, now or later, though writing it has failed."""
        is_folder = self._files.folder is not None
        return not is_folder or self._files.size(VERSION_NAMES.name(number)) is not None

    def remove(self, segments: Iterable[SegmentRecord]) -> None:
        """Remove segments of no version; a later vacuum finds files that stay."""
        self._files.discard(name for one in segments for name in one.files)
