"""How memory is shared out as a join goes on."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import UsageError
from penstock.host.lookup import tuner
from penstock.host.lookup.algorithm import Algorithm
from penstock.host.lookup.lookup import Counts
from penstock.host.lookup.memory import split_of
from penstock.host.lookup.model import UnitCosts, predict
from penstock.host.lookup.tuner import SHARES, StreamLoad, Tuner, exponent_of, shape_of, tuned
from penstock.host.lookup.zipf import top_share
from penstock.host.relation import RelationOptions, build

COSTS = UnitCosts(1e-6, 2e-10, 1e-6, 1e-7, 1e-7, 4e-7, 5e-3)
ROWS, MEMORY = 2_000_000, 16 << 20


class _Index:
    """Of 50,000 pages."""

    first = np.zeros(50_000, np.uint64)
    memory_bytes = 32 * 50_000

    def __len__(self):
        return len(self.first)


VERSION = SimpleNamespace(rows=ROWS, bytes=100 * ROWS, index=_Index(), filter_bytes=2_400_000)


def rate(split, load):
    return predict(Algorithm.AUTO, shape_of(VERSION, split, load), COSTS).rate


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.3])
@pytest.mark.parametrize("cached", [1_000, 200_000])
def test_the_exponent_follows_from_hits(exponent, cached):
    hits = top_share(cached, ROWS, exponent)
    assert exponent_of(hits, cached, ROWS) == pytest.approx(exponent, abs=0.01)


@pytest.mark.parametrize(
    "load",
    [
        StreamLoad(30.0),
        StreamLoad(30.0, batch=65_536),
        StreamLoad(30.0, 0.0, 0.5),
        StreamLoad(200.0, 1.2, batch=1_000),
    ],
    ids=["waiting", "batches", "even and absent", "small batches"],
)
def test_no_split_is_predicted_to_be_faster(load):
    found = tuned(VERSION, MEMORY, Algorithm.AUTO, load, COSTS)
    for share in SHARES:
        for filtered in (True, False):
            other = split_of(
                VERSION, MEMORY, 30.0, Algorithm.AUTO, cache_share=share, filtered=filtered
            )
            assert rate(found, load) >= 0.999 * rate(other, load)
    parts = (found.index, found.pages, found.cache, found.rows, found.filter)
    assert sum(parts) <= MEMORY


def test_memory_goes_where_the_stream_needs_it():
    batches = tuned(VERSION, MEMORY, Algorithm.AUTO, StreamLoad(30.0, batch=10_000), COSTS)
    waiting = tuned(VERSION, MEMORY, Algorithm.AUTO, StreamLoad(30.0), COSTS)
    assert batches.cache > waiting.cache
    # Filters are of no use where all keys are there, and are where every other one is absent.
    assert batches.filter == waiting.filter == 0
    assert tuned(VERSION, MEMORY, Algorithm.AUTO, StreamLoad(30.0, absent=0.5), COSTS).filter


def looked_up(one, split, *batches):
    """Let batches of (rows, hits, absent) pass; returns the last split."""
    counts = Counts()
    for rows, hits, absent in batches:
        counts = Counts(counts.rows + rows, counts.hits + hits, counts.absent + absent)
        one.settled(counts)
        split = one.better(VERSION, MEMORY, split, counts, 50_000, 30.0) or split
    return split


def test_the_tuner_looks_now_and_then():
    asked = []
    one = Tuner(Algorithm.AUTO, lambda: asked.append(1) or COSTS)
    first = split_of(VERSION, MEMORY, 30.0, Algorithm.AUTO)
    assert first.filter
    few = (tuner.FIRST_ROWS - 1, tuner.FIRST_ROWS // 2, 0)
    assert looked_up(one, first, few) is first
    assert not asked
    better = looked_up(one, first, few, (1, 0, 0))
    assert asked == [1]
    assert better.filter == 0
    assert rate(better, StreamLoad(30.0)) > rate(first, StreamLoad(30.0))


def test_filters_come_back():
    """What was measured is asked for once; absent keys are seen without filters, too."""
    one = Tuner(Algorithm.AUTO, lambda: COSTS)
    first = split_of(VERSION, MEMORY, 30.0, Algorithm.AUTO)
    many = tuner.FIRST_ROWS
    without = looked_up(one, first, (many, many // 2, 0))
    assert not without.filter
    counts = Counts(2 * many - 1, many // 2, many - 1)
    assert one.better(VERSION, MEMORY, without, counts, 50_000, 30.0) is None  # not yet
    counts = replace(counts, rows=2 * many)
    assert one.better(VERSION, MEMORY, without, counts, 50_000, 30.0).filter


def test_printed_algorithms_are_not_tuned():
    one = Tuner(Algorithm.D_CACHEJOIN, lambda: COSTS)
    split = split_of(VERSION, MEMORY, 30.0, Algorithm.D_CACHEJOIN)
    assert looked_up(one, split, (1 << 30, 0, 0)) is split


def test_a_relation_that_has_outgrown_the_memory_is_not_tuned():
    one = Tuner(Algorithm.AUTO, lambda: COSTS)
    split = split_of(VERSION, MEMORY, 30.0, Algorithm.AUTO)
    counts = Counts(tuner.FIRST_ROWS)
    assert one.better(VERSION, 1 << 20, split, counts, 0, 30.0) is None
    with pytest.raises(UsageError, match="memory_bytes"):
        tuned(VERSION, 1 << 20, Algorithm.AUTO, StreamLoad(30.0), COSTS)


def test_a_join_goes_on_with_another_split(tmp_path, monkeypatch):
    """Keys of two kinds, those that are there and then those that are not: no row changes."""
    monkeypatch.setattr(tuner, "FIRST_ROWS", 20_000)
    keys = np.arange(50_000)
    build(pa.table({"id": keys, "v": keys * 7}), str(tmp_path / "r"), RelationOptions(key=("id",)))
    splits, random, at = [], np.random.default_rng(5), 0
    with penstock.stream(
        "SELECT s.n, r.v FROM s LEFT JOIN r ON s.k = r.id",
        {"s": pa.schema({"n": "int64", "k": "int64"}), "r": penstock.relation(tmp_path / "r")},
        flow=penstock.Flow(memory_bytes=1_200_000),
    ) as stream:
        for number in range(40):
            some = random.zipf(1.2, 8_000) % 50_000 + (50_000 if number >= 20 else 0)
            batch = pa.table({"n": np.arange(at, at + 8_000), "k": some})
            stream.push("s", batch)
            at += 8_000
            found = stream.poll().sort_by("n")
            assert found["n"].equals(batch["n"])
            wanted = [None if key >= 50_000 else key * 7 for key in some.tolist()]
            assert found["v"].to_pylist() == wanted
            report = stream.report()
            assert sum(report.memory_bytes.values()) <= 1_200_000
            splits.append((report.memory_bytes["filters"], report.memory_bytes["index"]))
    assert {filters > 0 for filters, _ in splits} == {True, False}
