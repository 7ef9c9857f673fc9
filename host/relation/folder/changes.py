"""Updates: rows that they add, and keys whose rows they remove, applied to a version."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.errors import DataError

from .keys import key_codes, keys_within, shown_key
from .page_layout import RelationLayout
from .records import Delta, VersionRecord
from .row_batches import RowSource
from .segment import READ_BYTES, SegmentRecord, stretches
from .version import FolderVersion


class ChangedKeys:
    """Keys of an update, in memory.

    Parameters
    ----------
    layout : RelationLayout
    is_of_appended : bool
        Whether they are of appended rows, which may have no key.
    """

    def __init__(self, layout: RelationLayout, *, is_of_appended: bool = False) -> None:
        self._layout = layout
        self.is_of_appended = is_of_appended
        self._upserts: list[pa.RecordBatch] = []
        self._deletes: list[pa.RecordBatch] = []

    def add_deletes(self, source: RowSource) -> None:
        """Add keys whose rows are removed.

        Raises
        ------
        DataError
            One is NULL.
        """
        for batch in source.batches:
            self._check_known(batch, source.name)
            self._deletes.append(self._layout.hashed(batch))

    def noted(self, batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
        """Pass rows on, and keep their keys.

        Raises
        ------
        DataError
            A key is NULL, and the rows are not appended.
        """
        for batch in batches:
            keys = batch.select(self._layout.removed_schema.names)
            if not self.is_of_appended:
                self._check_known(batch, where)
            elif (missing := self._layout.without_key(batch)) is not None:
                keys = keys.filter(pa.array(~missing))
            self._upserts.append(keys)
            yield batch

    def _check_known(self, batch: pa.RecordBatch, where: str) -> None:
        missing = self._layout.without_key(batch)
        if missing is not None:
            key = ", ".join(self._layout.record.key)
            row = int(np.argmax(missing))
            shown = [name for name in batch.schema.names if name[0] != "\0"]
            values = batch.select(shown).slice(row, 1).to_pylist()[0]
            raise DataError(
                f"{where}: a row has NULL in its key ({key}): {values}; rows without a key can "
                "be appended, but not be replaced or removed"
            )

    @cached_property
    def sorted(self) -> pa.RecordBatch:
        """All keys, each once, by hash.

        Raises
        ------
        DataError
            A key is both replaced and removed.
        """
        schema = self._layout.removed_schema
        upserts, deletes = (
            pa.Table.from_batches([b.cast(schema) for b in batches], schema)
            .combine_chunks()
            .to_batches()
            or [pa.RecordBatch.from_pylist([], schema)]
            for batches in (self._upserts, self._deletes)
        )
        upserts, deletes = upserts[0], deletes[0]
        if upserts.num_rows and deletes.num_rows:
            twice = keys_within(upserts.columns[1:], deletes.columns[1:])
            if twice.any():
                names = self._layout.record.key
                key = shown_key(names, upserts.columns[1:], int(np.argmax(twice)))
                raise DataError(
                    f"the key {key} is both replaced and removed by one update; leave out one, or "
                    "make two updates"
                )
        keys = pa.concat_batches([upserts, deletes])
        if not keys.num_rows:
            return keys
        _, once = np.unique(key_codes(keys.columns[1:]), return_index=True)
        keys = keys.take(pa.array(once))
        return keys.take(pa.array(np.argsort(keys.column(0).to_numpy(), kind="stable")))


class Change:
    """An update, to be applied to whatever version is the newest.

    Parameters
    ----------
    layout : RelationLayout
    rows : SegmentRecord or None
        Rows that are added.
    absent : ChangedKeys or None
        Keys that must not be there.
    replaced : ChangedKeys or None
        Keys whose rows are removed.
    """

    def __init__(
        self,
        layout: RelationLayout,
        rows: SegmentRecord | None,
        absent: ChangedKeys | None,
        replaced: ChangedKeys | None,
    ) -> None:
        self._layout = layout
        self._rows = rows
        #: Segments written so far, also for versions that another writer was faster with.
        self.written = [] if rows is None else [rows]
        self._absent, self._replaced = absent, replaced

    def after(self, version: FolderVersion) -> VersionRecord | None:
        """The version that follows; None if nothing changes.

        Raises
        ------
        DataError
            A key is there that must not be, or is both replaced and removed.
        FileError
        """
        if self._absent is not None:
            is_present, _ = keys_present(version, self._layout, self._absent.sorted)
            if is_present.any():
                key = self._layout.record.key
                columns = self._absent.sorted.columns[1:]
                raise DataError(
                    f"{self._layout.name} is unique and has a row with the key "
                    f"{shown_key(key, columns, int(np.argmax(is_present)))} already; give it as an "
                    "upsert, or leave it out"
                )
        taken_rows, removed = 0, None
        if self._replaced is not None:
            keys = self._replaced.sorted
            is_present, taken_rows = keys_present(version, self._layout, keys)
            if is_present.any():
                removed = self._layout.write_removed(keys.filter(pa.array(is_present)))
                self.written.append(removed)
        if self._rows is None and removed is None:
            return None
        delta = Delta(self._rows, removed)
        added, keyless = (0, 0) if self._rows is None else (self._rows.rows, self._rows.null_keys)
        before = version.record
        return replace(
            before,
            number=before.number + 1,
            created=time.time(),
            rows=before.rows - taken_rows + added,
            null_keys=before.null_keys + keyless,
            deltas=(*before.deltas, delta),
            change=delta,
        )


def keys_present(
    version: FolderVersion, layout: RelationLayout, keys: pa.RecordBatch
) -> tuple[np.ndarray, int]:
    """Whether a version has each key, and the number of its rows with one of the keys.

    Parameters
    ----------
    keys : RecordBatch
        Of ``removed_schema``, each key once, by hash.

    Raises
    ------
    FileError
    """
    is_present, rows = np.zeros(keys.num_rows, bool), 0
    hashes = keys.column(0).to_numpy()
    for pages in _pages_of(version, layout, hashes):
        read = version.read(pages, layout.record.key)
        place = np.minimum(np.searchsorted(hashes, read.hashes), len(hashes) - 1)
        near = hashes[place] == read.hashes
        for column in read.batch.columns:
            near &= column.is_valid().to_numpy(zero_copy_only=False)
        candidates = read.batch.filter(pa.array(near))
        if not candidates.num_rows:
            continue
        near_keys = np.flatnonzero(np.isin(hashes, read.hashes[near]))
        key_columns = keys.take(pa.array(near_keys)).columns[1:]
        rows += int(keys_within(candidates.columns, key_columns).sum())
        is_present[near_keys] |= keys_within(key_columns, candidates.columns)
    return is_present, rows


def _pages_of(
    version: FolderVersion, layout: RelationLayout, hashes: np.ndarray
) -> Iterator[np.ndarray]:
    """The pages that may have some keys, as many at a time as are read at once."""
    if not len(hashes):
        return
    pages = np.arange(len(version.index))
    if layout.by_hash:
        pages = np.unique(version.index.page_of(hashes))
    for some in stretches(version.index.bytes[pages], READ_BYTES):
        yield pages[some]
