"""Addresses of servers: parsing, access checks, and removal of stale sockets."""

from __future__ import annotations

import ipaddress
import os
import select
import socket
import stat
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from penstock.errors import FileError, UsageError

from ..store.location import local_path

#: Bytes of a path that a Unix socket can have, by the size of sockaddr_un.
MOST_PATH_BYTES = 107
#: Seconds to find out whether anybody listens on a socket that is already there.
_PROBE_S = 2.0
#: Characters of a token, at least: 128 bits as hexadecimal digits have 32.
LEAST_TOKEN = 16
#: Bytes of a token's file that are read, and seconds that a pipe may take to give them.
_MOST_TOKEN_BYTES, _TOKEN_S = 1 << 16, 5.0


@dataclass(frozen=True)
class Address:
    """A Unix socket, or a host and port.

    Parameters
    ----------
    path : Path or None
    host : str
    port : int
        0 lets a server take a free one.
    """

    path: Path | None = None
    host: str = ""
    port: int = 0

    @classmethod
    def parsed(cls, text: str) -> Address:
        """Parse ``unix:///run/penstock.sock``, ``tcp://127.0.0.1:4317``, or ``tcp://:4317``.

        Raises
        ------
        UsageError
        """
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as cause:
            raise UsageError(f"{text!r} is no address: {cause}") from cause
        if parts.scheme == "unix" and not parts.netloc and parts.path.startswith("/"):
            if len(os.fsencode(parts.path)) > MOST_PATH_BYTES:
                raise UsageError(
                    f"the path of a Unix socket has at most {MOST_PATH_BYTES} bytes; choose a "
                    f"shorter one than {parts.path}"
                )
            return cls(path=Path(parts.path))
        if parts.scheme == "tcp" and port is not None and not parts.path:
            return cls(host=parts.hostname or "127.0.0.1", port=port)
        raise UsageError(
            f"{text!r} is no address of a server; give unix:///absolute/path or tcp://HOST:PORT"
        )

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only programs on this machine reach it."""
        if self.path is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def check_listen(address: Address, token: str | None, offer: str = "lend the device to") -> None:
    """Refuse to listen where everybody could connect.

    Parameters
    ----------
    address : Address
    token : str or None
    offer : str
        What a server without a token would do to everybody; for the message.

    Raises
    ------
    UsageError
    """
    if address.path is None and token is None:
        who = "every user of this machine" if address.loopback else "everybody on the network"
        raise UsageError(
            f"{address} without a token would {offer} {who}; give --token-file, or "
            "listen on a Unix socket"
        )


def clear_stale(path: Path) -> None:
    """Remove the socket that a server left behind when it was killed.

    Raises
    ------
    UsageError
        A server listens there, or the file there is no socket.
    FileError
        There is no such folder, or the socket cannot be removed.
    """
    if not path.parent.is_dir():
        raise FileError(
            f"there is no folder {path.parent} for the socket; make it, or choose another"
        )
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UsageError(f"{path} is there and is no socket; choose another path to listen on")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            pass
        except FileNotFoundError:
            return
        except OSError as cause:
            raise FileError(f"cannot tell who listens on {path}: {cause}") from cause
        else:
            raise UsageError(f"a server listens on {path} already; end it, or choose another path")
    try:
        path.unlink(missing_ok=True)
    except OSError as cause:
        raise FileError(f"cannot remove the old socket {path}: {cause.strerror}") from cause


def credentials(connection: socket.socket) -> tuple[int, int, int] | None:
    """Process, user and group at the other end of a Unix socket; None if the system hides them."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    form = struct.Struct("3i")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
    process, user, group = form.unpack(raw)
    return process, user, group


def check_listener(connection: socket.socket, path: Path) -> None:
    """Refuse a Unix socket on which neither this user nor root listens.

    Raises
    ------
    UsageError
    """
    # Check the listener, not the file's owner: the file could be another one by now.
    known = credentials(connection)
    owner = path.stat().st_uid if known is None else known[1]
    if owner not in (0, os.geteuid()):
        raise UsageError(
            f"user {owner} listens on {path}, and would see and answer all that user "
            f"{os.geteuid()} sends; connect to a server of your own, or to one over TCP with its "
            "token"
        )


def _read_all(file: BinaryIO, path: Path) -> bytes:
    """Read a file, or a pipe until its writers have closed it.

    Raises
    ------
    FileError
        Nobody writes to the pipe, or its writer is slow.
    """
    content, deadline = b"", time.monotonic() + _TOKEN_S
    while stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
        left = max(0.0, deadline - time.monotonic())
        if not select.select([file], [], [], left)[0]:
            raise FileError(
                f"nobody has written a token to the pipe {path} within {_TOKEN_S:g} s; give a file "
                "that has it"
            )
        part = os.read(file.fileno(), _MOST_TOKEN_BYTES)
        content += part
        if not part or len(content) > _MOST_TOKEN_BYTES:
            return content
    return file.read(_MOST_TOKEN_BYTES)


def read_token(path: str | os.PathLike[str]) -> str:
    """The token in a file, without the white space around it.

    Raises
    ------
    FileError
        The file cannot be read.
    UsageError
        The token is short enough to be guessed, or others than its owner may read the file.
    """
    file = local_path(path)
    try:
        # Not blocking: a pipe that nobody writes to would never open.
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = _read_all(opened, file).decode("ascii").strip()
    except FileError:
        raise
    except (OSError, UnicodeDecodeError) as cause:
        raise FileError(f"cannot read the token in {path}: {cause}") from cause
    if len(text) < LEAST_TOKEN or not text.isprintable():
        raise UsageError(
            f"the token in {path} has {len(text)} characters, and needs at least {LEAST_TOKEN}; "
            f"make one with: openssl rand -hex 32 > {path}"
        )
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"others may read the token in {path}; run: chmod 600 {path}")
    return text
