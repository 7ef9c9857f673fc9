"""Queries mean the same with each release of sqlglot that ``pyproject.toml`` allows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
import sqlglot

from tests.kit.effort import effort
from tests.penstock.kit.corpus import ROOT, plans

_PIP = (sys.executable, "-m", "pip")


def allowed() -> tuple[str, tuple[int, ...]]:
    """The lowest release, and the first minor one that is not allowed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = (one for one in project["dependencies"] if one.startswith("sqlglot"))
    lowest, end = re.fullmatch(r"sqlglot>=([\d.]+),<([\d.]+)", line).groups()
    return lowest, numbers(end)


def numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def ran(*command: str) -> str:
    """Output of a command of pip; without an index there is nothing to test."""
    done = subprocess.run([*_PIP, *command], capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"pip finds no sqlglot: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


def check(release: str) -> None:
    """Compare plans of one query in some, made with a release, with those of the installed one."""
    folder = ROOT / "build" / "sqlglot" / release
    if not (folder / "sqlglot").is_dir():
        ran("install", "--quiet", "--no-deps", "--target", str(folder), f"sqlglot=={release}")
    every = effort(4, 1)
    path = os.pathsep.join([str(folder), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.penstock.kit.corpus", str(every)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    (version, of_release), of_installed = json.loads(done.stdout), plans(every)
    assert version == release
    assert of_release.keys() == of_installed.keys()
    differing = {text for text in of_installed if of_installed[text] != of_release[text]}
    assert differing == set()


def test_the_installed_release_is_allowed():
    lowest, end = allowed()
    assert numbers(lowest) <= numbers(sqlglot.__version__) < end


def test_the_lowest_release():
    check(allowed()[0])


@pytest.mark.slow
def test_all_releases():
    lowest, end = allowed()
    (line,) = re.findall("Available versions: (.*)", ran("index", "versions", "sqlglot"))
    releases = [one for one in line.split(", ") if numbers(lowest) <= numbers(one) < end]
    assert lowest in releases
    for release in releases:
        check(release)
