"""The record of a cluster's processes in its folder, by which another process can end them."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import FileError, ProcessError, UsageError
from penstock.host.rows.files import write_text
from penstock.private_folder import private_folder

_RECORD = "cluster.json"

#: Seconds in which a cluster must end; it ends its processes one after another.
_STOP_S = 120.0

#: Seconds until a killed process must be gone.
_KILL_S = 10.0


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Keep a folder to this process; when the process ends, the system releases it.

    Raises
    ------
    FileError
        It cannot be made.
    UsageError
        A cluster runs in it.
    """
    try:
        with private_folder(folder) as private:
            lock = private.open("lock", os.O_RDWR | os.O_CREAT)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write into {folder}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"a cluster runs in {folder}; stop it (penstock spark stop --folder {folder}), or "
                "give another --folder"
            ) from None
        yield
    finally:
        os.close(lock)


def write_record(folder: Path, master: str, processes: Mapping[str, int]) -> None:
    """Write the names and numbers of the processes."""
    named = {name: _identity(pid) for name, pid in processes.items()}
    record = {"master": master, "supervisor": _identity(os.getpid()), "processes": named}
    write_text(folder / _RECORD, json.dumps(record, indent=2))


def remove_record(folder: Path) -> None:
    """Remove the record."""
    (folder / _RECORD).unlink(missing_ok=True)


def stop_recorded(folder: Path) -> list[str]:
    """End the cluster in a folder; if its supervisor was killed, end the processes that are left.

    Returns
    -------
    list of str
        Names of the processes that ran.

    Raises
    ------
    FileError
        There is none.
    ProcessError
        It did not end in time.
    """
    path = folder / _RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"no cluster runs in {folder}: there is no {path}") from None
    running = [name for name, one in record["processes"].items() if _runs(*one)]
    supervisor = record["supervisor"]
    if _runs(*supervisor):
        _signal(supervisor[0], signal.SIGTERM, _STOP_S)
        return running
    for name in running:
        _signal(record["processes"][name][0], signal.SIGKILL, _KILL_S)
    remove_record(folder)
    return running


def _identity(pid: int) -> tuple[int, int]:
    """Number and start of a process; a later process of that number has another start."""
    return pid, _started(pid) or 0


def _started(pid: int) -> int | None:
    """Start of a process in ticks of the kernel; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _runs(pid: int, started: int) -> bool:
    return _started(pid) == started


def _signal(pid: int, number: int, timeout_s: float) -> None:
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(file, number)
        poll = select.poll()
        poll.register(file, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            raise ProcessError(f"process {pid} did not end within {timeout_s:g} s; kill -9 {pid}")
    except ProcessLookupError:
        return
    finally:
        os.close(file)
