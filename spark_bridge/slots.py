"""A semaphore between processes of a host that share a device, made of locked files."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

from penstock.errors import DeviceError
from penstock.private_folder import private_folder


@contextmanager
def slot(device: str, slots: int, timeout_s: float) -> Iterator[None]:
    """Hold one of a device's slots.

    When a process ends, however it does, the system releases its lock.

    Parameters
    ----------
    device : str
        Any name on which the processes agree.
    slots : int
        How many processes may use the device at a time.
    timeout_s : float

    Raises
    ------
    DeviceError
        No slot became free in time.
    FileError
        The folder of the locks is not this user's alone.
    """
    names = [f"{sha256(device.encode()).hexdigest()[:16]}.{number}" for number in range(slots)]
    file = _locked_now(names)
    if file is None:
        file = _locked_in_time(names, timeout_s)
    if file is None:
        raise DeviceError(
            f"device {device} was busy for {timeout_s:g} s: {slots} other tasks of this host use "
            "it; raise spark.penstock.device.waitSeconds, let fewer tasks run at a time "
            "(spark.task.cpus, resources), or share it through `penstock serve`"
        )
    try:
        yield
    finally:
        os.close(file)


def _opened(name: str) -> int:
    # In the temporary folder: several hosts may share the user's cache folder.
    with private_folder(Path(gettempdir()) / f"penstock-slots-{os.geteuid()}") as folder:
        return folder.open(name, os.O_RDWR | os.O_CREAT)


def _locked_now(names: Sequence[str]) -> int | None:
    """A free slot, locked, as an open file; None if there is none."""
    for name in names:
        file = _opened(name)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
        else:
            return file
    return None


def _locked_in_time(names: Sequence[str], timeout_s: float) -> int | None:
    """The first slot that becomes free, locked. Threads wait: a lock has no time-out."""
    mutex = threading.Lock()
    ready = threading.Event()
    found: list[int] = []
    is_over = False

    def wait(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)
        with mutex:
            if is_over or found:
                os.close(file)
                return
            found.append(file)
        ready.set()

    for name in names:
        file = _opened(name)
        threading.Thread(target=wait, args=(file,), name="penstock-slot", daemon=True).start()
    ready.wait(timeout_s)
    with mutex:
        is_over = True
        return found[0] if found else None
