"""Messages between a server of devices and its clients: a header in JSON, and columns.

A call of a client is one request and one reply on a connection that stays open for many calls. The
header says of which kinds the columns are (:mod:`penstock.host.wire.columns`); they come behind it
(:mod:`penstock.host.wire.frames`), or lie in memory that both processes map
(:mod:`penstock.host.wire.segment`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import DeviceError

#: Both sides must speak the same protocol; raised whenever a message changes its meaning.
PROTOCOL = 3
#: Bytes of the columns of one message, at most.
MOST_BODY_BYTES = 1 << 30
#: Bytes of a header, at most: a program of 100,000 nodes has 8 MB.
MOST_HEADER_BYTES = 16 << 20
#: Bytes of a header before a session has begun, to a server and to a client.
MOST_HELLO_BYTES, MOST_WELCOME_BYTES = 1 << 12, 1 << 16
#: Bytes that a byte of JSON becomes as Python objects, at most: ``{"":0},`` is a dict of 184 bytes,
#: a pointer to it in a list that has room to grow, and the text itself, three times.
HEADER_WEIGHT = 32

Header = dict[str, Any]


class MalformedError(DeviceError):
    """A message that no client or server of this version sends."""


def parsed(text: bytes | bytearray | memoryview) -> Header:
    """The header that some bytes are.

    Raises
    ------
    MalformedError
    """
    try:
        header = json.loads(bytes(text))
    except (ValueError, RecursionError) as cause:
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


def count_field(header: Mapping[str, Any], name: str, most: int = (1 << 63) - 1) -> int:
    """A field that is an integer from 0 to ``most``.

    Raises
    ------
    MalformedError
    """
    value = field(header, name, int)
    if not 0 <= value <= most:
        raise MalformedError(f"a message has {name} {value!r:.80}, which is not in 0 to {most}")
    return value
