"""Child processes that end with the process that has started them.

They are new interpreters, never forks: a fork inherits locks of threads that it does not have. So
a stream can be opened in a notebook, in ``python -c`` and beside threads.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from penstock.errors import ProcessError, limit_remedy

from ..points import without_kill
from .line import Line

#: What children run. The collector of cyclic garbage would take a fifth of the time of imports.
_PROGRAM = "import gc; gc.disable(); from penstock.host.workers.local.child import start; start()"
#: ``prctl``'s number of the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
#: A worker is one thread; libraries would start one per core each.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
#: Seconds in which a killed process must be gone.
_GONE_S = 30.0


class WorkerProcess:
    """Child process that runs a worker.

    It must be made by a thread that lives as long as the child may: the system kills the child when
    that thread ends.

    Parameters
    ----------
    rank : int
        For messages.
    armed : bool
        Whether it is killed at the point that a test has named (:mod:`..points`).

    Raises
    ------
    ProcessError
        The system starts no further process.
    """

    def __init__(self, rank: int, armed: bool = True) -> None:
        self.rank = rank
        environment = dict(os.environ) if armed else without_kill(dict(os.environ))
        with _started(rank), ExitStack() as undo:
            mine, its = socket.socketpair()
            undo.callback(mine.close)
            with its:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM, str(its.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,  # the caller's output is not the workers'
                    pass_fds=[its.fileno()],
                    env={**environment, **_ONE_THREAD, "PYTHONPATH": _search_path()},
                    # Ctrl-C is for the caller, who closes the stream.
                    start_new_session=True,
                )
            undo.callback(self._process.wait, _GONE_S)
            undo.callback(self._process.kill)
            self.pidfd = os.pidfd_open(self._process.pid)
            undo.pop_all()
        self.line = Line(mine, f"worker {rank} (process {self._process.pid})")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def how_it_ended(self) -> str:
        """Return how the process has ended, as errors say it."""
        status = self._process.poll()
        if status is None:
            return "still runs"
        if status < 0:
            with suppress(ValueError):
                return f"was killed by {signal.Signals(-status).name}"
            return f"was killed by signal {-status}"
        return f"ended with status {status}"

    def kill(self) -> None:
        """Kill the process, even a stopped one; :meth:`end` waits for its end."""
        self._process.kill()

    def end(self, grace_s: float = 0.0) -> None:
        """Wait for the end; kill the process if it does not come in time."""
        if not self._ends_within(grace_s):
            self._process.kill()
            self._ends_within(_GONE_S)
        self._process.poll()  # so that the system forgets it
        self.line.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def _ends_within(self, seconds: float) -> bool:
        return self.has_ended or bool(select.select([self.pidfd], [], [], seconds)[0])


@contextmanager
def _started(rank: int) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        remedy = limit_remedy(cause, "end other processes")
        raise ProcessError(
            f"worker {rank} cannot be started: {cause.strerror}; {remedy}, or use fewer workers"
        ) from cause


def _search_path() -> str:
    """Return this process's module search path, which a new process may not have by itself."""
    return os.pathsep.join(dict.fromkeys(place or os.getcwd() for place in sys.path))


def end_with_parent(parent: int) -> None:
    """Let this process be killed when its parent ends.

    Parameters
    ----------
    parent : int
        Process that has started this one; if it has ended already, this one ends at once.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)
