"""Table of a worker's texts: each is kept once, and entries hold its number, the code."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.kept_code import kept

from ..keys import hashing, splitmix
from ..keys.hashing import hash_bytes
from ..keys.splitmix import SEED
from .coded import from_bytes

_ONE = np.uint64(1)
#: The hash of the empty text.
_EMPTY = np.uint64(0xE868698BA209F922)
#: Texts and bytes that a new table has room for.
_FIRST_TEXTS, _FIRST_BYTES = 1 << 6, 1 << 10


@kept(hashing, splitmix)
def _encode(starts, ends, content, valid, codes, first, table, hashes, ends_of, index):
    """Write the code of each text; new texts are added to the table.

    Stops at a row whose text may not fit into the table; returns the row and the number of texts.

    Parameters
    ----------
    starts, ends : ndarray of int64
        Of each row's text in ``content``.
    valid : ndarray of bool
        Which rows have a text; the others get code 0.
    codes : ndarray of int64
    first : int
        Row to begin with.
    table, hashes, ends_of, index : ndarray
        Of the table: bytes, hash and end of each text, and codes + 1 by hash. ``ends_of[0]`` is
        the number of texts, and the end of text ``c`` is ``ends_of[c + 1]``.
    """
    mask = np.uint64(len(index) - 1)
    count = ends_of[0]
    for row in range(first, len(codes)):
        if not valid[row]:
            codes[row] = 0
            continue
        start, end = starts[row], ends[row]
        hashed = hash_bytes(SEED, content, start, end)
        place = hashed & mask
        while True:
            held = index[np.int64(place)]
            if held == 0:
                used = ends_of[count] if count else 0
                if count >= len(hashes) or used + end - start > len(table):
                    ends_of[0] = count
                    return row, count
                for byte in range(end - start):
                    table[used + byte] = content[start + byte]
                hashes[count] = hashed
                count += 1
                ends_of[count] = used + end - start
                index[np.int64(place)] = count
                codes[row] = count - 1
                break
            code = held - 1
            if hashes[code] == hashed:
                begin = ends_of[code] if code else 0
                same = ends_of[code + 1] - begin == end - start
                if same:
                    for byte in range(end - start):
                        if table[begin + byte] != content[start + byte]:
                            same = False
                            break
                if same:
                    codes[row] = code
                    break
            place = (place + _ONE) & mask
    ends_of[0] = count
    return len(codes), count


@kept()
def _reindex(hashes, count, index):
    mask = np.uint64(len(index) - 1)
    for code in range(count):
        place = hashes[code] & mask
        while index[np.int64(place)] != 0:
            place = (place + _ONE) & mask
        index[np.int64(place)] = code + 1


class Texts:
    """Texts by code; the table only grows, and code 0 is the empty text.

    Text and bytes are alike here: only the column says how to read them.
    """

    def __init__(self) -> None:
        self._content = np.zeros(_FIRST_BYTES, np.uint8)
        self._hashes = np.zeros(_FIRST_TEXTS, np.uint64)
        self._ends = np.zeros(_FIRST_TEXTS + 1, np.int64)
        self._index = np.zeros(2 * _FIRST_TEXTS, np.int64)
        # Code 0 is there from the start: entries have it where they have no text. It is entered by
        # hand, since most queries have no other text, for which nothing need be compiled.
        self._ends[0], self._hashes[0] = 1, _EMPTY
        self._index[int(_EMPTY) % len(self._index)] = 1

    def __len__(self) -> int:
        return int(self._ends[0])

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self._content, self._hashes, self._ends, self._index))

    @property
    def content_bytes(self) -> int:
        """Bytes of all texts."""
        count = len(self)
        return int(self._ends[count]) if count else 0

    @property
    def hashes(self) -> np.ndarray:
        """Hash of each text, uint64; longer than the table."""
        return self._hashes

    def encode(self, array: pa.Array) -> np.ndarray:
        """Return the code of each value of a column of text or bytes, int64; 0 where NULL."""
        if pa.types.is_dictionary(array.type):
            codes = self.encode(array.dictionary)
            if not len(codes):
                return np.zeros(len(array), np.int64)
            index = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
            if not array.null_count:
                return codes[index]
            return np.where(array.is_valid().to_numpy(zero_copy_only=False), codes[index], 0)
        offsets, content = offsets_of(array)
        valid = np.ones(len(array), bool)
        if array.null_count:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
        return self.encode_parts(offsets[:-1], offsets[1:], content, valid)

    def encode_parts(
        self, starts: np.ndarray, ends: np.ndarray, content: np.ndarray, valid: np.ndarray
    ) -> np.ndarray:
        """Return the code of each text in a buffer, int64.

        Parameters
        ----------
        starts, ends : ndarray of int64, shape (n,)
        content : ndarray of uint8
        valid : ndarray of bool, shape (n,)
        """
        codes, row = np.empty(len(starts), np.int64), 0
        # To Numba a read-only array, as Arrow's are, has a type of its own.
        content = content.view()
        content.flags.writeable = False
        valid = np.array(valid)
        while True:
            row, count = _encode(
                starts, ends, content, valid, codes, row, self._content, self._hashes,
                self._ends, self._index,
            )  # fmt: skip
            if row == len(codes):
                return codes
            self._grow(count, int(ends[row] - starts[row]))

    def parts(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ends (int64) and bytes (uint8) of the texts with these codes, concatenated."""
        ends = self._ends[1 : len(self) + 1]
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        lengths = (ends - starts)[codes]
        target = np.cumsum(lengths)
        total = int(target[-1]) if len(codes) else 0
        place = np.arange(total) - np.repeat(target - lengths, lengths)
        return target, self._content[np.repeat(starts[codes], lengths) + place]

    def bytes_of(self, codes: np.ndarray) -> int:
        """Return the bytes that the texts with these codes take."""
        return int(np.diff(self._ends[1 : len(self) + 1], prepend=0)[codes].sum())

    def only(self, codes: np.ndarray) -> Texts:
        """Return a table of the texts with these codes, 0 among them, which become 0, 1, ..."""
        table, (ends, content) = Texts(), self.parts(codes)
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        table.encode_parts(starts, ends, content, np.ones(len(codes), bool))
        return table

    def array(self, codes: np.ndarray, valid: np.ndarray | None, dtype: pa.DataType) -> pa.Array:
        """Return the texts of codes as a column, NULL where not valid."""
        used, index = np.unique(codes if valid is None else codes[valid], return_inverse=True)
        rows = np.zeros(len(codes), np.int64)
        rows[slice(None) if valid is None else valid] = index
        mask = None if valid is None else ~valid
        return self.values(used, dtype).take(pa.array(rows, mask=mask))

    def values(self, codes: np.ndarray, dtype: pa.DataType) -> pa.Array:
        """Return the texts of codes as a column of a type of text or bytes."""
        ends, content = self.parts(codes)
        offsets = pa.py_buffer(np.concatenate([np.zeros(1, np.int64), ends]))
        is_text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
        large = pa.large_string() if is_text else pa.large_binary()
        column = pa.Array.from_buffers(large, len(codes), [None, offsets, pa.py_buffer(content)])
        return from_bytes(column, dtype)

    def _grow(self, count: int, needed: int) -> None:
        """Double the room for texts or bytes that has run out; ``needed`` bytes fit at least."""
        used = self.content_bytes
        if used + needed > len(self._content):
            grown = np.zeros(max(2 * len(self._content), used + needed), np.uint8)
            grown[:used] = self._content[:used]
            self._content = grown
        if count >= len(self._hashes):
            self._hashes = np.concatenate([self._hashes, np.zeros_like(self._hashes)])
            ends = np.zeros(len(self._hashes) + 1, np.int64)
            ends[: len(self._ends)] = self._ends
            self._ends = ends
            self._index = np.zeros(2 * len(self._hashes), np.int64)
            _reindex(self._hashes, count, self._index)


def offsets_of(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets (int64, one more than values) and bytes of a column of text or bytes."""
    dtype = array.type
    if not (
        pa.types.is_string(dtype)
        or pa.types.is_large_string(dtype)
        or pa.types.is_binary(dtype)
        or pa.types.is_large_binary(dtype)
    ):
        array = array.cast(pa.large_binary())
        dtype = array.type
    wide = pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype)
    _, held, data = array.buffers()
    if held is None:
        return np.zeros(len(array) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(held, np.int64 if wide else np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    if data is None:
        return offsets, np.zeros(0, np.uint8)
    return offsets, np.frombuffer(data, np.uint8)
