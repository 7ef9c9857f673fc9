"""What counts as a line of code."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "count_lines.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("count_lines", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


LINES = script()

SOURCE = b'''"""A module.

Two paragraphs.
"""

import os  # what is beside code does not matter

# A comment.
X = 1
"""A string that documents X is code, since it is no docstring."""


class C:
    """A class."""

    y = """two
lines"""

    async def f(self):
        "A function."
        return (
            # A comment in a statement.
            os.sep,

            X,
        )


def g(): "Nothing else."
'''


def test_code_lines():
    # import, X, its string; class, y of two lines; def, return, two items, parenthesis; g.
    assert LINES.code_lines(SOURCE) == 3 + 3 + 5 + 1
    assert LINES.code_lines(b"") == 0
    assert LINES.code_lines("# Größe\nä = 1\n".encode()) == 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lines in (("a.py", 1), ("p/b.py", 2), ("p/q/c.py", 3), ("r/d.py", 4), ("r/e.txt", 5)):
        file = tmp_path / "host" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n" * lines)
    return tmp_path


EXPECTED = {"host/*.py": 1, "host/p": 5, "host/r": 4}


def test_packages(folder, capsys):
    assert LINES.count("host") == LINES.count("host/") == EXPECTED
    assert LINES.main(["host", "host/p"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["10", "host"],
        ["1", "host/*.py"],
        ["5", "host/p"],
        ["4", "host/r"],
        ["5", "host/p"],
        ["2", "host/p/*.py"],
        ["3", "host/p/q"],
        ["15", "all"],
    ]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_revision(folder):
    def git(*arguments):
        who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *arguments], check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    (folder / "host" / "a.py").write_text("x = 1\n" * 50)
    assert LINES.count("host", "HEAD") == EXPECTED
    assert LINES.count("host")["host/*.py"] == 50


@pytest.mark.parametrize("given", [["none"], ["none", "--git", "HEAD"]])
def test_a_folder_that_is_not_there(folder, given, capsys):
    with pytest.raises(SystemExit) as stopped:
        LINES.main(given)
    assert stopped.value.code == 1
    assert capsys.readouterr().err
