"""Every public name of the bridge has an example in its docstring, which runs."""

from __future__ import annotations

import pytest

from penstock import spark_bridge
from tests.kit.docstrings import examples, run_examples

#: They start jobs of several stages.
SLOW = ("register", "relation", "run_workers", "stream")


@pytest.mark.parametrize("name", SLOW)
def test_a_name_has_an_example(name):
    assert examples(getattr(spark_bridge, name), {})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in spark_bridge.__all__
    ],
)
def test_a_name_has_an_example_that_runs(name, spark, tmp_path):
    before = spark.streams.active
    run_examples(spark_bridge, getattr(spark_bridge, name), tmp_path)
    assert spark.streams.active == before
