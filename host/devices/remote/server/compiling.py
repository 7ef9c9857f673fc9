"""Compiles clients' programs in processes beside the server, which can be stopped.

Numba holds the interpreter's lock for seconds while it compiles, and cannot be stopped in a thread.
So a process of its own compiles into the folder of kept code (:mod:`penstock.kept_code`), and
the server loads the code from there. Code that is already there needs no process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from penstock.errors import DeviceError
from penstock.kept_code import FOLDER, NotKeptError, only_kept
from penstock.private_folder import cache_folder
from penstock.program import AnyProgram, Mode

from ....device.base import Kernel
from ....device.programs import any_program_from, modes_from, program_header
from ....wire.errors import error_from, error_header

#: Processes at a time: one client's long compilation leaves room for another's.
_AT_A_TIME = 2
#: Seconds between two checks that the waiting client is still there.
_LOOK_S = 0.5
#: Bytes of memory of such a process: the largest program that is compiled takes 1 GiB.
_MOST_BYTES = 4 << 30
#: Threads of numerical libraries would reserve memory, and compute nothing.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
#: Politeness: tasks of other clients go first.
_NICE = 19


class Compiler:
    """Opens programs; those to be compiled are compiled beside the server, in turns of clients.

    Parameters
    ----------
    limit_s : float
        Seconds of one compilation, at most.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._changed = threading.Condition()
        self._numbers = count()
        # Waiting clients by ticket; compiling clients; the latest turn of waiting clients.
        self._waiting: dict[int, str] = {}
        self._running: set[str] = set()
        self._latest: dict[str, int] = {}

    def open(
        self,
        client: str,
        program: AnyProgram,
        modes: frozenset[Mode],
        act: Callable[[], Kernel],
        check: Callable[[], None],
    ) -> Kernel:
        """Open a kernel by ``act``, which needs a program compiled for these modes.

        Parameters
        ----------
        client : str
            Whose turn it takes to compile.
        check : callable
            Raises when the client is gone.

        Raises
        ------
        DeviceError
            The compilation failed, or took too long.
        """
        if (kernel := _if_kept(act)) is not None:
            return kernel
        with self._turn(client, check):
            kernel = _if_kept(act)  # another client may have wanted the same
            if kernel is None:
                self._compile(program, modes, check)
        if kernel is None and (kernel := _if_kept(act)) is None:
            raise DeviceError(
                f"the server compiled a program, but could not keep it in {cache_folder(FOLDER)}; "
                "serve with PENSTOCK_CACHE_DIR set to a folder that it can write"
            )
        return kernel

    @contextmanager
    def _turn(self, client: str, check: Callable[[], None]) -> Iterator[None]:
        """Wait for a client's turn to compile, and take it.

        A client has one turn at a time; next comes the client with the oldest latest turn.
        """
        ticket = next(self._numbers)
        with self._changed:
            self._waiting[ticket] = client
            try:
                while self._next() != ticket:
                    self._changed.wait(_LOOK_S)
                    check()
                self._running.add(client)
                self._latest[client] = next(self._numbers)
            finally:
                del self._waiting[ticket]
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(client)
                if client not in self._waiting.values():
                    self._latest.pop(client, None)
                self._changed.notify_all()

    def _next(self) -> int | None:
        """The next ticket; None if all have to wait."""
        if len(self._running) >= _AT_A_TIME:
            return None
        free = [
            (self._latest.get(client, -1), ticket)
            for ticket, client in self._waiting.items()
            if client not in self._running
        ]
        return min(free)[1] if free else None

    def _compile(
        self, program: AnyProgram, modes: frozenset[Mode], check: Callable[[], None]
    ) -> None:
        names = sorted(mode.value for mode in modes)
        text = json.dumps({"program": program_header(program), "modes": names})
        deadline = time.monotonic() + self._limit_s
        with subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(int(self._limit_s) + 1)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **_ONE_THREAD},
            # Ctrl-C is for the server, which ends its clients first.
            start_new_session=True,
        ) as process:
            reply, unsent = None, text
            try:
                while reply is None:
                    try:
                        reply, _ = process.communicate(unsent, _LOOK_S)
                    except subprocess.TimeoutExpired:
                        unsent = None  # the next call goes on with what is left
                        check()
                        if time.monotonic() > deadline:
                            raise DeviceError(
                                f"the server compiled a program for {self._limit_s:g} s, which is "
                                "the most, and gave up; simplify the predicate, or serve with a "
                                "larger --compile-s"
                            ) from None
            finally:
                process.kill()
        try:
            answer = json.loads(reply)
        except ValueError as cause:
            raise DeviceError(
                "the process in which the server compiled a program ended by itself (exit status "
                f"{process.returncode}), perhaps for want of memory; simplify the predicate"
            ) from cause
        if "error" in answer:
            raise error_from(answer["error"], "the process that compiles")


def _if_kept(act: Callable[[], Kernel]) -> Kernel | None:
    """Open a kernel by ``act``; None if that would compile."""
    try:
        with only_kept():
            return act()
    except NotKeptError:
        return None


def main(arguments: Sequence[str]) -> None:
    """Compile the program on standard input; failures go to standard output."""
    from ...cpu import CpuDevice

    os.nice(_NICE)
    # Should the server be killed, this process ends by itself.
    seconds = int(arguments[0])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    answer: dict[str, Any] = {}
    try:
        with CpuDevice(1) as device:
            one = json.load(sys.stdin)
            device.open(any_program_from(one["program"]), modes_from(one["modes"])).close()
    except Exception as error:  # the server is told, whatever it is
        answer = {"error": error_header(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
