"""Building a relation in parts, which several processes write.

Each part has a range of hashes, or of places on the curve of a cluster. A process sorts the rows of
its part and writes them as a segment. At the end the segments' bytes are joined into one, page by
page as they are.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.errors import FileError

from ...store.file_store import FileStore
from .build import RelationOptions, commit, new_place, new_record
from .folder_relation import MEMORY_BYTES, FolderRelation
from .page_layout import RelationLayout
from .reading import file_store
from .records import VERSIONS, RelationRecord
from .segment import DATA, READ_BYTES, SegmentRecord, index_names
from .zorder import ClusterSample, places


@dataclass(frozen=True)
class PartsBuild:
    """A relation that is being built; travels to the processes that write its parts.

    Parameters
    ----------
    location : str
        Location to which files are written.
    name : str
        Name of the relation in messages.
    record : RelationRecord
    parts : int
    bounds : tuple of int
        Of a clustered relation: first place on the curve of each part but the first.
    """

    location: str
    name: str
    record: RelationRecord
    parts: int
    bounds: tuple[int, ...] = ()

    def _layout(self) -> RelationLayout:
        # Rows are sorted on a disk of the process's own machine.
        return RelationLayout(file_store(self.location), self.record, self.name, None)

    def part_of(self, rows: pa.RecordBatch) -> np.ndarray:
        """The part of each row; int32.

        Parameters
        ----------
        rows : RecordBatch
            Rows of the record's schema.
        """
        layout = self._layout()
        if not layout.by_hash:
            order = places(rows, self.record.splits)
            return np.searchsorted(np.array(self.bounds, np.uint64), order, "right").astype(
                np.int32
            )
        # Rows without a key have the greatest hash: they are in the last part. The first 32 bits
        # times a number of parts fit into 64.
        hashes = layout.key_hash.of_rows(rows, self.record.key, self.name)
        scaled = (hashes >> np.uint64(32)) * np.uint64(self.parts)
        return (scaled >> np.uint64(32)).astype(np.int32)

    def write(
        self, batches: Iterable[pa.RecordBatch], memory_bytes: int = MEMORY_BYTES
    ) -> SegmentRecord:
        """Write the rows of a part.

        Parameters
        ----------
        batches : iterable of RecordBatch
            Rows of the record's schema, in any order.
        memory_bytes : int
            Memory for sorting.

        Raises
        ------
        FileError
        DataError
            Rows share a key, and the relation is unique.
        """
        layout, schema = self._layout(), self.record.schema
        conform = (layout.conform(batch, "the table", schema) for batch in batches)
        return layout.write((layout.hashed(batch) for batch in conform), memory_bytes)

    def join(self, written: Sequence[SegmentRecord], files: FileStore) -> SegmentRecord:
        """Join the segments of all parts, in their order, into one.

        Raises
        ------
        FileError
        """
        try:
            return self._joined(written, files)
        finally:
            # What stays is removed by a later vacuum.
            files.discard(name for one in written for name in one.files)

    def _joined(self, written: Sequence[SegmentRecord], files: FileStore) -> SegmentRecord:
        layout = self._layout()
        names = index_names(layout.page_schema)
        indexes = [files.columns(one.index, one.checksum, names).select(names) for one in written]
        # A segment without a row of a key begins with an empty page. One is enough.
        empty = [index["rows"][0].as_py() == 0 for index in indexes]
        if all(empty):
            empty[0] = False
        name = uuid.uuid4().hex
        with files.writing(f"{DATA}/{name}.pages") as out:
            for one, index, skipped in zip(written, indexes, empty, strict=True):
                start = index["bytes"][0].as_py() if skipped else 0
                for piece in _pieces(files, one, start):
                    out.write(piece)
        index = pa.concat_tables(
            index.slice(int(skipped)) for index, skipped in zip(indexes, empty, strict=True)
        ).combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, index.schema) as writer:
            writer.write_table(index)
        stored = files.put(f"{DATA}/{name}.index", sink.getvalue())
        return SegmentRecord(
            name=name,
            checksum=stored.checksum,
            rows=sum(one.rows for one in written),
            pages=index.num_rows,
            bytes=int(index["bytes"].to_numpy().sum()),
            key_pages=sum(one.key_pages for one in written) - (sum(empty) if layout.by_hash else 0),
            null_keys=sum(one.null_keys for one in written),
        )


def _pieces(files: FileStore, record: SegmentRecord, start: int) -> Iterator[memoryview]:
    reader = files.ranges(record.data)
    held = np.empty(READ_BYTES, np.uint8).data
    try:
        while start < record.bytes:
            count = reader.read_into(held[: min(READ_BYTES, record.bytes - start)], start)
            if not count:
                raise FileError(
                    f"{files.shown(record.data)} is truncated: it ends at byte {start:,}; build "
                    "the relation again"
                )
            yield held[:count]
            start += count
    finally:
        reader.close()


def _bounds(
    sample: Sequence[pa.RecordBatch], record: RelationRecord, parts: int
) -> tuple[int, ...]:
    """Places between which there are about equally many rows."""
    by_batch = [places(batch, record.splits) for batch in sample]
    order = np.sort(np.concatenate([np.zeros(0, np.uint64), *by_batch]))
    return tuple(int(order[k * len(order) // parts]) for k in range(1, parts)) if len(order) else ()


def build_in_parts(
    schema: pa.Schema,
    location: str,
    options: RelationOptions,
    parts: int,
    write: Callable[[PartsBuild], Sequence[SegmentRecord]],
    sample: Iterable[pa.RecordBatch] = (),
) -> FolderRelation:
    """Store rows as a new relation, with the help of other processes.

    Parameters
    ----------
    schema : Schema
    location : str
        A path that does not exist, or a URI of an object store.
    options : RelationOptions
    parts : int
    write : callable
        Has each part written by :meth:`PartsBuild.write`; returns what that gives, in the order of
        the parts.
    sample : iterable of RecordBatch
        Some rows, with the columns of the cluster.

    Raises
    ------
    FileError
        There is something at the location, or it cannot be written.
    SchemaError
        Rows of this schema cannot be stored with these options.
    """
    final = file_store(location)
    record = new_record(schema, options, "the table")
    bounds: tuple[int, ...] = ()
    if record.cluster:
        rows = list(sample)
        chosen = ClusterSample(record.cluster)
        for batch in rows:
            chosen.add(batch)
        record = replace(record, splits=chosen.splits())
        bounds = _bounds(rows, record, parts)
    with new_place(location) as files:
        files.make([DATA, VERSIONS])
        written_at = location if files.folder is None else str(files.folder)
        build = PartsBuild(written_at, final.root, record, parts, bounds)
        commit(files, record, build.join(write(build), files), final)
    return FolderRelation(final)
