"""A child process with a log; callers can wait for lines of the log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.errors import FileError, MissingToolError, ProcessError

#: Lines of a log that an error shows.
_SHOWN = 8

#: Seconds in which the last lines of a process that has ended must come.
_REST_S = 2.0

#: Seconds between the request to end and the kill.
_GRACE_S = 20.0


class Child:
    """A process that this one has started. Its output goes to a log file, whose lines are read.

    It is not in the terminal's foreground group: Ctrl-C reaches this process, which ends its
    children in order.

    Parameters
    ----------
    name : str
        For messages.
    command : sequence of str
    log : Path
        Written anew.
    env : mapping, optional
        Added to this process's environment.
    ended : callable, optional
        Called with the child, in another thread, when the process has ended.

    Raises
    ------
    MissingToolError, FileError
        The program does not exist; the log cannot be written.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        ended: Callable[[Child], None] | None = None,
    ) -> None:
        self.name, self.log = name, log
        self._ended = ended
        self._lines: list[str] = []
        self._over = False
        self._news = threading.Condition()
        try:
            self._file = log.open("w", encoding="utf-8")
        except OSError as error:
            raise FileError(f"cannot write the log {log}: {error.strerror}") from error
        try:
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        except OSError as error:
            self._file.close()
            raise MissingToolError(
                f"{name} cannot be started: {command[0]}: {error.strerror}"
            ) from error
        self._reader = threading.Thread(target=self._read, name=f"log of {name}", daemon=True)
        self._reader.start()
        self._waiter = threading.Thread(target=self._wait, name=f"end of {name}", daemon=True)
        self._waiter.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self._file, self.process.stdout as lines:
            for line in lines:
                self._file.write(line)
                self._file.flush()
                with self._news:
                    self._lines.append(line.rstrip("\n"))
                    self._news.notify_all()

    def _wait(self) -> None:
        self.process.wait()
        # The rest of its log; its own children may keep the pipe open for longer.
        self._reader.join(_REST_S)
        with self._news:
            self._over = True
            self._news.notify_all()
        if self._ended is not None:
            self._ended(self)

    def wait_for(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """Wait for the first line that has a pattern.

        Raises
        ------
        ProcessError
            The process ended without such a line, or it did not come in time.
        """
        wanted = re.compile(pattern)
        deadline, seen = time.monotonic() + timeout_s, 0
        with self._news:
            while True:
                for line in self._lines[seen:]:
                    match = wanted.search(line)
                    if match:
                        return match
                seen = len(self._lines)
                if self._over:
                    raise ProcessError(f"{self.name} {self.how_it_ended()}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ProcessError(
                        f"{self.name} did not come up within {timeout_s:g} s{self._tail()}"
                    )
                self._news.wait(left)

    def how_it_ended(self) -> str:
        """A message about a process that has ended by itself, with the end of its log."""
        status = self.process.returncode
        if status is not None and status < 0:
            return f"was killed by {signal.Signals(-status).name}{self._tail()}"
        return f"ended with status {status}{self._tail()}"

    def _tail(self) -> str:
        # Frames of Java's stack say less than the line above them.
        lines = [line.strip() for line in self._lines]
        last = deque((one for one in lines if one and not one.startswith("at ")), _SHOWN)
        return f"; see {self.log}: {' | '.join(last)}" if last else f"; {self.log} is empty"

    def stop(self, grace_s: float = _GRACE_S) -> None:
        """Ask the process to end; if it does not in time, kill it and its children."""
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        end_group(self.process.pid)
        self.process.wait(grace_s)
        self._waiter.join(grace_s)


def end_group(pid: int) -> None:
    """Kill the remaining processes of a child's group: the child, and processes that it started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
