"""Joins that a worker keeps between tasks; without Spark."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge.lookup.task import KeptJoins


@pytest.fixture(autouse=True)
def thawed():
    yield
    gc.unfreeze()


def joined(closed: list[str], name: str):
    """Of a join, what counts."""
    relation = SimpleNamespace(close=lambda: closed.append(name))
    return SimpleNamespace(options=SimpleNamespace(memory_bytes=100), relation=relation)


def test_the_longest_unused_goes():
    kept, closed = KeptJoins(), []
    joins = {name: joined(closed, name) for name in "abc"}
    for name in "ab":
        kept.keep(name, joins[name], 200)
    assert kept.take("a") is joins["a"]
    assert kept.take("a") is None
    kept.keep("a", joins["a"], 200)
    kept.keep("c", joins["c"], 200)
    assert closed == ["b"]
    kept.keep("c", joins["c"], 50)
    assert closed == ["b", "a", "c"]


def test_what_is_alive_is_left_alone_by_the_collector():
    gc.unfreeze()
    kept = KeptJoins()
    kept.keep("a", joined([], "a"), 100)
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    later = [[] for _ in range(1000)]
    # Once: what later tasks leave is collected.
    kept.keep("a", joined([], "a"), 100)
    assert gc.get_freeze_count() <= frozen
    # A join that goes may be part of a cycle among what is frozen.
    kept.keep("b", joined([], "b"), 100)
    assert gc.get_freeze_count() > frozen
    assert len(later) == 1000
