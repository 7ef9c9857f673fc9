"""What is said of a failed stage."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge.placing import _reason

RAISED = """An error occurred while calling o52.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed
barrier ResultStage. Reason: org.apache.spark.api.python.PythonException: Traceback:
  File "cloudpickle.py", line 469, in subimport
    __import__(name)
ModuleNotFoundError: No module named 'jobs'
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1097)
java.lang.RuntimeException: beside it
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (RAISED, "ModuleNotFoundError: No module named 'jobs'"),
        ("calling o52.collectToPython.\n: java.io.IOException: no space", "java.io.IOException: "),
        ("[BARRIER] too few slots\nat x", "[BARRIER] too few slots"),
        ("", "RuntimeError"),
    ],
)
def test_the_line_that_says_what_happened(said: str, reason: str) -> None:
    assert _reason(RuntimeError(said)).startswith(reason)
