"""Trees of the repository side by side: this one and an earlier one, each in its own processes."""

from __future__ import annotations

import json
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


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The tree of an earlier revision."""
    with tempfile.TemporaryDirectory() as folder:
        then = Path(folder) / "then"
        add = ["git", "worktree", "add", "--detach", "--quiet", str(then), revision]
        subprocess.run(add, check=True, cwd=HERE)
        try:
            yield then
        finally:
            remove = ["git", "worktree", "remove", "--force", str(then)]
            subprocess.run(remove, check=True, cwd=HERE)


def in_process(script: str, arguments: Sequence[str], root: Path) -> Any:
    """What a script says, as JSON in its last line, in a process that works in a tree."""
    done = subprocess.run(
        [sys.executable, str(Path(script).resolve()), *arguments],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        cwd=root,
    )
    if done.returncode:
        raise SystemExit(f"measuring {root} failed, {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
