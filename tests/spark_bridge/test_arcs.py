"""Where rows meet a relation, and which arc of the hash a key lies in; without Spark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import UsageError
from penstock.expr.columns import Vector
from penstock.host.keys.hashing import HASH, hash_keys
from penstock.host.lookup.memory import MemorySplit
from penstock.host.relation import open_relation
from penstock.host.relation.folder.pins import Pins
from penstock.host.relation.folder.reading import file_store
from penstock.plan.lookup import LookupPlan
from penstock.query.compiler import compile_query
from penstock.query.options import QueryOptions
from penstock.spark_bridge.compiled import Compiled
from penstock.spark_bridge.lookup.arcs import CELLS, ArcOf, WantedPlace, arcs
from penstock.spark_bridge.lookup.versions import DRIVERS, DriverPins
from tests.spark_bridge.kit.lookups import QUERIES, customers, orders, renew, stored

OPTIONS = QueryOptions(relation="customers", time_zone="UTC")
SCHEMAS = {"orders": orders().schema, "customers": customers().schema}


@pytest.mark.parametrize("lanes", [1, 2, 3, 200, CELLS])
def test_arcs_are_cells_side_by_side(lanes):
    hashes = np.sort(np.random.default_rng(1).integers(0, 1 << 64, 200_000, np.uint64))
    found = arcs(hashes, lanes)
    assert (np.diff(found) >= 0).all()
    assert set(found) == set(range(lanes))
    counts = np.bincount(found)
    assert counts.max() <= 2 * len(hashes) / lanes + 100
    cell = hashes >> np.uint64(54)
    assert all(len(set(found[cell == one])) <= 1 for one in (0, 1, 511, 512, 1023))


def arc_of(query: str, lanes: int) -> ArcOf:
    return ArcOf(Compiled(query, SCHEMAS, OPTIONS), "r", ("id",), HASH, lanes)


def test_a_key_is_in_the_arc_of_its_hash():
    keys = orders()["customer"].combine_chunks()
    found = arc_of(QUERIES["left"], 7)([keys])
    assert found.type == pa.int32()
    assert found.null_count == 0
    values = keys.fill_null(0).to_numpy()
    hashes, _ = hash_keys([Vector(values, None)], len(values))
    is_there = keys.is_valid().to_numpy(zero_copy_only=False)
    assert (found.to_numpy()[is_there] == arcs(hashes, 7)[is_there]).all()
    assert set(found.to_numpy()[~is_there]) == {0}


def test_a_key_is_in_one_arc_whatever_is_computed():
    query = "SELECT o.id FROM orders o JOIN customers c ON o.customer + 1 = 2 * c.id"
    keys = pa.array([*range(100)] * 2)
    found = arc_of(query, 5)([keys]).to_numpy()
    assert (found[:100] == found[100:]).all()
    assert len(set(found)) == 5


@dataclass
class Stored:
    """Of a version, what counts."""

    rows: int
    bytes: int


def place(asked: WantedPlace, *, rows=20_000_000, query=QUERIES["left"], **options):
    plan = LookupPlan(compile_query(query, SCHEMAS, OPTIONS), "customers", ("id",))
    split = MemorySplit(36 << 20, 8 << 20, 50 << 20, 30 << 20)
    given = {"shuffled": 4, "kept_joins": 4, "is_remote": False, "has_nodes": False, **options}
    return asked.choose(plan, Stored(rows, rows * 100), split, **given)


def test_the_model():
    asked = WantedPlace("auto", None, ordered=False)
    few = place(asked, rows=10_000)
    assert (few.lanes, few.arcs) == (None, None)
    assert "keeps 100% of what comes" in few.why
    near = place(asked)
    assert near.lanes is None
    assert "saves less than a shuffle costs" in near.why
    far = place(asked, is_remote=True)
    assert (far.lanes, far.arcs) == (4, 4)
    assert "saves more than a shuffle costs" in far.why
    # Workers that keep four arcs of 200 seldom have the one that they get.
    assert place(asked, is_remote=True, shuffled=200).lanes is None
    assert place(asked, is_remote=True, has_nodes=True).lanes is None
    assert place(WantedPlace(None, None, ordered=True), is_remote=True).lanes is None
    assert place(WantedPlace("arcs", None, ordered=False), shuffled=3000).arcs == CELLS


def test_asked_twice():
    for given in (
        ("place", None, False),
        ("arcs", None, True),
        ("in place", 2, False),
    ):
        with pytest.raises(UsageError):
            WantedPlace(given[0], given[1], ordered=given[2])


# -- pins of batch queries -------------------------------------------------------------------------


def pinned(made) -> set[int]:
    return Pins(file_store(made.name)).numbers()


def test_pins_of_a_driver(tmp_path, monkeypatch):
    made, pins = stored(tmp_path / "customers.rel"), DriverPins()
    assert pins.pin(made) == 1
    renew(made, 2)
    assert pins.pin(made) == pins.pin(open_relation(made.name)) == 2
    made.vacuum(keep_s=0)
    assert pinned(made) == {1, 2}
    assert made.version_record(1) is not None
    # A day later, when another query is planned.
    monkeypatch.setattr("penstock.spark_bridge.lookup.versions.PINNED_S", -1.0)
    renew(made, 3)
    pins.pin(made)
    assert pinned(made) == set()
    monkeypatch.undo()
    assert pins.pin(made) == 3
    pins.release()
    assert pinned(made) == set()
    pins.release()


def test_a_relation_that_cannot_be_written_is_not_pinned(tmp_path):
    made = stored(tmp_path / "customers.rel")
    (tmp_path / "customers.rel" / "pins").write_text("a file in the way")
    assert DriverPins().pin(made) == 1


def test_a_vacuum_that_was_faster(tmp_path, monkeypatch):
    made, pins = stored(tmp_path / "customers.rel"), DriverPins()
    renew(made, 2)
    made.vacuum(keep_s=0)
    asked = iter([1, 2])
    monkeypatch.setattr(made, "newest", lambda: next(asked))
    assert pins.pin(made) == 2
    assert [p.name[-2:] for p in (tmp_path / "customers.rel" / "pins" / DRIVERS).iterdir()].count(
        "-2"
    ) == 1
