"""``--verbose`` prints what Penstock logs; without it nothing is printed but warnings."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

TABLES = ("-t", "w=w.csv")
QUERY = "SELECT x, count(*) AS n FROM w GROUP BY x"


@pytest.fixture(autouse=True)
def quiet_afterwards():
    logger = logging.getLogger("penstock")
    before, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = before
    logger.setLevel(level)


@pytest.mark.parametrize("place", [0, 1, 4])
def test_before_or_behind_a_command(cli, tmp_path, monkeypatch, capfd, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text("x\n1\n")
    words = ["sql", QUERY, *TABLES]
    words.insert(place, "--verbose")
    out, _, status = cli(*words)
    assert (status, out.split()) == (0, ["x", "n", "1", "1"])
    logging.getLogger("penstock.lanes").info("lane %s is parked", "cpu-0")
    assert " penstock.lanes: lane cpu-0 is parked" in capfd.readouterr().err


def test_without_it_only_warnings(cli, capfd):
    cli("devices", "--token-file", "x")
    log = logging.getLogger("penstock.relation")
    assert not log.isEnabledFor(logging.INFO)
    log.warning("%s is not compacted", "r")
    log.info("silent")
    assert capfd.readouterr().err == "r is not compacted\n"


def test_a_library_prints_nothing():
    code = "import penstock, logging; logging.getLogger('penstock.relation').warning('silent')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout + done.stderr == ""
