"""``make setup`` on machines that lack something: the message names what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

#: A stand-in for Python that answers the questions of the script, and nothing else.
FAKE = """#!/bin/sh
case "$*" in
  *'sys.exit(sys.version_info'*) exit {too_old};;
  *'import ensurepip, venv'*) exit {no_venv};;
  *print*) echo 3.12;;
  *) echo "unexpected: $*" >&2; exit 9;;
esac
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A path with a shell's tools and no Python."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("bash", "dirname", "ls", "sh"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("PYTHON", raising=False)
    return folder


def fake_python(file: Path, *, too_old: bool = False, no_venv: bool = False) -> None:
    file.write_text(FAKE.format(too_old=int(too_old), no_venv=int(no_venv)))
    file.chmod(0o755)


def setup(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(ROOT / "scripts" / "setup.sh"), str(folder)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_no_python(tools, tmp_path):
    done = setup(tmp_path / "venv")
    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr
    assert "make setup PYTHON=/path/to/python3.11" in done.stderr


def test_only_an_old_python(tools, tmp_path):
    fake_python(tools / "python3", too_old=True)
    done = setup(tmp_path / "venv")
    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr


def test_a_python_without_venv(tools, tmp_path):
    fake_python(tools / "python3", too_old=True)
    fake_python(tools / "python3.12", no_venv=True)
    done = setup(tmp_path / "venv")
    assert done.returncode == 1
    assert "sudo apt install python3.12-venv" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_the_python_that_was_named_is_the_only_one_tried(tools, tmp_path):
    fake_python(tools / "python3")
    fake_python(tools / "mine", too_old=True)
    done = setup(tmp_path / "venv", PYTHON="mine")
    assert done.returncode == 1
    assert "no Python 3.11 or newer among: mine" in done.stderr


def test_a_folder_of_something_else_is_left_alone(tools, tmp_path):
    fake_python(tools / "python3")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    done = setup(tmp_path / "home")
    assert done.returncode == 1
    assert "is no virtual environment" in done.stderr
    assert (tmp_path / "home" / "letter").read_text() == "dear"
