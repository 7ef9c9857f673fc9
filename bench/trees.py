"""Trees of the repository side by side: this one and an earlier one, each in its own processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: This tree.
HERE = Path(__file__).resolve().parents[1]
_TIMEOUT_S = 600
#: Folders that are installed as packages of penstock.
_ROOMS = ("host", "spark_bridge", "hw", "sim", "constraints")


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The tree of an earlier revision, whose packages :func:`environment` imports."""
    with tempfile.TemporaryDirectory() as folder:
        then = Path(folder) / "then"
        add = ["git", "worktree", "add", "--detach", "--quiet", str(then), revision]
        subprocess.run(add, check=True, cwd=HERE)
        for room in _ROOMS:
            # Found before those that are installed, which are this tree's.
            (then / "penstock" / room).symlink_to(then / room)
        try:
            yield then
        finally:
            remove = ["git", "worktree", "remove", "--force", str(then)]
            subprocess.run(remove, check=True, cwd=HERE)


def environment(root: Path) -> dict[str, str]:
    """Return the environment of a process that imports a tree's packages; so do its children."""
    return {**os.environ, "PYTHONPATH": str(root)}


def in_process(script: str, arguments: Sequence[str], root: Path) -> Any:
    """What a script says, as JSON in its last line, in a process that works in a tree."""
    done = subprocess.run(
        # Without the script's own folder, whose files would hide others.
        [sys.executable, "-P", str(Path(script).resolve()), *arguments],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        cwd=root,
        env=environment(root),
    )
    if done.returncode:
        raise SystemExit(f"measuring {root} failed, {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
