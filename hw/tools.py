"""Runs a tool in a process of its own, with a time limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.errors import DeviceError

#: Longest run of any tool, in seconds; a pipeline of 512 units is written within 20 seconds.
TIMEOUT_S = 1800

#: Characters of a tool's output in a message: its end, which has the reason.
REASON_CHARACTERS = 2000


def run_tool(
    name: str,
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Run a tool that works on a design.

    Parameters
    ----------
    name : str
        For messages.
    command : sequence of str
        The program and its arguments.
    folder : Path
        Where it runs.
    environment : mapping, optional
        Variables beside those of this process.
    timeout_s : float
        Longest run.

    Raises
    ------
    DeviceError
        It reports an error or takes too long.
    """
    try:
        done = finish(command, folder, environment=environment, timeout_s=timeout_s)
    except subprocess.TimeoutExpired:
        raise DeviceError(
            f"{name} did not finish within {timeout_s} s; build fewer units"
        ) from None
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        raise DeviceError(f"{name} failed: {output[-REASON_CHARACTERS:]}")
    return done


def finish(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Run a tool whose exit code its caller reads.

    Raises
    ------
    subprocess.TimeoutExpired
        It takes too long.
    """
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
