"""A run of a page: its blocks in order, in one namespace and one empty folder."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.kit.documents import ROOT, Block, blocks

#: For one shell block; on an idle machine each takes a few seconds.
_TIMEOUT_S = 300


def run_page(page: str, folder: Path) -> dict[str, Any]:
    """Run each block of a page that is Python, or is marked to run; the names that are left.

    Parameters
    ----------
    folder : Path
        An empty one, in which the page's reader would be.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONWARNINGS": "ignore",
    }
    with ExitStack() as ends, mock.patch.dict(os.environ):
        before = Path.cwd()
        ends.callback(os.chdir, before)
        os.chdir(folder)
        for block in blocks(page):
            if block.why_not_run is not None:
                continue
            if block.language == "python":
                _python(block, names)
            elif block.mark == "run":
                _shell(block.text, {**os.environ, **environment})
            elif block.mark == "server":
                ends.enter_context(_server(block.text, {**os.environ, **environment}))
            elif block.mark == "in spark":
                names["spark"].sql(block.text).collect()
    return names


def _python(block: Block, names: dict[str, Any]) -> None:
    # Empty lines before it: a traceback has the lines of the page.
    code = "\n" * (block.line - 1) + block.text
    exec(compile(code, str(ROOT / block.page), "exec"), names)


def check_imports(block: Block) -> None:
    """Fail if a block that is not run is no Python, or imports what there is not."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for one in node.names:
                assert hasattr(module, one.name), f"{block}: {node.module} has no {one.name}"
        elif isinstance(node, ast.Import):
            for one in node.names:
                importlib.import_module(one.name)


def _shell(text: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        env=environment,
        timeout=_TIMEOUT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"


@contextmanager
def _server(text: str, environment: dict[str, str]) -> Iterator[None]:
    """A command that runs while the rest of the page does; its last line says what it prints."""
    *command, said = text.strip().splitlines()
    first = re.sub(r"^# |\W.*", "", said)
    process = subprocess.Popen(
        ["bash", "-c", "exec " + "\n".join(command)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    timer = threading.Timer(_TIMEOUT_S, process.kill)  # ends the wait for its line
    timer.start()
    try:
        assert process.stdout is not None
        lines = []
        while not lines or not lines[-1].startswith(first):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        yield
    finally:
        timer.cancel()
        process.terminate()
        process.communicate(timeout=60)
