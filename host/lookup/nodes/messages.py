"""Requests to lookup nodes and their answers: hashes of keys, and the rows of these keys.

A request has the hashes behind its header. An answer has a count of rows for each of them, then an
Arrow record-batch message with the rows in that order, under one checksum. The schema is not sent:
both sides have opened the same relation.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...device.fields import Header, MalformedError, count_field, field

#: Keys of one request, at most.
MOST_KEYS = 1 << 16
#: Bytes of the header of a request: names of columns.
MOST_REQUEST_HEADER = 1 << 20
#: The purpose of a connection.
STREAM = "lookup"
_ALIGNMENT = 64
_HASH, _COUNT = np.dtype("<u8"), np.dtype("<u4")
#: Bytes of a key in a request.
HASH_BYTES = _HASH.itemsize


@dataclass(frozen=True, eq=False)
class KeyRequest:
    """Keys whose rows are wanted.

    Parameters
    ----------
    version : int
        Number of the relation's version.
    ring : int
        Number of the ring that the asker knows; 0 for none.
    columns : tuple of str
        Names of columns of the relation, at least one.
    hashes : ndarray of uint64, ascending
        Distinct.
    """

    version: int
    ring: int
    columns: tuple[str, ...]
    hashes: np.ndarray

    def part(self, places: np.ndarray | slice, ring: int) -> KeyRequest:
        """A request for some of the keys, by a process that knows this ring."""
        return KeyRequest(self.version, ring, self.columns, self.hashes[places])

    def message(self) -> tuple[Header, list[np.ndarray]]:
        """The request as a header and bytes."""
        header = {"version": self.version, "ring": self.ring, "columns": list(self.columns)}
        return header, [np.ascontiguousarray(self.hashes, _HASH).view(np.uint8)]

    @classmethod
    def parsed(cls, header: Header, body: np.ndarray | None) -> KeyRequest:
        """The request in a message.

        Raises
        ------
        MalformedError
        """
        columns = field(header, "columns", list)
        if not columns or not all(isinstance(name, str) for name in columns):
            raise MalformedError("a request names the columns that it wants, at least one")
        if body is None or len(body) % _HASH.itemsize:
            raise MalformedError("a request has hashes of 8 bytes, at least one")
        hashes = body.view(_HASH).astype(np.uint64, copy=False)
        if not (hashes[1:] > hashes[:-1]).all():
            raise MalformedError("the hashes of a request ascend, and none comes twice")
        version, ring = count_field(header, "version"), count_field(header, "ring")
        return cls(version, ring, tuple(columns), hashes)


@dataclass(frozen=True, eq=False)
class KeyRows:
    """All rows of some keys.

    Parameters
    ----------
    hashes : ndarray of uint64, ascending
        Distinct.
    counts : ndarray of int64
        Rows of each; 0 where the relation has none.
    batch : RecordBatch
        The rows, in the order of the hashes.
    """

    hashes: np.ndarray
    counts: np.ndarray
    batch: pa.RecordBatch

    def message(self, ring: int) -> tuple[Header, list[np.ndarray]]:
        """The rows as a header and bytes.

        Parameters
        ----------
        ring : int
            Number of the ring that the answering side knows.
        """
        counts = np.ascontiguousarray(self.counts, _COUNT).view(np.uint8)
        gap = np.zeros(-len(counts) % _ALIGNMENT, np.uint8)
        rows = np.frombuffer(self.batch.serialize(), np.uint8)
        parts = [counts, gap, rows]
        return {"ring": ring, "rows": self.batch.num_rows, "sum": _sum(parts)}, parts

    @classmethod
    def parsed(
        cls, header: Header, body: np.ndarray | None, request: KeyRequest, schema: pa.Schema
    ) -> KeyRows:
        """The rows in the answer to a request.

        Raises
        ------
        MalformedError
            The bytes were damaged on the way, or do not answer the request.
        """
        size = _COUNT.itemsize * len(request.hashes)
        start = size + -size % _ALIGNMENT
        if body is None or len(body) <= start:
            raise MalformedError(f"an answer for {len(request.hashes)} keys is too short")
        if count_field(header, "sum") != _sum([body]):
            raise MalformedError("an answer is not what was sent: its checksum differs")
        counts = body[:size].view(_COUNT).astype(np.int64)
        rows = count_field(header, "rows")
        wanted = pa.schema([schema.field(name) for name in request.columns])
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(body[start:]), wanted)
            batch.validate()
        except (pa.ArrowInvalid, OSError) as cause:
            raise MalformedError(f"the rows of an answer cannot be read: {cause}") from cause
        if batch.num_rows != rows or int(counts.sum()) != rows:
            raise MalformedError(
                f"an answer has {batch.num_rows} rows, where {rows} and {int(counts.sum())} are "
                "told of"
            )
        return cls(request.hashes, counts, batch)


def _sum(parts: list[np.ndarray]) -> int:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part.data, checksum)
    return checksum
