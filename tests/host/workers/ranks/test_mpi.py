"""Ranks that mpiexec has started: of Open MPI or of MPICH, whichever is there.

``PENSTOCK_MPIEXEC`` names another mpiexec; mpi4py takes another library from ``MPI4PY_LIBMPI``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import UsageError
from tests.host.workers.kit.app import sunk
from tests.host.workers.kit.groups import batches, wanted
from tests.host.workers.kit.hub import ROOT, spread

TIMEOUT_S = 120.0
#: Ranks in slow tests; small machines have fewer cores than the most.
_SIZES = (1, *range(3, 9))
_PATH = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ.get("PATH", "")])
MPIEXEC = os.environ.get("PENSTOCK_MPIEXEC") or shutil.which("mpiexec", path=_PATH)
#: Open MPI refuses root and more ranks than cores, both of which tests have.
_VARIABLES = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or find_spec("mpi4py") is None,
    reason="needs mpi4py and mpiexec: pip install 'penstock[mpi]' mpich",
)


def run(
    folder: Path, size: int, *, kill: str = "", hosts: int = 1
) -> subprocess.CompletedProcess[str]:
    """Run the program of ranks under mpiexec, as if on several hosts."""
    assert MPIEXEC is not None
    # Its own helpers lie beside it.
    path = os.pathsep.join([str(Path(MPIEXEC).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, **_VARIABLES, "PATH": path, "PENSTOCK_KILL": kill}
    if hosts > 1:
        environment |= spread(hosts)
    command = [MPIEXEC, "-n", str(size), sys.executable, "-m", "tests.host.workers.kit.rank_app"]
    return subprocess.run(
        [*command, str(folder), "4", "24", "1"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def require_right(folder: Path) -> None:
    found = Counter(row[:-1] for row in sunk(folder / "sink"))
    assert found == Counter(row[:-1] for row in wanted(batches(4, 24)))


@needs_mpi
@pytest.mark.parametrize("size", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in _SIZES)])
def test_ranks_of_mpi_group_what_they_push(size: int, tmp_path: Path) -> None:
    ended = run(tmp_path, size)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("done") == size
    require_right(tmp_path)


@needs_mpi
@pytest.mark.parametrize(
    ("size", "hosts"), [pytest.param(n, 2, marks=pytest.mark.slow) for n in (2, 4, 8)]
)
def test_ranks_of_mpi_on_several_hosts(size: int, hosts: int, tmp_path: Path) -> None:
    """UCX is MPI's own here, if it has brought one."""
    ended = run(tmp_path, size, hosts=hosts)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("done") == size
    require_right(tmp_path)


@needs_mpi
@pytest.mark.slow
def test_a_killed_rank_ends_the_job_which_goes_on_with_another_number(tmp_path: Path) -> None:
    assert run(tmp_path, 3, kill="written:1:1").returncode != 0
    assert run(tmp_path, 2, kill="committed:0:2").returncode != 0
    assert run(tmp_path, 1).returncode == 0
    require_right(tmp_path)


def test_without_mpi4py_the_remedy_is_said(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(UsageError, match=r"pip install '\.\[mpi\]'"):
        penstock.workers.mpi()


@needs_mpi
@pytest.mark.slow
def test_the_example_groups_all_bids(tmp_path: Path) -> None:
    assert MPIEXEC is not None
    command = [MPIEXEC, "-n", "3", sys.executable, "examples/ranks.py", str(tmp_path)]
    subprocess.run(
        command, cwd=ROOT, env={**os.environ, **_VARIABLES}, timeout=TIMEOUT_S, check=True
    )
    groups = pq.read_table(tmp_path / "groups")
    assert groups.num_rows == 1_000 * 4, "each auction has bids in each of four windows"
    assert sum(groups["bids"].to_pylist()) == 6 * 40 * 5_000
