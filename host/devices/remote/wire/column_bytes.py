"""Columns of a window, a task or a result as bytes, without copies where they are plain.

The kinds of columns are few and of fixed width, so the number of rows says where each column lies.
Their description is part of a message's header, and never lies in memory that others change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from penstock.errors import DeviceError
from penstock.expr.ops import MAX_BITS

from ....device.fields import Header, MalformedError, field
from ....wire.message import MOST_BODY_BYTES

#: Columns begin at multiples of so many bytes: a line of the cache.
ALIGNMENT = 64
#: Columns of one message, at most; a program's keys are tens.
MOST_COLUMNS = 4096
#: Bytes of the widest integer that a program knows, with its sign.
_MOST_INTEGER_BYTES = MAX_BITS // 8 + 1
#: Bytes of a Python integer and the pointer to it, without its digits.
_OBJECT_BYTES = 48

_BOOLEANS = "bool"
#: Kinds of fixed width by name, lowest byte first.
_PLAIN = {
    name: np.dtype(f"<{name}")
    for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
}
#: Kinds of Python integers: two's complement of so many bytes, lowest first.
_INTEGERS = {f"int{width}": width for width in range(1, _MOST_INTEGER_BYTES + 1)}
_WIDTHS = {_BOOLEANS: 1, **{name: t.itemsize for name, t in _PLAIN.items()}, **_INTEGERS}
#: Field of a header that describes columns.
BODY = "body"


@dataclass(frozen=True)
class ColumnLayout:
    """The layout of columns in memory.

    Parameters
    ----------
    rows : int
    kinds : tuple of str
        Kind of each column.
    """

    rows: int
    kinds: tuple[str, ...]

    @classmethod
    def parsed(cls, header: object) -> ColumnLayout:
        """The layout that a header describes.

        Raises
        ------
        MalformedError
        """
        if not isinstance(header, Mapping):
            raise MalformedError("columns are described by rows and kinds")
        rows, kinds = field(header, "rows", int), field(header, "kinds", list)
        if len(kinds) > MOST_COLUMNS:
            raise MalformedError(f"a message has {len(kinds)} columns, above {MOST_COLUMNS}")
        for kind in kinds:
            if not isinstance(kind, str) or kind not in _WIDTHS:
                raise MalformedError(f"a column has the kind {kind!r:.80}, which no key has")
        # Columns of no bytes do not exist, so the size bounds the rows.
        most = MOST_BODY_BYTES if kinds else 0
        if not 0 <= rows <= most:
            raise MalformedError(f"{len(kinds)} columns cannot have {rows!r:.80} rows")
        layout = cls(rows, tuple(kinds))
        if layout.size > MOST_BODY_BYTES:
            raise MalformedError(
                f"columns of {layout.size} bytes are above the {MOST_BODY_BYTES} of a message"
            )
        return layout

    def header(self) -> Header:
        """The layout as a part of a header."""
        return {"rows": self.rows, "kinds": list(self.kinds)}

    @property
    def offsets(self) -> list[int]:
        """First byte of each column, and the end of the last."""
        return [0, *accumulate(_aligned(self.rows * _WIDTHS[kind]) for kind in self.kinds)]

    @property
    def size(self) -> int:
        """Bytes of all columns."""
        return self.offsets[-1]

    @property
    def weight(self) -> int:
        """Most bytes that the columns take as arrays."""
        return self.rows * sum(
            _WIDTHS[kind] + (_OBJECT_BYTES if kind in _INTEGERS else 0) for kind in self.kinds
        )


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Packed:
    """Columns ready to leave.

    Parameters
    ----------
    layout : ColumnLayout
    parts : list of ndarray of uint8
        Bytes of each column, without padding.
    """

    layout: ColumnLayout
    parts: list[np.ndarray]

    def chunks(self) -> list[np.ndarray]:
        """All bytes in order."""
        chunks = []
        for part in self.parts:
            chunks.append(part)
            if gap := -len(part) % ALIGNMENT:
                chunks.append(_GAP[:gap])
        return chunks


_GAP = np.zeros(ALIGNMENT, np.uint8)


def pack(columns: Sequence[np.ndarray]) -> Packed:
    """Columns of one length as bytes.

    Raises
    ------
    DeviceError
        Lengths differ, a column has values that no key has, or it is too much for a message.
    """
    columns = [np.asarray(column) for column in columns]
    rows = {len(column) for column in columns}
    if len(rows) > 1:
        raise DeviceError(f"columns have the lengths {sorted(rows)}; pass arrays of one length")
    _check_size(sum(column.nbytes for column in columns))
    packed = [_pack_column(column) for column in columns]
    layout = ColumnLayout(rows.pop() if rows else 0, tuple(kind for kind, _ in packed))
    _check_size(layout.size)
    return Packed(layout, [part for _, part in packed])


def _check_size(size: int) -> None:
    if size > MOST_BODY_BYTES:
        raise DeviceError(
            f"{size} bytes are too many for one message to or from a server of devices, which "
            f"takes {MOST_BODY_BYTES}; write windows in parts, and use smaller tasks"
        )


def _pack_column(column: np.ndarray) -> tuple[str, np.ndarray]:
    if column.dtype == np.bool_:
        return _BOOLEANS, np.ascontiguousarray(column).view(np.uint8)
    name = f"{column.dtype.kind}{column.dtype.itemsize}"
    if name in _PLAIN:
        return name, np.ascontiguousarray(column, _PLAIN[name]).view(np.uint8)
    values = column.tolist()
    if not all(type(value) is int for value in values):
        raise DeviceError(
            f"a column of {column.dtype} does not travel to a server of devices; prepare integers, "
            "booleans or floats"
        )
    width = max((value.bit_length() // 8 + 1 for value in values), default=1)
    if width > _MOST_INTEGER_BYTES:
        raise DeviceError(
            f"an integer of {8 * width} bits does not travel to a server of devices; keys have at "
            f"most {MAX_BITS} bits"
        )
    text = b"".join(value.to_bytes(width, "little", signed=True) for value in values)
    return f"int{width}", np.frombuffer(text, np.uint8)


def unpack(layout: ColumnLayout, memory: np.ndarray) -> list[np.ndarray]:
    """Columns that lie in memory of :attr:`ColumnLayout.size` bytes or more.

    They are views of the memory, except booleans and Python integers.

    Parameters
    ----------
    memory : ndarray of uint8

    Raises
    ------
    MalformedError
        There are fewer bytes.
    """
    offsets = layout.offsets
    if offsets[-1] > len(memory):
        raise MalformedError(f"columns of {offsets[-1]} bytes came as {len(memory)} bytes")
    columns = []
    for kind, low in zip(layout.kinds, offsets, strict=False):
        columns.append(_unpack_column(kind, memory[low : low + layout.rows * _WIDTHS[kind]]))
    return columns


def _unpack_column(kind: str, part: np.ndarray) -> np.ndarray:
    if kind in _PLAIN:
        return part.view(_PLAIN[kind])
    if kind == _BOOLEANS:
        # Any other byte than 0 and 1 would be a boolean that equals neither.
        return part != 0
    width, text = _INTEGERS[kind], part.tobytes()
    column = np.empty(len(text) // width, object)
    for row, low in enumerate(range(0, len(text), width)):
        column[row] = int.from_bytes(text[low : low + width], "little", signed=True)
    return column


def body_of(packed: Packed | None) -> tuple[Header, Sequence[np.ndarray]]:
    """Fields of the header that describe columns, and bytes that follow the header."""
    return ({}, ()) if packed is None else ({BODY: packed.layout.header()}, packed.chunks())


def columns_of(
    header: Mapping[str, object],
    body: np.ndarray | None,
    reserve: Callable[[int], None] = lambda size: None,
) -> list[np.ndarray]:
    """The columns of a message.

    Parameters
    ----------
    header : mapping
    body : ndarray of uint8 or None
        Bytes that came behind it.
    reserve : callable
        Takes the bytes that the columns will have, before they are made.

    Raises
    ------
    MalformedError
    """
    described = header.get(BODY)
    size = 0 if body is None else len(body)
    if described is None:
        if size:
            raise MalformedError(f"a message has {size} bytes that its header does not tell of")
        return []
    layout = ColumnLayout.parsed(described)
    reserve(layout.weight)
    if size != layout.size:
        raise MalformedError(f"columns of {layout.size} bytes came as {size} bytes")
    return unpack(layout, np.zeros(0, np.uint8) if body is None else body)
