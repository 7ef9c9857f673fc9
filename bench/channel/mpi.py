"""Puts into windows of MPI in the benchmark: what ``mpi4py`` does as fast as Python can ask it to.

Put, flush, put of a flag, flush; counts of credits go the other way. ``mpiexec`` starts two ranks:
this module, with the address at which the benchmark listens.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from bench.channel.work import PATIENCE_S, Done, Job, Source, Toucher
from penstock.errors import MissingToolError, ProcessError

#: What carries each, by its name: settings of MPICH.
ON_SHM, ON_TCP = "MPI put on shm", "MPI put on TCP"
TRANSPORTS = {
    ON_SHM: {},
    ON_TCP: {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"},
}
_PUTS, _TOUCHES = 0, 1
_WORD_BYTES = 8


class Near:
    """Two ranks of MPI, of which the first one produces and the second one consumes.

    Parameters
    ----------
    name : str
        One of :data:`TRANSPORTS`.
    cold_bytes : int
        Memory that the first one reads from.

    Raises
    ------
    MissingToolError
    """

    def __init__(self, name: str, cold_bytes: int) -> None:
        mpiexec = shutil.which("mpiexec", path=sysconfig.get_path("scripts"))
        if mpiexec is None or importlib.util.find_spec("mpi4py") is None:
            raise MissingToolError("MPI is not installed: pip install 'penstock[mpi]' mpich")
        self.name = name
        self._folder = tempfile.TemporaryDirectory()
        self._errors = Path(self._folder.name, "errors")
        address = str(Path(self._folder.name, "socket"))
        with _server(address) as server, self._errors.open("wb") as errors:
            rank = [sys.executable, "-m", __name__, address, str(cold_bytes)]
            self._ranks = subprocess.Popen(
                [mpiexec, "-n", "2", *rank],
                env=os.environ | TRANSPORTS[name],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
            try:
                links = [Connection(server.accept()[0].detach()) for _ in range(2)]
            except TimeoutError:
                raise self._failed() from None
        self._links = dict(sorted((self._tell(link), link) for link in links))

    def transfer(self, produce: object, job: Job, source: Source) -> tuple[float, Done]:
        """Run a transfer, in place of :meth:`bench.channel.far.Far.transfer`."""
        for link in self._links.values():
            link.send(job)
        began = self._tell(self._links[_PUTS])
        done = self._tell(self._links[_TOUCHES])
        return int(done.times_ns[-1]) / 1e9 - began, done

    def _tell(self, link: Connection) -> Any:
        try:
            if link.poll(PATIENCE_S):
                return link.recv()
        except EOFError:
            pass
        raise self._failed()

    def close(self) -> None:
        """End the ranks."""
        for link in self._links.values():
            link.close()
        try:
            self._ranks.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._ranks.kill()
        self._folder.cleanup()

    def _failed(self) -> ProcessError:
        self._ranks.kill()
        said = self._errors.read_text(errors="replace")[-2000:]
        return ProcessError(f"the ranks of MPI have ended or hang: {said}")


def _server(address: str) -> socket.socket:
    """Where the ranks say who they are. They wait there for jobs: in MPI they would spin."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    server.settimeout(PATIENCE_S)
    return server


def main(address: str, cold_bytes: int) -> None:
    """Run a rank."""
    from mpi4py import MPI

    world: Any = MPI.COMM_WORLD
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        link = Connection(line.detach())
    link.send(world.rank)
    source = Source(cold_bytes if world.rank == _PUTS else 0)
    while (job := _next(link)) is not None:
        link.send(_put(MPI, world, job, source) if world.rank == _PUTS else _touch(MPI, world, job))


def _next(link: Connection) -> Job | None:
    try:
        return link.recv()
    except EOFError:
        return None


def _window(mpi: Any, world: Any, nbytes: int) -> tuple[Any, np.ndarray]:
    """A window, open to both, and this rank's part of it."""
    window = mpi.Win.Allocate(nbytes, 1, comm=world)
    memory = np.frombuffer(window.tomemory(), np.uint8)
    memory[:] = 0
    window.Lock_all(mpi.MODE_NOCHECK)
    world.Barrier()
    return window, memory


def _put(mpi: Any, world: Any, job: Job, source: Source) -> float:
    """Put all messages, each before its flag; when the first one was begun."""
    window, memory = _window(mpi, world, _WORD_BYTES)
    count, flag = memory.view(np.uint64), np.zeros(1, np.uint64)
    size, slots, byte = job.message_bytes, job.slots, mpi.BYTE
    put, flush, flags = window.Put, window.Flush, slots * size
    began = time.perf_counter()
    for number, message in enumerate(source.messages(job)):
        while number - int(count[0]) >= slots:
            world.Iprobe()  # lets counts arrive
        slot = number % slots
        put((message, size, byte), _TOUCHES, slot * size)
        flush(_TOUCHES)
        flag[0] = number + 1
        put((flag, _WORD_BYTES, byte), _TOUCHES, flags + slot * _WORD_BYTES)
        flush(_TOUCHES)
    world.Barrier()
    window.Unlock_all()
    window.Free()
    return began


def _touch(mpi: Any, world: Any, job: Job) -> Done:
    """Touch all messages where they lie, and put the count after half of the slots."""
    size, slots = job.message_bytes, job.slots
    window, memory = _window(mpi, world, slots * (size + _WORD_BYTES))
    flags, count = memory[slots * size :].view(np.uint64), np.zeros(1, np.uint64)
    toucher, share, given = Toucher(job), max(1, slots // 2), 0
    put, flush, byte = window.Put, window.Flush, mpi.BYTE
    for number in range(job.messages):
        slot = number % slots
        while flags[slot] != number + 1:
            world.Iprobe()  # lets puts arrive
        toucher.take(memory[slot * size : (slot + 1) * size])
        if number + 1 - given >= share:
            count[0] = given = number + 1
            put((count, _WORD_BYTES, byte), _PUTS, 0)
            flush(_PUTS)
    world.Barrier()
    window.Unlock_all()
    window.Free()
    return toucher.done()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
