"""Where the bodies of a stream of calls lie: in its messages, or in shared memory."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.host.wire.columns import decoded, encoded, encoded_size, write_to
from penstock.host.wire.message import Header, MalformedError
from penstock.host.wire.segment import Segment

#: Field of a header that says how many bytes of the segment are the body.
SHARED = "shared"


class Bodies:
    """Packs what leaves and unpacks what arrives on one stream of calls.

    Each direction has its own segment, if any; one call at a time uses them.
    """

    def __init__(self) -> None:
        self.leaving: Segment | None = None
        self.arriving: Segment | None = None
        #: Bytes of the last body that left.
        self.size = 0

    def pack(self, batch: pa.RecordBatch | None) -> tuple[Header, pa.Buffer | None]:
        """What a header says of a body, and the body if it goes with the message."""
        if batch is None:
            return {}, None
        if self.leaving is None:
            body = encoded(batch)
            return {}, body
        size = encoded_size(batch)
        if size > self.leaving.size:
            return {}, encoded(batch)
        with pa.FixedSizeBufferWriter(self.leaving.buffer) as sink:
            write_to(sink, batch)
        return {SHARED: size}, None

    def unpack(
        self, header: Mapping[str, object], body: pa.Buffer | None
    ) -> tuple[pa.RecordBatch | None, bool]:
        """The batch of a message, and whether it looks into memory that the next call overwrites.

        Raises
        ------
        MalformedError
        """
        size = header.get(SHARED)
        if size is None:
            return (None if body is None else decoded(body)), False
        segment = self.arriving
        if segment is None or type(size) is not int or not 0 < size <= segment.size:
            raise MalformedError(f"a body of {size!r:.80} bytes in shared memory that is not there")
        return decoded(segment.buffer.slice(0, size)), True

    def close(self) -> None:
        """Let go of the shared memory."""
        for segment in (self.leaving, self.arriving):
            if segment is not None:
                segment.close()
        self.leaving = self.arriving = None
