"""Queries that programs under test run on workers: their sources, and what their rows must be."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.host.workers.kit import groups, joins
from tests.host.workers.kit.groups import Rows

#: Variable of the environment by which a program is told its case.
VARIABLE = "CASE"

Sources = Mapping[str, Sequence[pa.RecordBatch]]


@dataclass(frozen=True)
class Case:
    """A query.

    Parameters
    ----------
    opened : callable
        Opens a stream on workers.
    sources : callable
        Takes a seed and a number of batches of each source, and gives them by name.
    rows : callable
        What a right sink holds of these, by DuckDB.
    decided : int or None
        Columns that the oracle decides; of the others it may have another value.
    """

    opened: Callable[..., Any]
    sources: Callable[[int, int], Sources]
    rows: Callable[[Sources], Rows]
    decided: int | None = None

    def shown(self, rows: Rows) -> Rows:
        """Return what of rows is compared."""
        return [row[: self.decided] for row in rows]


def _join(name: str) -> Case:
    query = joins.QUERIES[name]
    return Case(
        lambda workers, **how: joins.opened(query, workers, **how),
        lambda seed, count: {
            "a": joins.batches(2 * seed, count), "b": joins.batches(2 * seed + 1, count)
        },
        lambda given: joins.wanted(query, given["a"], given["b"]),
    )  # fmt: skip


CASES = {
    "groups": Case(
        groups.opened,
        lambda seed, count: {"a": groups.batches(seed, count)},
        lambda given: groups.wanted(given["a"]),
        -1,
    ),
    "keyed": _join("keyed full"),
    "theta": _join("theta inner"),
    "sessions": _join("sessions full"),
}


def told() -> Case:
    """Return the case that the environment names."""
    return CASES[os.environ.get(VARIABLE, "groups")]
