"""Building a relation: nothing opens before it is whole."""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import gettempdir

import pyarrow as pa

from penstock.errors import FileError, UsageError

from ...store.atomic import flush
from ...store.file_store import FileStore, Sink, explained
from ...store.numbered import put_once
from ...store.own_names import UUID
from ..key_hash import KeyHash
from .folder_relation import MEMORY_BYTES, FolderRelation
from .keeping import ORPHANS_S, remove_older
from .page_layout import RelationLayout, checked_schema, with_splits
from .reading import AGAIN, LOST, file_store, note_newest
from .records import (
    RELATION,
    RELATION_NAMES,
    VERSION_NAMES,
    VERSIONS,
    RelationRecord,
    VersionRecord,
)
from .row_batches import Rows, source_of
from .segment import DATA, SegmentRecord
from .sorting import scratch

#: Block of an operating system's file cache: a shorter read takes hardly less time, a longer one
#: has more rows that nobody wants.
PAGE_BYTES = 4 << 10
#: Suffix of the hidden name of a relation while it is built.
_PARTIAL = ".partial"
#: Bounds of the pages' bytes; rows that are longer have longer pages.
_LEAST_PAGE, _MOST_PAGE = 256, 16 << 20


@dataclass(frozen=True, kw_only=True)
class RelationOptions:
    """How a relation is stored.

    Parameters
    ----------
    key : tuple of str
        Columns by which its rows are found, replaced and removed.
    cluster : tuple of str
        Columns by which pages are apart, where queries compare them otherwise than by ``=``; then
        pages are not found by key.
    unique : bool
        Whether several rows with one key are an error.
    page_bytes : int
    hash : str
        See :class:`~..key_hash.KeyHash`.
    """

    key: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    unique: bool = False
    page_bytes: int = PAGE_BYTES
    hash: str = KeyHash().name

    def __post_init__(self) -> None:
        if not self.key and not self.cluster:
            raise UsageError(
                "a relation needs a key, by which rows are found, or columns to cluster by: give "
                "--key or --cluster, key or cluster in Python"
            )
        for use, columns in (("key", self.key), ("cluster", self.cluster)):
            twice = next((name for name in columns if columns.count(name) > 1), None)
            if twice is not None:
                raise UsageError(f"{use} names {twice} twice")
        if self.unique and (self.cluster or not self.key):
            raise UsageError(
                "unique is for relations that are ordered by key; leave out cluster, or unique"
            )
        if not _LEAST_PAGE <= self.page_bytes <= _MOST_PAGE:
            raise UsageError(
                f"page_bytes must be from {_LEAST_PAGE} to {_MOST_PAGE:,}, not {self.page_bytes:,}"
            )


def build(
    rows: Rows,
    location: str,
    options: RelationOptions,
    *,
    memory_bytes: int = MEMORY_BYTES,
) -> FolderRelation:
    """Store rows as a new relation.

    Parameters
    ----------
    rows : table, stream of Arrow batches, or path of a file
    location : str
        A path that does not exist, or a URI of an object store.
    options : RelationOptions
    memory_bytes : int
        About what sorting uses.

    Raises
    ------
    FileError
        There is something at the location, or it cannot be written.
    SchemaError, DataError
        The rows cannot be stored with these options.
    """
    source = source_of(rows)
    record = new_record(source.schema, options, source.name)
    schema = record.schema
    final = file_store(location)
    with new_place(location) as files:
        files.make([DATA, VERSIONS])
        layout = RelationLayout(files, record, final.root, files.folder)
        batches = (layout.conform(batch, source.name, schema) for batch in source.batches)
        with scratch(files.folder or gettempdir()) as folder:
            if record.cluster:
                record, batches = with_splits(record, batches, folder)
                layout = RelationLayout(files, record, final.root, files.folder)
            base = layout.write((layout.hashed(batch) for batch in batches), memory_bytes)
        commit(files, record, base, final)
    return FolderRelation(final)


def new_record(schema: pa.Schema, options: RelationOptions, where: str) -> RelationRecord:
    """Make the unchanging record of a new relation, without the splits of its cluster.

    Raises
    ------
    SchemaError
        Rows of this schema cannot be stored with these options.
    """
    return RelationRecord(
        id=uuid.uuid4().hex,
        schema=checked_schema(schema, options.key, options.cluster, where),
        key=options.key,
        cluster=options.cluster,
        unique=options.unique,
        page_bytes=options.page_bytes,
        hash=options.hash,
        splits={},
    )


def commit(files: FileStore, record: RelationRecord, base: SegmentRecord, final: FileStore) -> None:
    """Write the records that make a segment the first version of a relation.

    Raises
    ------
    FileError
        Another relation has been built there meanwhile, or it cannot be written.
    """
    if not put_once(files, RELATION, record.as_dict()):
        raise name_taken(final)
    version = VersionRecord(
        relation=record.id,
        number=1,
        created=time.time(),
        rows=base.rows,
        null_keys=base.null_keys,
        base=base,
        deltas=(),
        change=None,
    )
    if not put_once(files, VERSION_NAMES.name(1), version.as_dict()):
        raise name_taken(final)
    note_newest(files, record.id, 1)


@contextmanager
def new_place(location: str) -> Iterator[FileStore]:
    """Files that become a relation at the end of the ``with`` block, or are removed if it fails.

    A folder has a hidden name until then. Objects have their names at once; what makes them a
    relation is written last.

    Raises
    ------
    FileError
        There is something at the location, or it cannot be written.
    """
    final = file_store(location)
    folder = final.folder
    if folder is None:
        final.check_put_new()
        if final.get(RELATION) is not None:
            raise name_taken(final)
        objects = _NewObjects(location)
        try:
            yield objects
        except BaseException:
            objects.remove_all()
            raise
        return
    if folder.exists():
        raise name_taken(final)
    if not folder.parent.is_dir():
        raise FileError(f"cannot make {folder}: there is no folder {folder.parent}")
    left = rf"\.{re.escape(folder.name)}\.{UUID}{re.escape(_PARTIAL)}"
    remove_older(folder.parent, left, RELATION_NAMES, ORPHANS_S)
    partial = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{_PARTIAL}")
    try:
        yield file_store(str(partial))
        with explained(str(folder), AGAIN):
            try:
                os.rename(partial, folder)
            except OSError as error:
                if folder.exists():
                    raise name_taken(final) from error
                raise
        flush(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class _NewObjects(FileStore):
    """Objects of a relation that is being built, which remember what they have written."""

    def __init__(self, location: str) -> None:
        super().__init__(location, lost=LOST, again=AGAIN, own_names=RELATION_NAMES)
        self._written: list[str] = []

    def put_new(self, name: str, content: bytes) -> bool:
        is_written = super().put_new(name, content)
        if is_written:  # otherwise it is another program's
            self._written.append(name)
        return is_written

    @contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        self._written.append(name)
        with super().writing(name) as sink:
            yield sink

    def remove_all(self) -> None:
        """Remove the written files, the last one first; failures are ignored."""
        self.discard(reversed(self._written))


def name_taken(final: FileStore) -> FileError:
    return FileError(
        f"{final.root} exists; update it with `penstock relation update`, remove it, or choose "
        "another name"
    )
