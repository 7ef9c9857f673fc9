"""A message: a header in JSON, and a body of columns as an Arrow IPC stream.

A call of a client is one request and one reply on a Flight DoExchange stream that stays open for
many calls. The header travels as the application metadata of a Flight message. The body is one
value of a binary column, so that one stream takes bodies of every schema; or it lies in memory that
both processes share (:mod:`penstock.host.wire.segment`), and the header says how long it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from penstock.errors import DeviceError

#: Both sides must speak the same protocol; raised whenever a message changes its meaning.
PROTOCOL = 2
#: Bytes of a body, at most: Flight refuses messages of 2 GiB.
MOST_BODY_BYTES = 1 << 30

#: How bodies travel in Flight messages.
BODY_SCHEMA = pa.schema([pa.field("body", pa.large_binary(), nullable=False)])

Header = dict[str, Any]


class MalformedError(DeviceError):
    """A message that no client or server of this version sends."""


class Writer(Protocol):
    """What is used of Flight's stream writers, which are different classes on either side."""

    def write_metadata(self, buf: Any) -> None: ...

    def write_with_metadata(self, batch: pa.RecordBatch, buf: Any) -> None: ...


def send(writer: Writer, header: Mapping[str, Any], body: pa.Buffer | None = None) -> None:
    """Write a message to a stream that was begun with :data:`BODY_SCHEMA`.

    Raises
    ------
    DeviceError
        The body is too large for a message.
    """
    text = json.dumps(header).encode()
    if body is None:
        writer.write_metadata(text)
        return
    if body.size > MOST_BODY_BYTES:
        raise DeviceError(
            f"{body.size} bytes are too many for one message to or from a server of devices, which "
            f"takes {MOST_BODY_BYTES}; write windows in parts, and use smaller tasks"
        )
    ends = pa.array([0, body.size], pa.int64()).buffers()[1]
    column = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, body])
    writer.write_with_metadata(pa.RecordBatch.from_arrays([column], schema=BODY_SCHEMA), text)


def received(chunk: Any) -> tuple[Header, pa.Buffer | None]:
    """Header and body of what was read from a stream; the body is not copied.

    Raises
    ------
    MalformedError
    """
    header = parsed(chunk.app_metadata)
    if chunk.data is None:
        return header, None
    if chunk.data.schema != BODY_SCHEMA or chunk.data.num_rows != 1:
        raise MalformedError("a message has a body of another form than one binary value")
    return header, chunk.data.column(0)[0].as_buffer()


def parsed(text: Any) -> Header:
    """The header that some bytes are.

    Raises
    ------
    MalformedError
    """
    try:
        header = json.loads(bytes(text or b""))
    except ValueError as cause:
        raise MalformedError(f"a message has a header that is not JSON ({cause})") from cause
    if not isinstance(header, dict):
        raise MalformedError("a message has a header that is no JSON object")
    return header


def field(header: Mapping[str, Any], name: str, kind: type) -> Any:
    """A field of a header.

    Raises
    ------
    MalformedError
        It is not there, or of another kind.
    """
    value = header.get(name)
    # A bool is an int to Python, and never what was meant.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise MalformedError(f"a message needs {name} as {kind.__name__}, and has {value!r:.80}")
    return value
