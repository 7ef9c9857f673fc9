"""Writes as messages, over ends that are streams of bytes: whoever takes one copies it into place.

UCX makes a message of a write over TCP, too, and answers it; where the answer cannot be sent, since
the writer has died, it aborts the process (``ucp_rma_sw_send_cmpl``, seen in 1.22). A message of
ours is not answered, unless it asks whether all before it have come, and its place is checked.
"""

from __future__ import annotations

import ctypes
import secrets
from ctypes import c_void_p
from functools import cache
from typing import Any

import numpy as np
from numba import cfunc

from penstock.errors import DeviceError
from penstock.kept_code import kept

from . import puts
from .library import ANSWER, ASK, EAGER, FLAGS_SET, LAST_ERROR, WAKE, WRITE, Library, RequestParams
from .puts import HEADER_BYTES, WORD_BYTES, call, copy, read, write

#: Regions that others may write at a time, at most; the last bits of a token are its number.
MOST_REGIONS = 1 << 12
_TOKEN_BITS = 62
#: Byte offsets: of the words that answers need, and of the entries; within an entry, after its
#: address, of size and token.
_SEND, _FREE, _PARAMS, _ENTRIES = range(0, 4 * WORD_BYTES, WORD_BYTES)
_SIZE, _TOKEN, _ENTRY_BYTES = WORD_BYTES, 2 * WORD_BYTES, 3 * WORD_BYTES


class Writable:
    """The regions that messages to this process may write.

    Attributes
    ----------
    address : int
        Argument of the handlers.
    """

    def __init__(self, ucx: Library) -> None:
        self._params = RequestParams(mask=FLAGS_SET, flags=EAGER)
        self._words = np.zeros((_ENTRIES + MOST_REGIONS * _ENTRY_BYTES) // WORD_BYTES, np.int64)
        self._words[:3] = (
            ucx.address("am_send_nbx"),
            ucx.address("request_free"),
            ctypes.addressof(self._params),
        )
        self.address: int = self._words.ctypes.data
        self._entries = self._words[3:].reshape(MOST_REGIONS, -1)

    def add(self, address: int, nbytes: int) -> int:
        """Allow writes to a region; returns the token that a message must name.

        Raises
        ------
        DeviceError
            There are :data:`MOST_REGIONS` already.
        """
        free = np.flatnonzero(self._entries[:, 2] == 0)
        if not len(free):
            raise DeviceError(
                f"others may write {MOST_REGIONS} regions of this process already: close channels"
            )
        number = int(free[0])
        token = secrets.randbits(_TOKEN_BITS) & -MOST_REGIONS | number or MOST_REGIONS
        self._entries[number] = (address, nbytes, token)
        return token

    def remove(self, token: int) -> None:
        """Forbid further writes to a region."""
        self._entries[token % MOST_REGIONS] = 0


@kept(puts)
def _entry(argument, header, header_bytes):
    """Address of the entry that a message names; 0 if there is none, as of a closed channel."""
    if header_bytes != HEADER_BYTES:
        return 0
    token = read(header + WORD_BYTES)
    entry = argument + _ENTRIES + token % MOST_REGIONS * _ENTRY_BYTES
    return entry if read(entry + _TOKEN) == token else 0


@cache
def handlers() -> dict[int, c_void_p]:
    """Compiled handlers of messages, by the number of the kind of message."""

    @cfunc("int8(int64, int64, int64, int64, int64, int64)")
    def take(argument, header, header_bytes, content, content_bytes, params):
        entry = _entry(argument, header, header_bytes)
        if entry and 0 <= read(header) - read(entry) <= read(entry + _SIZE) - content_bytes:
            copy(read(header), content, content_bytes)
        return 0

    @cfunc("int8(int64, int64, int64, int64, int64, int64)")
    def answer(argument, header, header_bytes, content, content_bytes, params):
        end = read(params + WORD_BYTES)
        reply = (end, ANSWER, header, header_bytes, 0, 0, read(argument + _PARAMS))
        request = call(read(argument + _SEND), reply)
        if request and not LAST_ERROR <= request < 0:
            call(read(argument + _FREE), (request,))
        return 0

    @cfunc("int8(int64, int64, int64, int64, int64, int64)")
    def know(argument, header, header_bytes, content, content_bytes, params):
        entry = _entry(argument, header, header_bytes)
        if entry and read(header) == read(entry):
            write(read(header), read(header + 2 * WORD_BYTES))
        return 0

    # A message that only wakes has no header, so nothing is taken: it has done so by arriving.
    by_number: dict[int, Any] = {WAKE: take, WRITE: take, ASK: answer, ANSWER: know}
    return {number: ctypes.cast(one.address, c_void_p) for number, one in by_number.items()}
