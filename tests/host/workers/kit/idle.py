"""A child that says that it is there, and then waits for nothing."""

from __future__ import annotations

import signal
import socket
import sys

from penstock.host.workers.local.line import Line
from penstock.host.workers.local.spawning import end_with_parent


def start() -> None:
    end_with_parent(int(sys.argv[2]))
    Line(socket.socket(fileno=int(sys.argv[1])), "the stream").send("here", 10.0)
    signal.pause()
