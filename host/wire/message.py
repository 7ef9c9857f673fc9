"""Messages between a server of devices and its clients: a header in JSON, and columns.

A client's call is one request and one reply on a connection that stays open for many calls. The
header gives the kinds of the columns (:mod:`.columns`), which follow it (:mod:`.frames`).
"""

from __future__ import annotations

import json

from ..device.fields import Header, MalformedError

#: Both sides must speak the same protocol; raised whenever a message changes its meaning.
PROTOCOL = 7
#: Bytes of the columns of one message, at most.
MOST_BODY_BYTES = 1 << 30
#: Bytes of a header, at most: a program of 100,000 nodes has 8 MB.
MOST_HEADER_BYTES = 16 << 20
#: Bytes of a header before a session has begun, to a server and to a client.
MOST_HELLO_BYTES, MOST_WELCOME_BYTES = 1 << 12, 1 << 16
#: Bytes that a byte of JSON becomes as Python objects, at most: ``{"":0},`` is a dict of 184 bytes,
#: a pointer to it in a list that has room to grow, and the text itself, three times.
HEADER_WEIGHT = 32


def parse_header(text: bytes | bytearray | memoryview) -> Header:
    """Parse a header.

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
