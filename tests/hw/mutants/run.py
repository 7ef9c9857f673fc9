"""Runs tests against mutants, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from .plugin import MUTANT, OUTCOME, ROOT

#: Of each test. A proof takes longest, some minutes.
TIMEOUT_S = 600


class Verdict(Enum):
    """What became of a mutant, or of the hardware as it is."""

    #: A test said no.
    NOTICED = "noticed"
    #: All tests passed.
    SURVIVED = "survived"
    #: Nothing is known: the mutation was not applied, no test ran to its end, or something else
    #: went wrong.
    BROKEN = "broken"


@dataclass(frozen=True)
class Outcome:
    """How tests ended.

    Parameters
    ----------
    verdict : Verdict
    seconds : float
        Of the tests alone.
    text : str
        What pytest printed.
    """

    verdict: Verdict
    seconds: float
    text: str


def run(nodes: Collection[str], mutant: int | None = None) -> Outcome:
    """Run tests on a mutant of the list, or on the hardware as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcome.json"
        options = ("-q", "-x", "-m", "not slow", "-p", f"{__package__}.plugin")
        command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", *nodes]
        place = "" if mutant is None else str(mutant)
        limit_s = TIMEOUT_S * len(nodes)
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, MUTANT: place, OUTCOME: str(path), "TMPDIR": folder},
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(Verdict.BROKEN, limit_s, f"longer than {limit_s} s")
        text = done.stdout + done.stderr
        if not path.exists():
            return Outcome(Verdict.BROKEN, 0, text)
        outcome = json.loads(path.read_text())
    seconds = sum(test["seconds"] for test in outcome["tests"])
    applied = outcome["applied"] == (mutant is not None)
    return Outcome(_verdict(outcome["tests"]) if applied else Verdict.BROKEN, seconds, text)


def _verdict(tests: list[dict]) -> Verdict:
    failed = [test for test in tests if test["result"] == "failed"]
    if failed:
        return Verdict.NOTICED if all(test["judged"] for test in failed) else Verdict.BROKEN
    passed = [test for test in tests if test["result"] == "passed"]
    # A test that is skipped notices nothing.
    return Verdict.SURVIVED if passed and len(passed) == len(tests) else Verdict.BROKEN
