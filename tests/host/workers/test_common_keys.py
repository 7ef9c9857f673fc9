"""A step looks only at rows of the window that may have a key of its new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.expr.columns import Vector
from penstock.host.rows.sides import Loaded, SideRows
from penstock.host.workers.compiling import compiled
from penstock.host.workers.job import Job
from penstock.host.workers.joining import held_window
from penstock.host.workers.joining.held_window import JoinWindow, KeyMarks, is_worth
from penstock.plan.window import FOREVER
from penstock.query.options import QueryOptions
from tests.host.workers.kit.groups import comparable, difference
from tests.host.workers.kit.joins import SCHEMAS, batches, wanted

_NEAR = "b.t BETWEEN a.t - 60 AND a.t + 30"
KEYS = ["a.k = b.k", "a.name = b.name", "a.k = b.k AND a.name = b.name", "a.k + 1 = b.x % 7"]
KINDS = ["", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"]


@pytest.fixture
def left_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of windows that steps did not look at."""
    monkeypatch.setattr(held_window, "_WORTH", 0)
    counted: list[int] = []

    def met(self: JoinWindow, side: str, low: int, high: int, meeting: Any) -> Any:
        found = right(self, side, low, high, meeting)
        counted.append(len(self.old(side, low, high).rows) - len(found.rows))
        return found

    right = JoinWindow.met
    monkeypatch.setattr(JoinWindow, "met", met)
    return counted


def run(query: str, seed: int) -> None:
    """Push rows to one worker, in many steps, and compare what leaves with DuckDB."""
    options = QueryOptions(time={"a": "t", "b": "t"})
    work = compiled(Job(query, SCHEMAS, options, 1, False, 0.0, 1 << 26, Path(), False))
    state: Any = work.state(0)
    given = [batches(seed + source, 40, 12, stray=0) for source in range(2)]
    found = []
    for place, both in enumerate(zip(*given, strict=True)):
        for source, batch in enumerate(both):
            rows = batch.select(work.dealt_schemas[source].names)
            state.fold(rows, source, place * batch.num_rows)
        state.seal()
        found.append(state.release(work.limit(5 * place)))
    found.append(state.release(work.limit(FOREVER)))
    rows = comparable(pa.Table.from_batches(found).select(work.output.names))
    assert not difference(rows, wanted(query, *given)), query
    work.close()


#: The short run has each kind, and each key.
PAIRS = [
    pytest.param(key, kind, marks=() if key in KEYS[::3] or kind == "FULL" else pytest.mark.slow)
    for key in KEYS
    for kind in KINDS
]


@pytest.mark.parametrize(("key", "kind"), PAIRS)
def test_every_kind_of_join(key: str, kind: str, left_out: list[int]) -> None:
    values = "a.n AS i" if kind in ("LEFT SEMI", "LEFT ANTI") else "a.n AS i, b.n AS j"
    run(f"SELECT {values} FROM a {kind} JOIN b ON {key} AND {_NEAR}", len(kind) + len(key))
    assert sum(left_out) > 0


def test_without_an_equality_all_rows_are_met(left_out: list[int]) -> None:
    run(f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON abs(a.x - b.x) < 9 AND {_NEAR}", 5)
    assert sum(left_out) == 0


def test_a_mark_that_is_lost_is_noticed(monkeypatch, left_out: list[int]) -> None:
    right = KeyMarks.find
    monkeypatch.setattr(KeyMarks, "find", lambda self, many: right(self, many)[1:])
    with pytest.raises(AssertionError, match="rows are missing"):
        run(f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND {_NEAR}", 5)


def test_rows_of_a_step_that_are_probed_twice_are_noticed(monkeypatch) -> None:
    """The pairs of two new rows are one side's to find."""

    def met(self: JoinWindow, side: str, low: int, high: int, meeting: Any) -> Any:
        return Loaded.concat([right(self, side, low, high, meeting), self.new(side)])

    right = JoinWindow.met
    monkeypatch.setattr(JoinWindow, "met", met)
    with pytest.raises(AssertionError, match="0 rows are missing"):
        run(f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND {_NEAR}", 5)


@pytest.mark.parametrize("few", [0, 1, 7, 5_000, 400_000])
def test_no_row_with_such_a_key_is_left_out(few: int) -> None:
    rng = np.random.default_rng(few)
    hashes = rng.integers(0, 1 << 32, 1_000_000, dtype=np.uint32)
    valid = rng.random(len(hashes)) < 0.9
    chosen = hashes[:few], None
    found = KeyMarks(chosen).find((hashes, valid))
    assert valid[found].all()
    assert (np.diff(found) > 0).all()
    assert set(np.flatnonzero(valid[:few]).tolist()) <= set(found.tolist())
    if few < 100_000:  # others are few
        assert len(found) <= 1.2 * few + len(hashes) / 8


def test_null_is_no_key() -> None:
    keys, none = np.arange(4, dtype=np.uint32) << 28, np.zeros(4, bool)
    assert not len(KeyMarks((keys, none)).find((keys, None)))
    assert not len(KeyMarks((keys, None)).find((keys, none)))


def test_when_it_is_worth() -> None:
    assert is_worth(10, 1_000)
    assert not is_worth(10, 40)
    assert not is_worth(0, 0)


def test_keys_of_both_sides_agree() -> None:
    options = QueryOptions(time={"a": "t", "b": "t"})
    query = f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.x AND {_NEAR}"
    work = compiled(Job(query, SCHEMAS, options, 1, False, 0.0, 1 << 26, Path(), False))
    common = work.state(0)._held.window._common
    every, values = np.arange(9), np.arange(9) - 4
    of_sides = [
        common.hashed(
            side, SideRows(every, every, {(side, name): Vector(values.astype(dtype), None)})
        )
        for side, name, dtype in (("l", "k", np.int64), ("r", "x", np.int32))
    ]
    assert (of_sides[0][0] == of_sides[1][0]).all()
    work.close()
