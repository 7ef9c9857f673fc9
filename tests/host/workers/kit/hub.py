"""An engine of a few lines: a process that passes on what ranks exchange.

It has no MPI, so that tests can kill ranks and see what the others make of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import IO, Any

from penstock.errors import LostError
from penstock.host.workers import Workers

ROOT = Path(__file__).resolve().parents[4]
#: Seconds that other ranks may take.
PATIENCE_S = 120.0


def spread(hosts: int) -> dict[str, str]:
    """Return what lets ranks of :mod:`.rank_app` hold themselves to be on several hosts.

    Then they go through UCX; over TCP, as between hosts without RDMA.
    """
    return {"HOSTS": str(hosts), "UCX_TLS": "tcp,self"}


def place_of(rank: int, hosts: int) -> str:
    """Return the place of a rank: hosts take turns."""
    return f"host {rank % hosts}"


class HubWorkers(Workers):
    """A rank that a :class:`Hub` has started.

    Parameters
    ----------
    address : str
        Of the hub.
    """

    def __init__(self, address: str, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._line = Client(address, "AF_UNIX")
        self._line.send(rank)

    def exchange(self, mine: bytes) -> list[bytes]:
        try:
            self._line.send_bytes(mine)
            if not self._line.poll(PATIENCE_S):
                raise TimeoutError("not all ranks have exchanged")
            return self._line.recv()
        except (EOFError, ConnectionError) as cause:
            raise LostError("a rank has ended before all had exchanged") from cause


class Hub:
    """Starts ranks of a program, as an engine does.

    Parameters
    ----------
    folder : Path
        For the socket.
    command : sequence of str
        Of the program; address, rank and size follow.
    size : int
    variables : mapping, optional
        Of the environment.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        size: int,
        variables: dict[str, str] | None = None,
    ) -> None:
        address = str(folder / f"hub-{os.getpid()}-{id(self)}")
        self._listener = Listener(address, "AF_UNIX")
        environment = {**os.environ, **(variables or {})}
        self.ranks = [
            subprocess.Popen(
                [sys.executable, *command, address, str(rank), str(size)],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]
        self._thread = threading.Thread(target=self._pass_on, args=(size,), daemon=True)
        self._thread.start()

    def _pass_on(self, size: int) -> None:
        lines: dict[int, Connection] = {}
        try:
            while len(lines) < size:
                line: Any = self._listener.accept()
                lines[line.recv()] = line
            while True:
                said = [lines[rank].recv_bytes() for rank in range(size)]
                for line in lines.values():
                    line.send(said)
        except (EOFError, OSError):
            return  # a rank has ended
        finally:
            for line in lines.values():
                line.close()

    def kill(self, rank: int) -> None:
        """Kill a rank."""
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self.ranks[rank].pid, signal.SIGKILL)

    def line(self, rank: int) -> str:
        """Return the next line that a rank says."""
        return _output(self.ranks[rank]).readline().strip()

    def wait(self, timeout_s: float) -> list[tuple[int, str]]:
        """Wait for all ranks; returns exit status and the rest of what each said."""
        watchdog = threading.Timer(timeout_s, self._end)
        watchdog.start()
        try:
            return [(rank.wait(), rest) for rank in self.ranks for rest in [_output(rank).read()]]
        finally:
            watchdog.cancel()
            self.close()

    def close(self) -> None:
        """End all ranks."""
        self._end()
        for rank in self.ranks:
            rank.wait()
            _output(rank).close()
        self._listener.close()
        self._thread.join()

    def _end(self) -> None:
        for rank in self.ranks:
            if rank.poll() is None:
                rank.kill()


def _output(rank: subprocess.Popen[str]) -> IO[str]:
    assert rank.stdout is not None
    return rank.stdout
