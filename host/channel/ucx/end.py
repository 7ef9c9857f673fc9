"""The way to another worker of UCX, and what the library's answers mean."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING

from penstock.errors import DeviceError

from . import library

if TYPE_CHECKING:
    from .network import Network

_MOST_TRANSPORTS = 16


class End:
    """The way to another worker."""

    def __init__(self, network: Network, address: bytes, name: str, *, watches: bool) -> None:
        self._network = network
        self.ucx = ucx = network.ucx
        #: The worker's handle, for compiled code.
        self.worker: int = network.worker.value or 0
        self.handle = c_void_p()
        # The endpoint's error handler must live as long as the endpoint.
        self._handler = library.ErrorHandler(lambda *_: network.fail(self, name))
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
        #: Whether all bytes that are written come one after another: UCX makes messages of one
        #: stream of them, and who takes them looks at memory only between two of these.
        self.is_in_order = set(self.transports) == {"tcp"}
        self._params = library.RequestParams(mask=0)
        #: The request of a flush that is under way.
        self._flush = 0

    def unpack(self, key: bytes) -> int:
        """Make a key of the other side usable for this way."""
        found = c_void_p()
        packed = ctypes.create_string_buffer(key, len(key))
        check(
            self.ucx.ep_rkey_unpack(self.handle, ctypes.addressof(packed), byref(found)),
            "use the key that was offered",
        )
        self._keys.append(found)
        return found.value or 0

    def flushed(self) -> bool | None:
        """Look whether all that was written has come; None if that is not known yet."""
        if not self._flush:
            self._flush = self.ucx.ep_flush_nbx(self.handle, byref(self._params)) or 0
        status = self._status(self._flush)
        if status == library.IN_PROGRESS:
            return None
        self._free(self._flush)
        self._flush = 0
        return status == library.OK

    def close(self, wait: Callable[[Callable[[], bool]], bool]) -> None:
        """Close it; what has not been written is lost."""
        if not self.handle:
            return
        for key in self._keys:
            self.ucx.rkey_destroy(key)
        by_force = library.RequestParams(mask=library.FLAGS_SET, flags=library.CLOSE_BY_FORCE)
        closing = self.ucx.ep_close_nbx(self.handle, byref(by_force)) or 0
        wait(lambda: self._status(closing) != library.IN_PROGRESS)
        for request in (closing, self._flush):
            self._free(request)
        self.handle, self._flush = c_void_p(), 0
        self._network.forget(self)

    def _status(self, request: int) -> int:
        """Let transfers go on, and return how far a request is, which may be 0 or an error."""
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
        found = library.EndpointAttributes(
            mask=1 << 3,
            entries=entries,
            count=_MOST_TRANSPORTS,
            entry_bytes=ctypes.sizeof(library.TransportEntry),
        )
        check(self.ucx.ep_query(self.handle, byref(found)), "name its transports")
        return tuple(entries[k].transport.decode() for k in range(found.count))


def status_of(pointer: int) -> int:
    """The error that a pointer is; OK if it is a request."""
    number = c_void_p(pointer).value or 0
    signed = number - (1 << 64) if number >> 63 else number
    return signed if library.LAST_ERROR <= signed < 0 else library.OK


def check(status: int, what: str) -> None:
    """Raise what UCX says."""
    if status != library.OK:
        raise DeviceError(
            f"UCX cannot {what} (status {status}): look at what it has printed, or set "
            "UCX_LOG_LEVEL=info; UCX_TLS and UCX_NET_DEVICES choose its transports and devices"
        )
