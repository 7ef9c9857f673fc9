"""Streams that an earlier revision has begun go on; see tests/golden/README.md."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from tests.golden.kept import answer_of, rows_of, unpacked
from tests.golden.spark import SPARK_STREAMS, played
from tests.host.lookup.nodes.kit import nodes_of

#: One of each kind.
_SHORT = ("full join", "tumbling groups", "nodes")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in _SHORT else pytest.mark.slow) for n in SPARK_STREAMS],
)
def test_a_stream_goes_on(spark, tmp_path, name):
    if SPARK_STREAMS[name].sink == "delta":
        pytest.importorskip("deltalake", reason="needs pip install 'penstock[delta]'")
    kept = unpacked(tmp_path)
    place = str(kept / "relations" / "by key")
    with nodes_of(place, 2) if name == "nodes" else nullcontext():
        assert rows_of(played(spark, kept, name)) == answer_of(kept, f"{name} in Spark")
