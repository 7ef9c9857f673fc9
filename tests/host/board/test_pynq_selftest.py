"""PYNQ's own self-test of remote boards, as a process, against ``penstock board --virtual``."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pynq.remote.selftest", exc_type=ModuleNotFoundError)

from penstock.host.devices.board.package import Package
from penstock.hw.board import gpio
from tests.host.board.process import PENSTOCK, virtual_board

pytestmark = pytest.mark.slow

_TIMEOUT_S = 300


def penstock(*arguments: str) -> None:
    subprocess.run([*PENSTOCK, *arguments], check=True, timeout=_TIMEOUT_S, capture_output=True)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leds")
    options = ["--board", "zcu104", "--virtual", "--leds", "--units", "4", "--band", "1"]
    penstock("board", "package", *options, "-o", str(folder))
    return folder


@pytest.fixture(scope="module")
def port(package: Path) -> Iterator[int]:
    with virtual_board("zcu104", "--package", str(package)) as board:
        yield board.port


def selftest(port: int, *more: str) -> str:
    """What PYNQ's self-test prints; it must pass."""
    command = [sys.executable, "-m", "pynq.remote.selftest", "--ip", "127.0.0.1"]
    done = subprocess.run(
        [*command, "--port", str(port), *more], timeout=_TIMEOUT_S, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[FAIL]" not in done.stdout
    return done.stdout


def test_without_a_bitstream(port: int) -> None:
    assert re.search(r"summary: \d+ passed, 0 failed, 1 skipped", selftest(port))


def test_with_a_bitstream(port: int, package: Path) -> None:
    said = selftest(port, "--bitstream", str(Package.read(package).path))
    assert "programmed the PL" in said
    assert re.search(rf"{gpio.NAME}@0x[0-9a-f]+: wrote 0x5, read 0x5", said)
    assert "0 failed, 0 skipped" in said
