"""Every public name has an example in its docstring, which runs and gives what it shows.

Those of ``penstock.spark_bridge``: ``tests/spark_bridge/test_examples_of_names.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import penstock
from penstock import spark_bridge, workers
from tests.kit.docstrings import examples, public, run_examples
from tests.kit.documents import ROOT

#: They bind MPI to their process.
OF_RANKS = ["MpiWorkers", "mpi"]


@pytest.mark.parametrize(
    ("name", "value"),
    [*public(penstock), *(one for one in public(workers) if one[0] not in OF_RANKS)],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_name_has_an_example_that_runs(name, value, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    run_examples(penstock, value, tmp_path)


def test_a_page(tmp_path):
    pytest.importorskip("bokeh", reason="needs pip install 'penstock[page]'")
    run_examples(penstock, penstock.RunningQuery.page, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs pip install 'penstock[mpi]'")
def test_names_of_ranks():
    command = [sys.executable, "-m", "tests.kit.docstrings", "penstock.workers", *OF_RANKS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", OF_RANKS)
def test_names_of_ranks_have_examples(name):
    assert examples(getattr(workers, name), {})


def test_what_is_wrong_is_noticed(tmp_path):
    def without():
        """Nothing."""

    def skipped():
        """
        >>> 1 / 0  # doctest: +SKIP
        """

    def another():
        """
        >>> len(orders)
        3
        """

    for function, message in ((without, "no example"), (skipped, "no example"), (another, "Got")):
        with pytest.raises(AssertionError, match=message):
            run_examples(penstock, function, tmp_path)


@pytest.mark.parametrize("module", [penstock, spark_bridge])
def test_only_public_names_are_listed(module):
    assert sorted(dir(module)) == sorted(module.__all__)
