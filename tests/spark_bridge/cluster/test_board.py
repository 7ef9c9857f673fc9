"""A virtual board as resource of one worker, and the how-to page about it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import MissingToolError
from penstock.sim.local_spark.cluster import Cluster, ClusterConfig
from tests.kit.documents import marked
from tests.spark_bridge.cluster.conftest import TIMEOUT_S, evaluations
from tests.spark_bridge.kit.apps import ROOT

pytestmark = pytest.mark.slow

PAGE = "docs/spark/cluster.md"
MARKS = {"run", "cluster", "set-up"}


@pytest.fixture(scope="module")
def board_python() -> Path:
    """Python of an environment with PYNQ, which Spark cannot share."""
    named = os.environ.get("PENSTOCK_BOARD_PYTHON")
    found = Path(named) if named else ROOT / ".venv-board" / "4.0.0" / "bin" / "python"
    if not found.exists():
        pytest.skip(f"needs PYNQ, and there is no {found}; run scripts/test_board.sh full")
    return found.absolute()


def test_a_join_on_the_board_of_one_worker(java, board_python, tmp_path, batch_join):
    config = ClusterConfig(board="zcu104", board_python=board_python)
    with Cluster(tmp_path, config) as cluster:
        assert cluster.metrics is not None
        assert evaluations(cluster.metrics) == {"board": 0}
        said = batch_join(cluster, "fpga")
        assert said["equal"]
        assert {Path(folder).parents[1].name for folder in said["folders"]} == {"worker-1"}
        assert evaluations(cluster.metrics)["board"] > 1000


def test_an_environment_without_pynq(java, tmp_path):
    config = ClusterConfig(board="zcu104", board_python=Path(sys.executable))
    with pytest.raises(MissingToolError, match=r"has no PYNQ .*pip install '\.\[board"):
        Cluster(tmp_path, config)


def test_the_page(java, board_python, tmp_path):
    """Its blocks, in order, with the environments of these tests in place of those of the page."""
    found = marked(PAGE, MARKS)
    own = {"board/bin": str(board_python.parent), "spark/bin": str(Path(sys.executable).parent)}

    def here(text: str) -> str:
        for name, folder in own.items():
            text = re.sub(rf"(?<![\w/]){name}", folder, text)
        return text

    [started] = [text for mark, text in found if mark == "cluster"]
    process = subprocess.Popen(
        ["bash", "-c", "exec " + here(started)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # Ends the wait for its lines, whatever becomes of the process.
    timer = threading.Timer(2 * TIMEOUT_S, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        lines = []
        while not lines or not lines[-1].startswith("stop "):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        script = "set -euo pipefail\n" + "".join(here(t) for mark, t in found if mark == "run")
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            timeout=2 * TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert re.search(r"^[1-9]\d* rows, as penstock\.sql$", done.stdout, re.M)
        assert re.search(r'evaluations_total\{device="board"\} [1-9]', done.stdout)
        assert process.wait(TIMEOUT_S) == 0  # the last block stops it
    finally:
        timer.cancel()
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
