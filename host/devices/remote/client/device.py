"""The ``remote`` device: the device contract, fulfilled by a server."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from os import PathLike

from penstock.errors import DeviceError, UsageError
from penstock.program import AnyProgram, Mode

from ....device.base import PAIRS, TIMEOUT_S, Device, Kernel, Result
from ....device.fields import Header
from ....wire.address import Address, read_token
from .failures import AbsentError
from .kernels import RemoteKernel, program_fields
from .server_session import RemoteSession

_log = logging.getLogger("penstock.remote")

#: Seconds between two attempts to reach a server again.
_RETRY_S = 0.05
#: Most programs whose refusals are remembered.
_REMEMBERED = 256
#: Most calls that wait for tasks at a time, whatever number of lanes a server claims.
_MOST_THREADS = 64

#: Whether calls go through a channel, by the name of the transport; None: if possible.
TRANSPORTS = {"auto": None, "channel": True, "socket": False}


class RemoteDevice(Device):
    """Runs tasks on a device that a server on this machine owns.

    Windows stay in the server; only new rows travel. If the server dies, running tasks fail and the
    windows are lost. The next call waits for a new server, and windows are allocated and written
    again.

    Parameters
    ----------
    address : str
        ``unix:///run/penstock.sock`` or ``tcp://127.0.0.1:4317``; what ``penstock serve`` printed.
    device : str, optional
        Name of a device of the server; by default its first.
    token_file : str or path, optional
        File with the server's token.
    transport : str
        How calls travel: "channel" for one in memory that both processes map, "socket" for the
        connection, "auto" for a channel where that is possible.
    connect_s : float
        Seconds to wait for a server's first answer.
    resume_s : float
        Seconds to wait for a lost server's return.
    answer_s : float
        Seconds to wait for the end of a call, tasks included.

    Raises
    ------
    UsageError
        An argument is not usable.
    DeviceError
        No server answers, or it refuses this client.
    """

    name = "remote"
    keeps_windows = True

    def __init__(
        self,
        address: str | None = None,
        *,
        device: str | None = None,
        token_file: str | PathLike[str] | None = None,
        transport: str = "auto",
        connect_s: float = 10.0,
        resume_s: float = 30.0,
        answer_s: float = TIMEOUT_S,
    ) -> None:
        if address is None:
            raise UsageError(
                "device remote needs the address of a server, which `penstock serve` prints; give "
                "address= or --address"
            )
        if transport not in TRANSPORTS:
            raise UsageError(f"transport is one of {', '.join(TRANSPORTS)}, not {transport!r}")
        for name, value in (("connect_s", connect_s), ("answer_s", answer_s)):
            if not value > 0:
                raise UsageError(f"{name} must be above 0, not {value!r}")
        self.address = Address.parsed(address)
        self._resume_s = resume_s
        self._connect = partial(
            RemoteSession,
            self.address,
            device=device,
            token=None if token_file is None else read_token(token_file),
            channel=TRANSPORTS[transport],
            connect_s=connect_s,
            answer_s=answer_s,
        )
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._sums: Counter[str] = Counter(tasks=0, evaluations=0, pairs=0)
        self._session = self._connect()
        welcome = self._session.welcome
        self.lanes, self.key_widths = welcome.lanes, welcome.key_widths
        self.narrow_widths = welcome.narrow_widths
        self.task_evaluations = welcome.task_evaluations
        # One thread for each task that the server lets wait.
        self._pool = ThreadPoolExecutor(
            min(welcome.depth, 2 * self.lanes + 2, _MOST_THREADS),
            thread_name_prefix="penstock-remote",
        )
        # A running join asks for each batch.
        self._refusals: dict[tuple[AnyProgram, frozenset[Mode]], str | None] = {}

    @property
    def served(self) -> list[Header]:
        """The server's devices: name, lanes, key_widths and description of each."""
        return self.session().welcome.devices

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        key = program, modes
        if key not in self._refusals:
            if len(self._refusals) >= _REMEMBERED:
                self._refusals.clear()
            answer, _ = self.session().call({"call": "refuses", **program_fields(program, modes)})
            reason = answer.get("reason")
            self._refusals[key] = None if reason is None else str(reason)
        return self._refusals.get(key)

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return RemoteKernel(self, program, modes)

    def keep_windows(self, scope: str, blocks: Collection[str]) -> None:
        self.session().call({"call": "keep", "scope": scope, "blocks": list(blocks)})

    def counters(self) -> dict[str, int]:
        with self._lock:
            return dict(self._sums)

    def close(self) -> None:
        self._closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._session.close()

    # -- for kernels ------------------------------------------------------------------------------

    def session(self) -> RemoteSession:
        """The session with the server; a new one if the last one was lost.

        Raises
        ------
        DeviceError
            No server answers, or it refuses this client.
        """
        with self._lock:
            if self._closed.is_set():
                raise DeviceError("device remote is closed; open it again to run tasks")
            if self._session.lost is not None:
                _log.info("connecting again: %s", self._session.lost)
                until = time.monotonic() + self._resume_s
                while True:
                    try:
                        self._session = self._connect()
                        break
                    except AbsentError:
                        if time.monotonic() >= until or self._closed.wait(_RETRY_S):
                            raise
            return self._session

    def run(self, act: Callable[[], Result]) -> Future[Result]:
        """Run a task's call in a thread, and count its result."""

        def counted() -> Result:
            result = act()
            with self._lock:
                self._sums.update(result.counters)
                self._sums.update(tasks=1, pairs=len(result.i))
            return result

        try:
            return self._pool.submit(counted)
        except RuntimeError as cause:
            raise DeviceError("device remote is closed; open it again to run tasks") from cause
