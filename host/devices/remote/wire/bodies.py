"""Places the columns of a connection's calls in its messages, or in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....device.fields import Header, MalformedError
from .columns import ColumnLayout, Packed, unpack
from .segment import Segment

#: Field of a header that describes columns.
BODY = "body"
#: Field of that description: whether they lie in the segment.
SHARED = "shared"


class Bodies:
    """Packs outgoing and unpacks incoming columns of one connection.

    Each direction has its own segment, if any; one call at a time uses them.
    """

    def __init__(self) -> None:
        self.leaving: Segment | None = None
        self.arriving: Segment | None = None

    def pack(self, packed: Packed | None) -> tuple[Header, Sequence[np.ndarray]]:
        """Fields of the header that describe columns, and bytes that follow the header."""
        if packed is None:
            return {}, ()
        described = packed.layout.header()
        if self.leaving is None or packed.layout.size > self.leaving.size:
            return {BODY: described}, packed.chunks()
        packed.write(self.leaving.memory)
        return {BODY: {**described, SHARED: True}}, ()

    def unpack(
        self,
        header: Mapping[str, object],
        body: np.ndarray | None,
        reserve: Callable[[int], None] = lambda size: None,
    ) -> list[np.ndarray]:
        """The columns of a message, which nobody else changes.

        Parameters
        ----------
        body : ndarray of uint8 or None
            Bytes that came with the message.
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
        shared = isinstance(described, Mapping) and described.get(SHARED)
        if not shared:
            if size != layout.size:
                raise MalformedError(f"columns of {layout.size} bytes came as {size} bytes")
            return unpack(layout, np.zeros(0, np.uint8) if body is None else body)
        segment = self.arriving
        if size or segment is None or layout.size > segment.size:
            raise MalformedError(
                f"columns of {layout.size} bytes in shared memory that is not there"
            )
        # The other side can write there at any time, so values are copied before they are read.
        return [np.array(column) for column in unpack(layout, segment.memory)]

    def close(self) -> None:
        """Release the shared memory."""
        for segment in (self.leaving, self.arriving):
            if segment is not None:
                segment.close()
        self.leaving = self.arriving = None
