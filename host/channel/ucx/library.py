"""The functions of UCX that this package calls, of the library that the extra ``rdma`` brings.

Sizes and places are those of ``ucp.h``; structures that the library reads are described only as far
as their masks say they are filled.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from ctypes import c_char_p, c_int, c_int8, c_size_t, c_uint, c_uint16, c_uint64, c_void_p
from typing import Any

from penstock.errors import MissingToolError, VersionError, installing

#: Least and most of the versions (major, minor) that this package was tried with.
LEAST, MOST = (1, 19), (1, 22)
_REMEDY = (
    f"{installing('rdma')}, which takes libucx-cu12 {LEAST[0]}.{LEAST[1]} to {MOST[0]}.{MOST[1]}"
)

#: Name by which the loader knows the library, whichever package has brought it.
_NAME = "libucp.so.0"

#: Status codes that the functions return; negative numbers are errors.
OK, IN_PROGRESS, NO_RESOURCE, BUSY = 0, 1, -2, -15
#: Pointers that are errors: the last bytes of all addresses.
LAST_ERROR = -100

#: Bits of masks and features, and numbers of modes.
FEATURES = 1 << 1 | 1 << 4 | 1 << 6  # RMA, wake-up, active messages
THREADS_SERIALIZED = 1
#: Numbers of kinds of messages: wake a process, write into its memory, ask whether all messages
#: before have arrived, and answer that.
WAKE, WRITE, ASK, ANSWER = range(4)
ERRORS_BY_PEER = 1
MAP_ALLOCATE = 1 << 1
CLOSE_BY_FORCE = 1
#: A put that either copies its bytes at once or does nothing; and the flags of a request.
FLAGS_SET, IMMEDIATE = 1 << 4, 1 << 18
#: Flags of a message sent at once, with a copy of its header; and of one that also carries the
#: endpoint for an answer.
EAGER, QUESTION = 0b1010, 0b1011


class ContextParams(ctypes.Structure):
    """``ucp_params_t``."""

    _fields_ = (("mask", c_uint64), ("features", c_uint64), ("rest", c_uint64 * 9))


class WorkerParams(ctypes.Structure):
    """``ucp_worker_params_t``."""

    _fields_ = (("mask", c_uint64), ("threads", c_int), ("rest", c_uint64 * 23))


class EndpointParams(ctypes.Structure):
    """``ucp_ep_params_t``."""

    _fields_ = (
        ("mask", c_uint64),
        ("address", c_void_p),
        ("errors", c_int),
        ("handler", c_void_p),
        ("argument", c_void_p),
        ("rest", c_uint64 * 8),
    )


class MapParams(ctypes.Structure):
    """``ucp_mem_map_params_t``."""

    _fields_ = (
        ("mask", c_uint64),
        ("address", c_void_p),
        ("length", c_size_t),
        ("flags", c_uint),
        ("rest", c_uint64 * 2),
    )


class MapAttributes(ctypes.Structure):
    """``ucp_mem_attr_t``."""

    _fields_ = (("mask", c_uint64), ("address", c_void_p), ("rest", c_uint64 * 2))


class RequestParams(ctypes.Structure):
    """``ucp_request_param_t``."""

    _fields_ = (("mask", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("rest", c_uint64 * 11))


class HandlerParams(ctypes.Structure):
    """``ucp_am_handler_param_t``."""

    _fields_ = (
        ("mask", c_uint64),
        ("number", c_uint),
        ("flags", ctypes.c_uint32),
        ("call", c_void_p),
        ("argument", c_void_p),
    )


class TransportEntry(ctypes.Structure):
    """``ucp_transport_entry_t``."""

    _fields_ = (("transport", c_char_p), ("device", c_char_p))


class EndpointAttributes(ctypes.Structure):
    """``ucp_ep_attr_t``."""

    _fields_ = (
        ("mask", c_uint64),
        ("name_and_addresses", ctypes.c_uint8 * 288),
        ("entries", ctypes.POINTER(TransportEntry)),
        ("count", c_uint),
        ("entry_bytes", c_size_t),
        ("rest", c_uint64),
    )


#: Callback for an endpoint that fails: its argument, the endpoint, and the status.
ErrorHandler = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int8)

_OUT = ctypes.POINTER(c_void_p)
_SIZE_OUT = ctypes.POINTER(c_size_t)
#: Each function with the types of its result and arguments.
SYMBOLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ucp_get_version": (None, (ctypes.POINTER(c_uint),) * 3),
    "ucp_config_read": (c_int8, (c_char_p, c_char_p, _OUT)),
    "ucp_config_modify": (c_int8, (c_void_p, c_char_p, c_char_p)),
    "ucp_config_release": (None, (c_void_p,)),
    "ucp_init_version": (
        c_int8,
        (c_uint, c_uint, ctypes.POINTER(ContextParams), c_void_p, _OUT),
    ),
    "ucp_cleanup": (None, (c_void_p,)),
    "ucp_worker_create": (c_int8, (c_void_p, ctypes.POINTER(WorkerParams), _OUT)),
    "ucp_worker_destroy": (None, (c_void_p,)),
    "ucp_worker_get_address": (c_int8, (c_void_p, _OUT, _SIZE_OUT)),
    "ucp_worker_release_address": (None, (c_void_p, c_void_p)),
    "ucp_worker_get_efd": (c_int8, (c_void_p, ctypes.POINTER(c_int))),
    "ucp_worker_arm": (c_int8, (c_void_p,)),
    "ucp_worker_progress": (c_uint, (c_void_p,)),
    "ucp_worker_fence": (c_int8, (c_void_p,)),
    "ucp_worker_set_am_recv_handler": (c_int8, (c_void_p, ctypes.POINTER(HandlerParams))),
    "ucp_mem_map": (c_int8, (c_void_p, ctypes.POINTER(MapParams), _OUT)),
    "ucp_mem_query": (c_int8, (c_void_p, ctypes.POINTER(MapAttributes))),
    "ucp_mem_unmap": (c_int8, (c_void_p, c_void_p)),
    "ucp_rkey_pack": (c_int8, (c_void_p, c_void_p, _OUT, _SIZE_OUT)),
    "ucp_rkey_buffer_release": (None, (c_void_p,)),
    "ucp_ep_create": (c_int8, (c_void_p, ctypes.POINTER(EndpointParams), _OUT)),
    "ucp_ep_rkey_unpack": (c_int8, (c_void_p, c_void_p, _OUT)),
    "ucp_rkey_destroy": (None, (c_void_p,)),
    "ucp_ep_query": (c_int8, (c_void_p, ctypes.POINTER(EndpointAttributes))),
    "ucp_put_nbx": (
        c_void_p,
        (c_void_p, c_void_p, c_size_t, c_uint64, c_void_p, ctypes.POINTER(RequestParams)),
    ),
    "ucp_am_send_nbx": (
        c_void_p,
        (c_void_p, c_uint16, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p),
    ),
    "ucp_ep_flush_nbx": (c_void_p, (c_void_p, ctypes.POINTER(RequestParams))),
    "ucp_ep_close_nbx": (c_void_p, (c_void_p, ctypes.POINTER(RequestParams))),
    "ucp_request_check_status": (c_int8, (c_void_p,)),
    "ucp_request_free": (None, (c_void_p,)),
}


class Library:
    """The functions, by their names without ``ucp_``.

    Parameters
    ----------
    shared : ctypes.CDLL

    Raises
    ------
    MissingToolError
        A function is missing.
    VersionError
        The library is older or newer than what this package was tried with.
    """

    def __init__(self, shared: Any) -> None:
        self._functions: dict[str, Any] = {}
        for symbol, (result, arguments) in SYMBOLS.items():
            try:
                function = shared[symbol]
            except AttributeError as cause:
                raise MissingToolError(f"this UCX has no function {symbol}: {_REMEDY}") from cause
            function.restype, function.argtypes = result, arguments
            self._functions[symbol] = function
        numbers = [c_uint() for _ in range(3)]
        self._functions["ucp_get_version"](*map(ctypes.byref, numbers))
        #: Major and minor version of the interface, and the release.
        self.version = (numbers[0].value, numbers[1].value, numbers[2].value)
        if not LEAST <= self.version[:2] <= MOST:
            loaded = ".".join(map(str, self.version))
            raise VersionError(
                f"UCX {loaded} is loaded, which was not tried with this: {_REMEDY}; if it is "
                "MPI's, use another MPI"
            )

    def __getattr__(self, name: str) -> Any:
        return self._functions["ucp_" + name]

    def address(self, name: str) -> int:
        """Address of a function, for compiled code."""
        return ctypes.cast(self._functions["ucp_" + name], c_void_p).value or 0


_loaded: list[Library] = []


def load() -> Library:
    """Load UCX, once.

    MPI may have brought one into this process, which is then taken: another of the same name cannot
    be loaded beside it. Otherwise it is the package's own, or with
    ``RAPIDS_LIBUCX_PREFER_SYSTEM_LIBRARY=true`` the system's. MPI's and the system's may know
    InfiniBand and RoCE.

    Raises
    ------
    MissingToolError
        The package is not installed, or its library does not load or lacks a function.
    VersionError
    """
    if not _loaded:
        _loaded.append(Library(_loaded_before() or _of_package()))
    return _loaded[0]


def _loaded_before() -> Any:
    """Return the library that this process has already; None if there is none."""
    try:
        return ctypes.CDLL(_NAME, os.RTLD_NOLOAD | os.RTLD_LOCAL)
    except OSError:
        return None


def _of_package() -> Any:
    try:
        shared = importlib.import_module("libucx").load_library()[-1]
    except (ImportError, OSError) as cause:
        raise MissingToolError(
            f"channels between machines need UCX, which does not load ({cause}): {_REMEDY}"
        ) from cause
    if shared is None:
        raise MissingToolError(f"the package libucx has no library: {_REMEDY}")
    return shared
