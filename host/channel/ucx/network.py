"""A thread's access to UCX: its context, its worker, the memory that others write, and its ends."""

from __future__ import annotations

import ctypes
import os
import weakref
from ctypes import byref, c_int, c_size_t, c_void_p

import numpy as np

from ..doorbell import Doorbell
from . import library
from .end import TOKEN_BYTES, End, check
from .library import Library, load
from .write_messages import Writable, handlers

#: Transports between processes of one machine: memory that both map. They notice no death of the
#: other side, so its process must be watched.
SHARED_MEMORY = "posix,sysv,self"
#: Silent peers are looked at each second. A fence is one of an endpoint, and all writes to it take
#: one way: then it orders them without waiting, which UCX's other fence does, for the other side.
_SETTINGS = {
    b"KEEPALIVE_INTERVAL": b"1s",
    b"FENCE_MODE": b"ep_based",
    b"MAX_RMA_LANES": b"1",
    b"MAX_RMA_RAILS": b"1",
}
#: Over TCP a write is a message, and one for each segment; a slot of the usual size shall be one.
#: Settings of the environment take precedence.
_TUNING = {b"TCP_TX_SEG_SIZE": b"66K", b"TCP_RX_SEG_SIZE": b"68K"}


class Region:
    """Memory that other processes may write.

    It stays mapped until the last view of it is gone.

    Attributes
    ----------
    memory : array of uint8
        Zeros.
    key : bytes
        Needed by others to write it.
    token : int
        Needed by messages that write it; the key begins with it.
    address : int
        Address of the first byte, in this process.
    """

    def __init__(self, context: _Context, writable: Writable, nbytes: int) -> None:
        ucx, handle = context.ucx, c_void_p()
        wanted = library.MapParams(mask=0b110, length=nbytes, flags=library.MAP_ALLOCATE)
        check(ucx.mem_map(context.handle, byref(wanted), byref(handle)), f"map {nbytes} bytes")
        mapped = library.MapAttributes(mask=1)
        check(ucx.mem_query(handle, byref(mapped)), "look at its memory")
        self.address: int = mapped.address
        self.token = writable.add(self.address, nbytes)
        owner = (ctypes.c_uint8 * nbytes).from_address(self.address)
        # The context is kept with it; what the interpreter leaves at its end, the system frees.
        weakref.finalize(owner, _unmap, context, handle, writable, self.token).atexit = False
        self.memory = np.frombuffer(memoryview(owner).cast("B"), np.uint8)
        self.memory[:] = 0
        packed, size = c_void_p(), c_size_t()
        check(ucx.rkey_pack(context.handle, handle, byref(packed), byref(size)), "make a key")
        self.key = self.token.to_bytes(TOKEN_BYTES, "little") + ctypes.string_at(packed, size.value)
        ucx.rkey_buffer_release(packed)


class _Context:
    """A context of UCX; freed with its last user."""

    def __init__(self, ucx: Library, transports: str | None) -> None:
        self.ucx, self.handle = ucx, c_void_p()
        config = c_void_p()
        check(ucx.config_read(None, None, byref(config)), "read its settings")
        try:
            tuned = {name for name in _TUNING if b"UCX_" + name not in os.environb}
            settings = _SETTINGS | {name: _TUNING[name] for name in tuned}
            if transports is not None:
                settings[b"TLS"] = transports.encode()
            if transports == SHARED_MEMORY:
                # A write is a copy by this processor, in the order of its stores; behind a fence of
                # an endpoint UCX would refuse to make it at once.
                settings[b"FENCE_MODE"] = b"weak"
            for name, value in settings.items():
                check(ucx.config_modify(config, name, value), f"set {name.decode()}")
            params = library.ContextParams(mask=1, features=library.FEATURES)
            status = ucx.init_version(*ucx.version[:2], byref(params), config, byref(self.handle))
            check(status, f"begin with the transports {transports or 'of its settings'}")
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
        The thread's: its waits let transfers go on, and end when something arrives.
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
        check(
            ucx.worker_create(self._context.handle, byref(params), byref(self.worker)),
            "make a worker",
        )
        self._writable = Writable(ucx)
        for number, call in handlers().items():
            handler = library.HandlerParams(
                mask=0b1101, number=number, call=call, argument=self._writable.address
            )
            check(ucx.worker_set_am_recv_handler(self.worker, byref(handler)), "wait for messages")
        file = c_int()
        check(ucx.worker_get_efd(self.worker, byref(file)), "make an event")
        self._file = file.value
        self._bell = bell
        self._watched: set[End] = set()
        self._failed: dict[End, str] = {}
        self._is_open = True
        bell.serve(self)

    def fileno(self) -> int:
        """Descriptor that becomes readable when something arrives, after :meth:`arm`."""
        return self._file

    def progress(self) -> None:
        """Let transfers go on."""
        while self._is_open and self.ucx.worker_progress(self.worker):
            pass

    def arm(self) -> bool:
        """Prepare to sleep; False if something has arrived meanwhile."""
        return self.ucx.worker_arm(self.worker) == library.OK

    def failed_end(self) -> str | None:
        """Name of a process at the other end of an open link that has failed; None if none has."""
        return next(iter(self._failed.values()), None)

    def map(self, nbytes: int) -> Region:
        """Make memory that others may write."""
        return Region(self._context, self._writable, nbytes)

    def address(self) -> bytes:
        """Address by which other processes reach this worker."""
        pointer, size = c_void_p(), c_size_t()
        check(self.ucx.worker_get_address(self.worker, byref(pointer), byref(size)), "say where")
        try:
            return ctypes.string_at(pointer, size.value)
        finally:
            self.ucx.worker_release_address(self.worker, pointer)

    def connect(self, address: bytes, name: str) -> End:
        """Connect to another worker.

        Parameters
        ----------
        address : bytes
            Its :meth:`address`.
        name : str
            Name of its process in errors.
        """
        end = End(self, address, name, watches=self._watches_ends)
        self._watched.add(end)
        return end

    def fail(self, end: End, name: str) -> None:
        """Remember that an endpoint has failed, unless it was forgotten."""
        if end in self._watched:
            self._failed[end] = name

    def has_failed(self, end: End) -> bool:
        """Whether an endpoint has failed."""
        return end in self._failed

    def forget(self, end: End) -> None:
        """Forget an endpoint: its failure no longer ends waits."""
        self._watched.discard(end)
        self._failed.pop(end, None)

    def close(self) -> None:
        """Stop. Links are closed before it; memory that was mapped stays readable."""
        if self._is_open:
            self._bell.leave(self)
            self._is_open = False
            self.ucx.worker_destroy(self.worker)


def _unmap(context: _Context, handle: c_void_p, writable: Writable, token: int) -> None:
    writable.remove(token)
    context.ucx.mem_unmap(context.handle, handle)
