"""A thread's access to UCX: its context, its worker, the memory that others write, and its ends."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_void_p
from functools import cache
from typing import Any

import numpy as np
from numba import cfunc

from penstock.errors import DeviceError

from ..doorbell import Doorbell
from . import library
from .library import Library, load

#: Transports between processes of one machine: memory that both map. They notice no death of the
#: other side, so its process must be watched.
SHARED_MEMORY = "posix,sysv,self"
#: Number of the message that wakes a process.
_WAKE = 0
#: Silent peers are looked at each second. A fence is one of an endpoint, and all writes to it take
#: one way: then it orders them without waiting, which UCX's other fence does, for the other side.
_SETTINGS = {
    b"KEEPALIVE_INTERVAL": b"1s",
    b"FENCE_MODE": b"ep_based",
    b"MAX_RMA_LANES": b"1",
    b"MAX_RMA_RAILS": b"1",
}
_MOST_TRANSPORTS = 16


class Region:
    """Memory that other processes may write.

    It stays mapped until the last view of it is gone.

    Attributes
    ----------
    memory : array of uint8
        Zeros.
    key : bytes
        What others need to write it.
    address : int
        Where it begins, in this process.
    """

    def __init__(self, context: _Context, nbytes: int) -> None:
        ucx, handle = context.ucx, c_void_p()
        wanted = library.MapParams(mask=0b110, length=nbytes, flags=library.MAP_ALLOCATE)
        _check(ucx.mem_map(context.handle, byref(wanted), byref(handle)), f"map {nbytes} bytes")
        found = library.MapAttributes(mask=1)
        _check(ucx.mem_query(handle, byref(found)), "look at its memory")
        self.address: int = found.address
        owner = (ctypes.c_uint8 * nbytes).from_address(self.address)
        # The context is kept with it; what the interpreter leaves at its end, the system frees.
        weakref.finalize(owner, _unmap, context, handle).atexit = False
        self.memory = np.frombuffer(memoryview(owner).cast("B"), np.uint8)
        self.memory[:] = 0
        packed, size = c_void_p(), c_size_t()
        _check(ucx.rkey_pack(context.handle, handle, byref(packed), byref(size)), "make a key")
        self.key = ctypes.string_at(packed, size.value)
        ucx.rkey_buffer_release(packed)


class _Context:
    """A context of UCX, which ends with the last that uses it."""

    def __init__(self, ucx: Library, transports: str | None) -> None:
        self.ucx, self.handle = ucx, c_void_p()
        config = c_void_p()
        _check(ucx.config_read(None, None, byref(config)), "read its settings")
        try:
            settings = dict(_SETTINGS)
            if transports is not None:
                settings[b"TLS"] = transports.encode()
            for name, value in settings.items():
                _check(ucx.config_modify(config, name, value), f"set {name.decode()}")
            params = library.ContextParams(mask=1, features=library.FEATURES)
            status = ucx.init_version(*ucx.version[:2], byref(params), config, byref(self.handle))
            _check(status, f"begin with the transports {transports or 'of its settings'}")
        finally:
            ucx.config_release(config)
        weakref.finalize(self, ucx.cleanup, self.handle).atexit = False


class Network:
    """A thread's access to UCX. All calls of it and of its links are made by one thread at a time.

    Nothing arrives and nothing leaves while no channel is looked at and the doorbell is not waited
    for: there is no thread behind it.

    Parameters
    ----------
    bell : Doorbell
        Of the thread: its waits let transfers go on, and end when something arrives.
    transports : str, optional
        Names of UCX, e.g. ``"tcp,self"``; all that the machine has if None, or those of the
        environment's ``UCX_TLS``. :data:`SHARED_MEMORY` stays within a machine.

    Raises
    ------
    MissingToolError
        UCX is not installed.
    VersionError
        It has another version.
    DeviceError
        It does not begin.
    """

    def __init__(self, bell: Doorbell, *, transports: str | None = None) -> None:
        self.ucx = ucx = load()
        self._context = _Context(ucx, transports)
        self._watches_ends = transports != SHARED_MEMORY
        self.worker = c_void_p()
        params = library.WorkerParams(mask=1, threads=library.THREADS_SERIALIZED)
        _check(
            ucx.worker_create(self._context.handle, byref(params), byref(self.worker)),
            "make a worker",
        )
        call = ctypes.cast(_ignored().address, c_void_p)
        wake = library.HandlerParams(mask=0b101, number=_WAKE, call=call)
        _check(ucx.worker_set_am_recv_handler(self.worker, byref(wake)), "wait for messages")
        file = c_int()
        _check(ucx.worker_get_efd(self.worker, byref(file)), "make an event")
        self._file = file.value
        self._bell = bell
        self._failed: dict[object, str] = {}
        self._is_open = True
        bell.serve(self)

    def fileno(self) -> int:
        """Descriptor that can be read when something has arrived, after :meth:`arm`."""
        return self._file

    def progress(self) -> None:
        """Let transfers go on."""
        while self._is_open and self.ucx.worker_progress(self.worker):
            pass

    def arm(self) -> bool:
        """Make ready to sleep; False if something has come meanwhile."""
        return self.ucx.worker_arm(self.worker) == library.OK

    def gone(self) -> str | None:
        """Who has failed at the other end of a link that is open."""
        return next(iter(self._failed.values()), None)

    def map(self, nbytes: int) -> Region:
        """Make memory that others may write."""
        return Region(self._context, nbytes)

    def address(self) -> bytes:
        """What others need to reach this worker."""
        found, size = c_void_p(), c_size_t()
        _check(self.ucx.worker_get_address(self.worker, byref(found), byref(size)), "say where")
        try:
            return ctypes.string_at(found, size.value)
        finally:
            self.ucx.worker_release_address(self.worker, found)

    def connect(self, address: bytes, name: str) -> End:
        """Make the way to another worker.

        Parameters
        ----------
        address : bytes
            Its :meth:`address`.
        name : str
            What errors call its process.
        """
        return End(self, address, name, watches=self._watches_ends)

    def fail(self, end: object, name: str) -> None:
        """Remember that an end has failed."""
        self._failed[end] = name

    def forget(self, end: object) -> None:
        """End no wait on account of an end any more."""
        self._failed.pop(end, None)

    def close(self) -> None:
        """Stop. Links are closed before it; memory that was mapped stays readable."""
        if self._is_open:
            self._bell.leave(self)
            self._is_open = False
            self.ucx.worker_destroy(self.worker)


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
        _check(ucx.ep_create(network.worker, byref(params), byref(self.handle)), f"reach {name}")
        self._keys: list[c_void_p] = []
        self.transports = self._transports()
        # Bytes of a stream wake who reads it; a write into memory wakes nobody.
        self._wakes = set(self.transports) != {"tcp"}
        self._params = library.RequestParams(mask=0)

    def unpack(self, key: bytes) -> int:
        """Make a key of the other side usable for this way."""
        found = c_void_p()
        packed = ctypes.create_string_buffer(key, len(key))
        _check(
            self.ucx.ep_rkey_unpack(self.handle, ctypes.addressof(packed), byref(found)),
            "use the key that was offered",
        )
        self._keys.append(found)
        return found.value or 0

    def wake(self) -> None:
        """Wake the process at the other end if it sleeps."""
        if self._wakes and self.handle:
            request = self.ucx.am_send_nbx(
                self.handle, _WAKE, None, 0, None, 0, ctypes.addressof(self._params)
            )
            if request and _status(request) == library.OK:
                self.ucx.request_free(request)

    def flush(self, wait: Callable[[Callable[[], bool]], bool]) -> bool:
        """Wait until all that was written has come; whether it has.

        Parameters
        ----------
        wait : callable
            Waits until what it is given returns true; false if that took too long.
        """
        return self._finish(self.ucx.ep_flush_nbx(self.handle, byref(self._params)), wait)

    def close(self, wait: Callable[[Callable[[], bool]], bool]) -> None:
        """Close it; what has not been written is lost."""
        if not self.handle:
            return
        for key in self._keys:
            self.ucx.rkey_destroy(key)
        by_force = library.RequestParams(mask=library.FLAGS_SET, flags=library.CLOSE_BY_FORCE)
        self._finish(self.ucx.ep_close_nbx(self.handle, byref(by_force)), wait)
        self.handle = c_void_p()
        self._network.forget(self)

    def _finish(self, request: int | None, wait: Callable[[Callable[[], bool]], bool]) -> bool:
        if not request or _status(request) != library.OK:
            return not request

        def ready() -> bool:
            self._network.progress()
            return self.ucx.request_check_status(request) != library.IN_PROGRESS

        ended = wait(ready)
        is_good = ended and self.ucx.request_check_status(request) == library.OK
        self.ucx.request_free(request)
        return is_good

    def _transports(self) -> tuple[str, ...]:
        entries = (library.TransportEntry * _MOST_TRANSPORTS)()
        found = library.EndpointAttributes(
            mask=1 << 3,
            entries=entries,
            count=_MOST_TRANSPORTS,
            entry_bytes=ctypes.sizeof(library.TransportEntry),
        )
        _check(self.ucx.ep_query(self.handle, byref(found)), "name its transports")
        return tuple(entries[k].transport.decode() for k in range(found.count))


def _unmap(context: _Context, handle: c_void_p) -> None:
    context.ucx.mem_unmap(context.handle, handle)


def _status(pointer: int) -> int:
    """The error that a pointer is; OK if it is a request."""
    number = c_void_p(pointer).value or 0
    signed = number - (1 << 64) if number >> 63 else number
    return signed if library.LAST_ERROR <= signed < 0 else library.OK


def _check(status: int, what: str) -> None:
    """Raise what UCX says."""
    if status != library.OK:
        raise DeviceError(
            f"UCX cannot {what} (status {status}): look at what it has printed, or set "
            "UCX_LOG_LEVEL=info; UCX_TLS and UCX_NET_DEVICES choose its transports and devices"
        )


@cache
def _ignored() -> Any:
    """What is called when a message wakes this process: it has done so by arriving."""

    @cfunc("int8(voidptr, voidptr, uint64, voidptr, uint64, voidptr)")
    def ignore(argument, header, header_bytes, content, content_bytes, params):
        return 0

    return ignore
