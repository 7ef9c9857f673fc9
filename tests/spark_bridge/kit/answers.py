"""Queries over real data with known exact results; see PENSTOCK_DATA in docs/spark/tables.md."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FOLDER = os.environ.get("PENSTOCK_DATA")
needs_data = pytest.mark.skipif(
    not FOLDER, reason="needs the environment variable PENSTOCK_DATA: a folder"
)

TIMED = ("U1", "U2", "A1", "B1", "B2", "Z1", "Z2", "F1", "F2", "F4", "G1", "G3", "S1", "S2", "N2")
ROWS = ("U3", "A2", "F3")

#: Microseconds by which the two network logs, in the order of arrival, are out of order at most.
LOG_DISORDER = 400_000_000


@cache
def facts(name: str) -> dict:
    return json.loads(Path(FOLDER or "", name).read_text(encoding="utf-8"))


def path_of(name: str, alias: str) -> Path:
    """The file of one table of a query."""
    return Path(FOLDER or "", f"{facts('queries.json')[name][alias]}.parquet")


def text_of(name: str) -> str:
    """A query that gives the ids of the pairs, over the tables r and s."""
    query = facts("queries.json")[name]
    where = f" WHERE {query['where']}" if query["where"] else ""
    return f"SELECT r.id AS i, s.id AS j FROM r JOIN s ON {query['on']}{where}"


def options_of(name: str) -> dict:
    """Time columns and ROWS window of a query."""
    query = facts("queries.json")[name]
    return {"time": dict.fromkeys("rs", query["time"]), "rows": query["rows"]}


def arrivals(name: str) -> tuple[dict[str, pa.Table], int]:
    """The tables of a query in the order in which their rows came, and the disorder of that."""
    tables = {alias: pq.read_table(path_of(name, alias)) for alias in "rs"}
    if name.startswith("Z"):
        return {alias: own.sort_by("log_pos") for alias, own in tables.items()}, LOG_DISORDER
    if name == "N2":  # flights are listed by scheduled time, and joined by that of departure
        order = [("dep_min", "ascending"), ("id", "ascending")]
        return {alias: own.sort_by(order) for alias, own in tables.items()}, 0
    return tables, 0


#: Columns of :func:`summed`.
SUMS = "pairs bigint, checksum bigint"


def summed(batches):
    """Number and checksum of each batch of pairs; for ``mapInArrow``.

    In the tasks: millions of pairs would fill the memory of the driver.
    """
    for batch in batches:
        left, right = (batch.column(c).to_numpy().astype(np.uint64) for c in ("i", "j"))
        with np.errstate(over="ignore"):
            mixed = (left + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ (
                right + np.uint64(1)
            ) * np.uint64(0xC2B2AE3D27D4EB4F)
            total = mixed.sum(dtype=np.uint64).view(np.int64)
        yield pa.record_batch([[batch.num_rows], [int(total)]], names=["pairs", "checksum"])


class Answer:
    """Count and checksum of pairs that come batch by batch, some of them more than once."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[int, int]] = {}

    def __call__(self, rows, batch: int) -> None:
        """Take the rows of a batch, in place of what it gave before."""
        found = rows.mapInArrow(summed, SUMS).collect()
        self._of[batch] = (
            sum(row["pairs"] for row in found),
            sum(row["checksum"] for row in found),
        )

    @property
    def batches(self) -> int:
        return len(self._of)

    def check(self, name: str) -> None:
        pairs, checksum = (sum(own) for own in zip(*self._of.values(), strict=True))
        expected = facts("expected.json")[name]
        assert pairs == expected["matches"]
        assert f"{checksum % (1 << 64):016x}" == expected["checksum"]
