"""Columns of a message: their description in its header, and the bytes behind the header."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....device.fields import Header, MalformedError
from .column_bytes import ColumnLayout, Packed, unpack

#: Field of a header that describes columns.
BODY = "body"


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
