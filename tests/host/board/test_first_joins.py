"""The how-tos for boards: each block that is marked so runs, in order; each other says why not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.documents import marked, text

PAGES = {
    "docs/hardware/first-join-pynq-z2.md": "3.1.2",
    "docs/hardware/first-join-u280.md": "3.0.1",
}
MARKS = {"run", "server", "set-up", "vendor"}
_TIMEOUT_S = 500


@pytest.mark.parametrize("page", PAGES)
def test_marks_are_what_the_page_says(page: str) -> None:
    before = re.split(r"<!-- vendor -->", text(page))[:-1]
    for part in before:
        assert part.rstrip().endswith("**Not executed here:**")
    assert any(
        f"pynq=={PAGES[page]}" in block for mark, block in marked(page, MARKS) if mark == "set-up"
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_board_page(page: str, tmp_path: Path) -> None:
    pynq = pytest.importorskip("pynq", exc_type=ModuleNotFoundError)
    if (pynq.__version__ >= "3.1") != (PAGES[page] >= "3.1"):
        pytest.skip(f"{page} is for pynq {PAGES[page]}, this is {pynq.__version__}")
    from tests.host.board.process import virtual_board

    bin_folder = Path(sys.executable).parent
    script = "set -euo pipefail\n"
    with ExitStack() as cleanup:
        for mark, block in marked(page, MARKS):
            lines = block.replace("board/bin/", f"{bin_folder}/")
            if mark == "run":
                script += lines
            elif mark == "server":
                subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True, timeout=_TIMEOUT_S)
                name, package = re.findall(r"--virtual (\S+) --package (\S+)", block)[0]
                started = cleanup.enter_context(
                    virtual_board(name, "--package", str(tmp_path / package))
                )
                script = f"set -euo pipefail\nPORT={started.port}\n"
        script = script.replace("127.0.0.1:7967", "127.0.0.1:$PORT")
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            timeout=_TIMEOUT_S,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^[1-9]\d* rows, as on the CPU$", done.stdout, re.M)
