"""Connects to servers, and greets them, within a time limit."""

from __future__ import annotations

import os
import socket
import threading

from ..device.fields import Header
from .address import Address, check_listener
from .errors import error_from
from .frames import Frames
from .handshake import greet
from .transport import GoneError


class LateError(GoneError):
    """The other side did not answer in time."""


def connect(
    address: Address, token: str | None, wants: Header, connect_s: float
) -> tuple[Frames, Header]:
    """Make a connection for a purpose; returns it with the server's answer.

    Parameters
    ----------
    wants : Header
        The connection's purpose.
    connect_s : float
        Seconds for the connection, and again for the answer.

    Raises
    ------
    OSError
        No connection could be made.
    LateError
        There is no answer in time.
    GoneError, TokenError, FrameError
        As for :func:`~.handshake.greet`.
    PenstockError
        The server's refusal.
    """
    frames = Frames(_dial(address, connect_s))
    late = threading.Event()

    def give_up() -> None:
        late.set()
        frames.cancel()

    timer = threading.Timer(connect_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        answer = greet(frames, token, wants)
        if "error" in answer:
            raise error_from(answer["error"], f"the server at {address}")
        return frames, answer
    except GoneError as cause:
        frames.close()
        if late.is_set():
            raise LateError(f"no answer within {connect_s:g} s") from cause
        raise
    except BaseException:
        frames.close()
        raise
    finally:
        timer.cancel()


def _dial(address: Address, connect_s: float) -> socket.socket:
    if address.path is None:
        return socket.create_connection((address.host, address.port), connect_s)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(connect_s)
        connection.connect(os.fspath(address.path))
        check_listener(connection, address.path)
    except BaseException:
        connection.close()
        raise
    return connection
