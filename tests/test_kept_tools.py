"""Answers of tools that are kept: only where what they were given is the same."""

from __future__ import annotations

import subprocess

import pytest

from tests.kit.kept_tools import Kept


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
