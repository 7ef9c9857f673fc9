"""Socket between a stream and one of its children, beside the rings: start, comparison, errors.

Both processes run one program as one user, and only they have the unnamed socket, so messages are
pickled.
"""

from __future__ import annotations

import pickle
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from penstock.errors import ProcessError

#: Length of a message and number of descriptors.
_HEAD = struct.Struct("<QI")
#: Descriptors that one message of the system carries, at most.
_MOST_FILES = 250
#: Bytes that one call of the system asks for.
_ASKED = 1 << 16


class Line:
    """One end of the socket, for messages with descriptors.

    Parameters
    ----------
    end : socket
        Owned.
    who : str
        Name of the other side, for errors.
    """

    def __init__(self, end: socket.socket, who: str) -> None:
        self._end = end
        self._who = who
        self._unread = bytearray()
        self._files: list[int] = []

    def fileno(self) -> int:
        """Descriptor to wait on."""
        return self._end.fileno()

    def send(self, message: Any, timeout_s: float, files: Sequence[int] = ()) -> None:
        """Send a message, with descriptors that the other side gets copies of.

        Raises
        ------
        ProcessError
            The other side has ended, or does not read.
        """
        body = pickle.dumps(message)
        self._end.settimeout(timeout_s)
        try:
            head = _HEAD.pack(len(body), len(files))
            parts = [files[k : k + _MOST_FILES] for k in range(0, len(files), _MOST_FILES)]
            # The head is cut so that each part of the descriptors has a byte to travel with.
            for k, part in enumerate(parts):
                socket.send_fds(self._end, [head[k : k + 1]], list(part))
            self._end.sendall(head[len(parts) :] + body)
        except TimeoutError:
            raise ProcessError(f"{self._who} took no message for {timeout_s:g} s") from None
        except OSError as cause:
            raise ProcessError(f"{self._who} has ended ({cause.strerror})") from cause

    def receive(self, timeout_s: float) -> tuple[Any, list[int]]:
        """Return the next message and its descriptors, which the caller owns.

        Raises
        ------
        ProcessError
            The other side has ended, or nothing came in time.
        """
        deadline = time.monotonic() + timeout_s
        self._fill(_HEAD.size, deadline, timeout_s)
        size, files = _HEAD.unpack(self._unread[: _HEAD.size])
        self._fill(_HEAD.size + size, deadline, timeout_s)
        body = bytes(self._unread[_HEAD.size : _HEAD.size + size])
        del self._unread[: _HEAD.size + size]
        received, self._files = self._files[:files], self._files[files:]
        return pickle.loads(body), received

    def _fill(self, count: int, deadline: float, timeout_s: float) -> None:
        while len(self._unread) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ProcessError(f"{self._who} said nothing for {timeout_s:g} s")
            self._end.settimeout(left)
            try:
                some, files, flags, _ = socket.recv_fds(self._end, _ASKED, _MOST_FILES)
            except TimeoutError:
                continue
            except OSError as cause:
                raise ProcessError(f"{self._who} has ended ({cause.strerror})") from cause
            if not some:
                raise ProcessError(f"{self._who} has ended")
            self._unread += some
            self._files += files
            if flags & socket.MSG_CTRUNC:
                raise ProcessError(
                    f"{self._who} has sent more open files than this process may have; raise the "
                    "limit (ulimit -n), or use fewer workers"
                )

    @property
    def has_more(self) -> bool:
        """Whether bytes of a further message have been read already."""
        return bool(self._unread)

    def close(self) -> None:
        """Close the socket."""
        self._end.close()
