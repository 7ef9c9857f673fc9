"""``penstock board --virtual`` as a process."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: Seconds until a board listens: it may have a kernel to export first.
_START_S = 240.0
_STOP_S = 30.0

#: The command line, as a process of this environment.
PENSTOCK = [sys.executable, "-c", "from penstock.cli.main import run; run()"]


@dataclass(frozen=True)
class Started:
    """A virtual board.

    Parameters
    ----------
    process : subprocess.Popen
    port : int
    """

    process: subprocess.Popen
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def virtual_board(name: str, *options: str) -> Iterator[Started]:
    """A virtual board in a process of its own."""
    process = subprocess.Popen(
        [*PENSTOCK, "board", "--virtual", name, "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # Ends the wait for its first line, whatever becomes of the process.
    timer = threading.Timer(_START_S, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        timer.cancel()
        found = re.match(rf"virtual {name} at 127\.0\.0\.1:(\d+)$", line)
        assert found, line + process.stdout.read()
        yield Started(process, int(found[1]))
    finally:
        timer.cancel()
        process.kill()
        process.communicate(timeout=_STOP_S)
