"""Endpoints: connections to other workers of UCX; and errors by the library's status codes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_int64, c_void_p
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import DeviceError

from . import library
from .puts import WORD_BYTES

if TYPE_CHECKING:
    from .network import Network, Region

#: Bytes of the token at the front of a key; the bytes behind it are UCX's.
TOKEN_BYTES = 8
_MOST_TRANSPORTS = 16


class End:
    """Connection to another worker (an endpoint of UCX)."""

    def __init__(self, network: Network, address: bytes, name: str, *, watches: bool) -> None:
        self._network = network
        self.ucx = ucx = network.ucx
        #: The worker's handle, for compiled code.
        self.worker: int = network.worker.value or 0
        self.handle = c_void_p()
        # The endpoint's error handler must live as long as the endpoint.
        self._handler = library.ErrorHandler(lambda *_: self._fail(name))
        self._has_failed = False
        place = ctypes.create_string_buffer(address, len(address))
        params = library.EndpointParams(
            mask=0b111 if watches else 0b1,
            address=ctypes.addressof(place),
            errors=library.ERRORS_BY_PEER,
            handler=ctypes.cast(self._handler, c_void_p),
        )
        check(ucx.ep_create(network.worker, byref(params), byref(self.handle)), f"reach {name}")
        self._keys: list[c_void_p] = []
        self.transports = self._transports()
        #: Whether all bytes that are written come one after another: then writes are messages, and
        #: who takes them looks at memory only between two of these.
        self.is_in_order = set(self.transports) == {"tcp"}
        self._params = library.RequestParams(mask=0)
        #: The request of a flush that is under way.
        self._flush = 0
        self._answers: Region | None = None
        self._questions, self._is_asking = 0, False

    def unpack(self, key: bytes) -> int:
        """Unpack a key of the other side's memory for use with this endpoint."""
        if self.is_in_order:
            return int.from_bytes(key[:TOKEN_BYTES], "little", signed=True)
        unpacked = c_void_p()
        packed = ctypes.create_string_buffer(key[TOKEN_BYTES:], len(key) - TOKEN_BYTES)
        check(
            self.ucx.ep_rkey_unpack(self.handle, ctypes.addressof(packed), byref(unpacked)),
            "use the key that was offered",
        )
        self._keys.append(unpacked)
        return unpacked.value or 0

    def flushed(self) -> bool | None:
        """Whether all writes have arrived; None if that is not known yet."""
        if self.is_in_order:
            return self._answered()
        if not self._flush:
            self._flush = self.ucx.ep_flush_nbx(self.handle, byref(self._params)) or 0
        status = self._status(self._flush)
        if status == library.IN_PROGRESS:
            return None
        self._free(self._flush)
        self._flush = 0
        return status == library.OK

    def _answered(self) -> bool | None:
        """:meth:`flushed` where writes are messages: a question behind them is answered."""
        if self._answers is None:
            self._answers = self._network.map(WORD_BYTES)
        if not self._is_asking:
            self._questions += 1
            header = (c_int64 * 3)(self._answers.address, self._answers.token, self._questions)
            params = library.RequestParams(mask=library.FLAGS_SET, flags=library.QUESTION)
            request = self.ucx.am_send_nbx(
                self.handle, library.ASK, header, ctypes.sizeof(header), None, 0, byref(params)
            )
            if status_of(request or 0) != library.OK:
                return False
            self._free(request or 0)
            self._is_asking = True
        self._network.progress()
        if self._has_failed:
            return False
        if self._answers.memory.view(np.int64)[0] != self._questions:
            return None
        self._is_asking = False
        return True

    def close(self, wait: Callable[[Callable[[], bool]], bool]) -> None:
        """Close the endpoint; unfinished writes are lost."""
        if not self.handle:
            return
        for key in self._keys:
            self.ucx.rkey_destroy(key)
        by_force = library.RequestParams(mask=library.FLAGS_SET, flags=library.CLOSE_BY_FORCE)
        closing = self.ucx.ep_close_nbx(self.handle, byref(by_force)) or 0
        wait(lambda: self._status(closing) != library.IN_PROGRESS)
        for request in (closing, self._flush):
            self._free(request)
        self.handle, self._flush, self._answers = c_void_p(), 0, None
        self._network.forget(self)

    def _fail(self, name: str) -> None:
        self._has_failed = True
        self._network.fail(self, name)

    def _status(self, request: int) -> int:
        """Let transfers go on, and return the status of a request, which may be 0 or an error."""
        if not request:
            return library.OK
        if (failed := status_of(request)) != library.OK:
            return failed
        self._network.progress()
        return self.ucx.request_check_status(request)

    def _free(self, request: int) -> None:
        if request and status_of(request) == library.OK:
            self.ucx.request_free(request)

    def _transports(self) -> tuple[str, ...]:
        entries = (library.TransportEntry * _MOST_TRANSPORTS)()
        attributes = library.EndpointAttributes(
            mask=1 << 3,
            entries=entries,
            count=_MOST_TRANSPORTS,
            entry_bytes=ctypes.sizeof(library.TransportEntry),
        )
        check(self.ucx.ep_query(self.handle, byref(attributes)), "name its transports")
        return tuple(entries[k].transport.decode() for k in range(attributes.count))


def status_of(pointer: int) -> int:
    """Status in a pointer that UCX returned; OK if it points to a request."""
    number = c_void_p(pointer).value or 0
    signed = number - (1 << 64) if number >> 63 else number
    return signed if library.LAST_ERROR <= signed < 0 else library.OK


def check(status: int, action: str) -> None:
    """Raise an error unless UCX reports success; ``action`` completes "UCX cannot ..."."""
    if status != library.OK:
        raise DeviceError(
            f"UCX cannot {action} (status {status}): look at what it has printed, or set "
            "UCX_LOG_LEVEL=info; UCX_TLS and UCX_NET_DEVICES choose its transports and devices"
        )
