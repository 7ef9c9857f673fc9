"""The commands that shell text calls, found by bash itself: they are written down, not run."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

#: Programs of environments that pages make.
_OWN = [
    f"{folder}/bin/{name}"
    for folder in ("board", "spark", "/databricks/python")
    for name in ("penstock", "python", "pip", "spark-submit")
]
_SCRIPT = """
note() {{ printf '%s\\0' "$#" "$@" >> "$CALLS"; }}
command_not_found_handle() {{ note "$@"; }}
cd() {{ :; }}
source() {{ :; }}
duckdb() {{ note duckdb "$@"; }}
{own}
{text}
wait
"""


def shell_calls(text: str) -> tuple[list[list[str]], set[str]]:
    """Each command with its arguments, and the files that the text itself writes."""
    with tempfile.TemporaryDirectory() as folder:
        calls = Path(folder) / "calls"
        calls.touch()
        (Path(folder) / "cwd").mkdir()
        own = "\n".join(f'{name}() {{ note {name} "$@"; }}' for name in _OWN)
        done = subprocess.run(
            ["/bin/bash", "--norc", "-c", _SCRIPT.format(own=own, text=text)],
            env={"PATH": "/nowhere", "CALLS": str(calls)},
            cwd=Path(folder) / "cwd",
            timeout=60,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.stderr, f"{done.stderr} in\n{text}"
        parts = calls.read_text(encoding="utf-8").split("\0")[:-1]
        written = {path.name for path in (Path(folder) / "cwd").iterdir()}
    found = []
    while parts:
        count = int(parts[0])
        found.append(parts[1 : count + 1])
        del parts[: count + 1]
    return found, written
