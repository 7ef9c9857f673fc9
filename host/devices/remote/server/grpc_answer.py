"""Tells clients of earlier versions, which speak gRPC, that their version differs.

This is the smallest part of HTTP/2 that does so: it skips the preface and the first frames, and
ends the call on the first opened stream with a status and a message.
"""

from __future__ import annotations

import socket
from urllib.parse import quote

#: The preface of an HTTP/2 connection.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = 9
_HEADERS, _SETTINGS = 1, 4
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
#: Frames before the first call, at most, and bytes of each, as HTTP/2 has them by default.
_MOST_FRAMES, _MOST_BYTES = 32, 1 << 14
#: gRPC's code FAILED_PRECONDITION.
_FAILED_PRECONDITION = "9"
#: A response with status 200, by its number in HPACK's table.
_STATUS_200 = b"\x88"


def answer_grpc(connection: socket.socket, begun: bytes, text: str) -> None:
    """Answer a client's call with an error.

    Parameters
    ----------
    begun : bytes
        The received part of the preface.
    text : str
        Message for the user.

    Raises
    ------
    OSError
    """
    if _receive(connection, len(PREFACE) - len(begun)) != PREFACE[len(begun) :]:
        return
    connection.sendall(_frame(_SETTINGS, 0, 0, b""))
    for _ in range(_MOST_FRAMES):
        head = _receive(connection, _HEAD)
        size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        if size > _MOST_BYTES:
            return
        _receive(connection, size)
        if kind == _SETTINGS and not flags & _ACK:
            connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _HEADERS:
            fields = {
                "content-type": "application/grpc",
                "grpc-status": _FAILED_PRECONDITION,
                "grpc-message": quote(text, safe=" ,;:()'\"/=+"),
            }
            block = _STATUS_200 + b"".join(_field(*each) for each in fields.items())
            connection.sendall(_frame(_HEADERS, _END_STREAM | _END_HEADERS, stream, block))
            # Until the client hangs up: if this side did first, the answer would be lost.
            while connection.recv(_MOST_BYTES):
                pass
            return


def _receive(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionResetError("the client hung up")
        found += part
    return found


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def _field(name: str, value: str) -> bytes:
    """A field that is in no table of HPACK."""
    return b"\x00" + _string(name) + _string(value)


def _string(text: str) -> bytes:
    encoded, left = text.encode("ascii"), len(text) - 127
    if left < 0:
        return bytes([len(encoded)]) + encoded
    size = b"\x7f"
    while left >= 128:
        size += bytes([left % 128 + 128])
        left //= 128
    return size + bytes([left]) + encoded
