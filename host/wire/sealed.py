"""Memory without a name that several processes map: a memfd, sealed so that it cannot shrink.

A file that shrinks kills whoever reads behind its end. The kernel frees the memory when all
processes that have it open or mapped have let it go or died.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from penstock.errors import DeviceError, limit_remedy

from ..device.fields import MalformedError


def can_seal() -> bool:
    """Whether this system has sealed memfds."""
    return hasattr(os, "memfd_create") and hasattr(fcntl, "F_ADD_SEALS")


def create_sealed(name: str, size: int) -> int:
    """Make memory of zeros; returns its descriptor, which children do not inherit.

    Parameters
    ----------
    name : str
        What links in ``/proc`` show.
    size : int
        Bytes.

    Raises
    ------
    OSError
        No memory or descriptor is free.
    """
    file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(file)
        raise
    return file


@contextmanager
def memory_or_remedy(label: str) -> Iterator[None]:
    """Turn the system's refusal of memory or a descriptor into an error that names a remedy.

    Parameters
    ----------
    label : str
        Name of the thing that cannot be made, for the message.

    Raises
    ------
    DeviceError
    """
    try:
        yield
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or cause
        remedy = limit_remedy(cause, "free memory")
        raise DeviceError(f"no {label}: {reason}; {remedy}, or start fewer workers") from cause


def create_mapped(name: str, size: int, label: str) -> tuple[int, np.ndarray]:
    """Make memory as :func:`create_sealed` does, and map it; ``label`` is its name in messages.

    Raises
    ------
    DeviceError
        No memory or descriptor is free.
    """
    with memory_or_remedy(label):
        file = create_sealed(name, size)
        try:
            return file, map_memory(file, size)
        except BaseException:
            os.close(file)
            raise


def sealed_size(file: int) -> int:
    """Bytes of memory that another process has made.

    Raises
    ------
    MalformedError
        The file could shrink, or is no memfd.
    OSError
        There is no such descriptor.
    """
    about = os.fstat(file)
    # Pages of other sizes can be missing when they are read, which kills.
    is_plain = stat.S_ISREG(about.st_mode) and os.fstatvfs(file).f_bsize == mmap.PAGESIZE
    try:
        is_sealed = is_plain and fcntl.fcntl(file, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    except OSError:
        is_sealed = False  # a file of a disk has no seals
    if not is_sealed:
        raise MalformedError("the shared memory offered is not sealed, or no memory")
    return about.st_size


def map_memory(file: int, size: int, start: int = 0) -> np.ndarray:
    """Map memory, shape (size,), uint8; it is unmapped when the last view of it is gone.

    Parameters
    ----------
    file, size : int
    start : int
        Offset in the memory; a multiple of a page.
    """
    return np.frombuffer(mmap.mmap(file, size, offset=start), np.uint8)
