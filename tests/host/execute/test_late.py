"""Tables are joined in portions, and lanes make the keys of the later ones."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import Pruning
from penstock.host.prune.parts import SearchedLate

TIME = {"l": "t", "r": "t"}
#: Portions of 64 tuples.
SMALL = {"least_pairs": 1, "free_rows": 1 << 20, "run_rows": (64, 256)}
NEAR = "abs(l.x - r.x) + abs(l.y - r.y) < 5"
SOME = "r.t BETWEEN l.t - 900 AND l.t + 500"


def table(rng: np.random.Generator, rows: int) -> pa.Table:
    x, y, k = rng.integers(0, 60, (3, rows)).astype(np.int32)
    return pa.table(
        {
            "id": np.arange(rows),
            "t": np.sort(rng.integers(0, 10_000, rows)),
            "x": x,
            "y": pa.array(y, mask=rng.random(rows) < 0.1),
            "k": k.astype(np.int64),
            "name": pa.array([f"name {n}" for n in k], mask=rng.random(rows) < 0.05),
            "f": rng.random(rows) * 60,
        }
    )


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(3)
    return {"l": table(rng, 500), "r": table(rng, 700)}


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        f"SELECT l.id AS i, r.id AS j FROM l JOIN r ON {NEAR} AND {SOME}",
        f"SELECT l.id AS i, r.id AS j FROM l JOIN r ON l.k = r.k AND {SOME}",
        f"SELECT l.id AS i, r.id AS j FROM l JOIN r ON l.k = r.k AND r.f > l.f AND {SOME}",
        f"SELECT l.id AS i, r.id AS j FROM l JOIN r ON l.name = r.name AND {SOME}",
        f"SELECT l.id AS i, r.id AS j FROM l JOIN r ON abs(l.f - r.f) < 0.5 AND {SOME}",
        f"SELECT l.id AS i, r.id AS j FROM l LEFT JOIN r ON {NEAR} AND {SOME}",
        f"SELECT l.id AS i FROM l LEFT ANTI JOIN r ON {NEAR} AND {SOME}",
        f"SELECT l.id AS i, count(*) AS n FROM l JOIN r ON {NEAR} AND {SOME} GROUP BY l.id",
        f"SELECT l.id AS i, min(r.f) AS m FROM l JOIN r ON l.k = r.k AND {SOME} GROUP BY l.id",
    ],
)
def test_rows_are_those_without_pruning(tables: dict, text: str, *, always: bool) -> None:
    made = []

    def task(self: SearchedLate, *args: object) -> object:
        made.append(len(self.piece.rows))
        return original(self, *args)

    original = SearchedLate.task
    with patch.object(SearchedLate, "task", task):
        found = penstock.sql(text, tables, time=TIME, pruning=Pruning(**SMALL, always=always))
    wanted = penstock.sql(text, tables, time=TIME, pruning=False)
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, wanted.to_pylist()))
    assert len(made) >= 5 or not always
    assert all(rows <= 64 for rows in made)


def test_casts_that_fail_are_found_before_any_task(tables: dict) -> None:
    text = f"SELECT l.id AS i FROM l JOIN r ON CAST(l.id AS TINYINT) = r.k AND {SOME}"
    with pytest.raises(penstock.PenstockError) as without:
        penstock.sql(text, tables, time=TIME, pruning=False)
    with pytest.raises(penstock.PenstockError) as pruned:
        penstock.sql(text, tables, time=TIME, pruning=Pruning(**SMALL, always=True))
    assert (type(pruned.value), str(pruned.value)) == (type(without.value), str(without.value))
