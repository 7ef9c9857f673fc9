"""Processes by their numbers: what they have started, what they run, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path


def tree(pid: int) -> list[int]:
    """A process and all that it and they have started."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            after = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children.setdefault(int(after[1]), []).append(int(path.name))
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += children.get(one, [])
    return found


def marked(name: str, value: str) -> list[int]:
    """Processes that were started with this variable in their environment."""
    mark, found = f"{name}={value}".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        if mark in variables:
            found.append(int(path.name))
    return found


def command(pid: int) -> str:
    """Its command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def kill(pids: Iterable[int]) -> None:
    """``kill -9`` for those that still run."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def wait(app: subprocess.Popen, seconds: float) -> None:
    """Wait until a process ends, so long at most."""
    try:
        app.wait(seconds)
    except subprocess.TimeoutExpired:
        return
