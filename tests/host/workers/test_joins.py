"""Joins on workers give the rows that DuckDB gives on the same rows, each once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock import Checkpoint, Running
from penstock.errors import QueryError, UsageError
from tests.host.workers.kit.groups import comparable, numbered
from tests.host.workers.kit.joins import (
    QUERIES,
    SCHEMA,
    SCHEMAS,
    batches,
    opened,
    wanted,
    without,
)

TIME = {"a": "t", "b": "t"}


def calls(seed: int, count: int, stray: int) -> list[tuple[str, pa.RecordBatch]]:
    """Batches of both sources, cut and mixed at random; of each source in its order."""
    rng = Random(seed)
    rest = {"a": batches(seed, count, stray=stray), "b": batches(seed + 1, count, stray=stray)}
    found = []
    while any(rest.values()):
        source = rng.choice([name for name, left in rest.items() if left])
        batch = rest[source].pop(0)
        cut = rng.randint(0, batch.num_rows)
        found += [(source, part) for part in (batch.slice(0, cut), batch.slice(cut))]
    return found


def of(given: list[tuple[str, pa.RecordBatch]], source: str) -> list[pa.RecordBatch]:
    return [batch for name, batch in given if name == source]


@pytest.mark.parametrize("seed, name", list(enumerate(QUERIES)), ids=QUERIES)
def test_streams(seed: int, name: str) -> None:
    given = calls(seed, 12, stray=7)
    workers, latency_s = (1, 2, 3)[seed % 3], (0.0, 0.02)[seed % 2]
    pieces = []
    with opened(QUERIES[name], workers, flow={"latency_s": latency_s}) as stream:
        for source, batch in given:
            stream.push(source, batch)
            pieces.append(stream.poll())
        late = stream.late()
        pieces.append(stream.close())
    assert late["a"].num_rows and late["b"].num_rows
    left, right = (without(of(given, source), late[source]) for source in "ab")
    expected = wanted(QUERIES[name], left, right)
    assert comparable(pa.concat_tables(pieces)) == expected
    assert len(expected) > 5
