"""Runs the command line as its users do, in this process or in one of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.main import _status
from tests.kit.effort import effort

#: Output, errors, exit status.
Outcome = tuple[str, str, int]


@pytest.fixture
def cli(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Call ``penstock`` with these arguments in this process."""

    def call(*args: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, args)])
        status = _status()
        out, err = capfd.readouterr()
        return out, err, status

    return call


def _heed_interrupts() -> None:
    """A program started from a background shell would ignore Ctrl-C, as that shell does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start ``penstock`` as a program of its own; none outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str | Path) -> subprocess.Popen[str]:
        code = "from penstock.cli.main import run; run()"
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", code, *map(str, args)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=_heed_interrupts,
            )
        )
        return started[-1]

    yield start
    for one in started:
        if one.poll() is None:
            one.kill()
            one.communicate(timeout=60)


@pytest.fixture
def no_verilog_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what is written beside a kernel: in the short run nobody writes its Verilog.

    Yosys takes seconds for it, and other tests of these commands have it.
    """
    if effort(full=False, short=True):
        pytest.importorskip("penstock.hw.export")
        for user in ("penstock.hw.export", "penstock.sim.builds"):
            monkeypatch.setattr(f"{user}.kernel_verilog", lambda *_, **__: "module none;\n")
        window = "penstock.sim.builds.window_kernel_verilog"
        monkeypatch.setattr(window, lambda *_, **__: "module none;\n")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with two small tables, ``a.parquet`` and ``b.parquet``."""
    a = pa.table(
        {
            "id": pa.array(range(6), pa.int32()),
            "t": pa.array([0, 10, 20, 30, 40, 50], pa.int32()),
            "x": pa.array([1, 5, 9, None, 7, 3], pa.int32()),
            "f": pa.array([1.25, 2.5, float("nan"), None, -0.0, 1e300]),
            "name": ["ab", "abc", "b", None, "c", "abd"],
        }
    )
    b = pa.table(
        {
            "id": pa.array(range(5), pa.int32()),
            "t": pa.array([5, 15, 12, 33, 50], pa.int32()),
            "x": pa.array([2, 5, 8, 7, None], pa.int32()),
            "f": pa.array([1.5, 2.5, float("nan"), 0.0, 2.0]),
            "name": ["abc", "ab", "b", "c", None],
        }
    )
    pq.write_table(a, tmp_path / "a.parquet")
    pq.write_table(b, tmp_path / "b.parquet")
    return tmp_path
