"""Joins of the recorded streams on workers: count and checksum of the rows, known beforehand."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.host.workers import Workers
from tests.host.workers.kit.together import all_of, together
from tests.test_known_answers import LOG_DISORDER, Answer, facts, loaded

QUERIES = ("U1", "A1", "Z1", "Z2", "F4", "G1", "G3", "S2", "N2")
#: On ranks, the short run has a distance, two logs that are out of order, and an OR.
SHORT = ("U1", "Z1", "F4")

pytestmark = pytest.mark.skipif(
    "PENSTOCK_DATA" not in os.environ, reason="PENSTOCK_DATA names no folder with the real streams"
)


def check(name: str, rows: pa.Table) -> None:
    answer, wanted = Answer(), facts("expected.json")[name]
    answer.add(rows.combine_chunks())
    assert answer.rows == wanted["matches"]
    assert f"{answer.sum:016x}" == wanted["checksum"]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.slow
def test_tables(name: str, workers: int) -> None:
    query, tables = loaded(name)
    time = dict.fromkeys("rs", facts("queries.json")[name]["time"])
    check(name, penstock.sql(query.text, tables, time=time, workers=workers))


@pytest.mark.parametrize(
    "name", [pytest.param(q, marks=() if q in SHORT else pytest.mark.slow) for q in QUERIES]
)
def test_streams_on_ranks(name: str) -> None:
    """Each of three ranks has some stretches of both streams, in their order, as its feeds."""
    query, tables = loaded(name)
    disorder = 0
    column = facts("queries.json")[name]["time"]
    if name.startswith("Z"):
        tables = {side: table.sort_by("log_pos") for side, table in tables.items()}
        disorder = LOG_DISORDER
    else:
        order = [(column, "ascending"), ("id", "ascending")]
        tables = {side: table.sort_by(order) for side, table in tables.items()}
    schemas = {side: table.schema for side, table in tables.items()}
    # A fixed number of pushes, so that ranks go on together in time.
    ends = {side: np.linspace(0, t.num_rows, 61).astype(int) for side, t in tables.items()}

    def rank(workers: Workers) -> pa.Table:
        found = []
        with penstock.stream(
            query.text, schemas, time=dict.fromkeys("rs", column), disorder=disorder,
            workers=workers,
        ) as stream:  # fmt: skip
            for side in tables:
                stream.register(side, f"part {workers.rank}")
            for place in range(workers.rank, 60, workers.size):
                for side, table in tables.items():
                    first, last = ends[side][place : place + 2]
                    piece = table.slice(first, last - first)
                    stream.push(side, piece, feed=f"part {workers.rank}")
                found.append(stream.poll())
            found.append(stream.close())
            assert {side: late.num_rows for side, late in stream.late().items()} == {"r": 0, "s": 0}
        return pa.concat_tables(found)

    check(name, pa.concat_tables(all_of(together(3, rank))))
