"""Filters of pages: no key that is there is said to be absent, and nearly all others are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.host.relation import RelationOptions, build, open_relation
from penstock.host.relation.folder.page_filter import PageFilters, filters_of

HASHES = st.lists(st.integers(0, (1 << 64) - 1), max_size=40)


@settings(max_examples=100, deadline=None)
@given(st.lists(HASHES, max_size=6), HASHES)
def test_no_hash_of_a_page_is_lacking(pages, others):
    hashes = np.array([h for page in pages for h in page], np.uint64)
    ends = np.cumsum([len(page) for page in pages], dtype=np.int64)
    filters = PageFilters(filters_of(hashes, ends))
    of = np.repeat(np.arange(len(pages)), [len(page) for page in pages])
    assert not filters.lack(hashes, of).any()
    outside = np.array(others, np.uint64)
    assert filters.lack(outside, np.full(len(others), -1)).all()
    for page in (k for k, own in enumerate(pages) if not own):
        assert filters.lack(outside, np.full(len(others), page)).all()


def test_few_others_pass():
    random = np.random.default_rng(1)
    hashes = np.sort(random.integers(0, 1 << 64, 100_000, dtype=np.uint64))
    filters = PageFilters(filters_of(hashes, np.arange(100, 100_001, 100)))
    others = random.integers(0, 1 << 64, 100_000, dtype=np.uint64)
    passed = ~filters.lack(others, np.arange(100_000) // 100)
    assert passed.mean() < 0.03


@pytest.fixture
def location(tmp_path) -> str:
    place = str(tmp_path / "c.rel")
    rows = pa.table({"k": np.arange(0, 40_000, 2), "rid": np.arange(20_000)})
    build(rows, place, RelationOptions(key=("k",), page_bytes=4096)).close()
    return place


def test_versions_know_what_they_lack(location):
    relation = open_relation(location)
    relation.append(pa.table({"k": [1, 3], "rid": [-1, -2]}))
    relation.update(deletes=pa.table({"k": [0]}))
    version = relation.version()

    def lacks(keys: list[int]) -> np.ndarray:
        rows = pa.table({"k": pa.array(keys, pa.int64())})
        return version.filters()(relation.key_hash.of_rows(rows, ["k"], ""))

    assert not lacks([1, 2, 3, 4, 39_998]).any()
    assert lacks(list(range(5, 40_000, 2))).mean() > 0.9  # an update of two keys has a short filter
    assert 20_000 < version.filter_bytes < 40_000


@pytest.mark.parametrize("memory", [1 << 20, 400_000])
def test_rows_whose_key_is_absent_read_no_page(location, memory):
    orders = pa.table({"id": np.arange(30_000), "k": np.arange(30_000)})
    schemas = {"o": orders.schema, "c": penstock.relation(location)}
    query = "SELECT o.id, c.rid FROM o LEFT JOIN c ON o.k = c.k"
    flow = penstock.Flow(memory_bytes=memory)
    with penstock.stream(query, schemas, flow=flow) as stream:
        stream.push("o", orders)
        found = stream.poll().sort_by("id")
        looked_up = stream.report().lookup
    expected = [k // 2 if k % 2 == 0 else None for k in range(30_000)]
    assert found["rid"].to_pylist() == expected
    assert looked_up is not None
    assert looked_up.absent > 14_000


def test_filters_that_do_not_fit_are_left_out(tmp_path):
    place = str(tmp_path / "large.rel")
    rows = pa.table({"k": np.arange(400_000), "rid": np.arange(400_000)})
    build(rows, place, RelationOptions(key=("k",))).close()
    orders = pa.table({"id": [1, 2], "k": [5, -5]})
    schemas = {"o": orders.schema, "c": penstock.relation(place)}
    query = "SELECT o.id, c.rid FROM o LEFT JOIN c ON o.k = c.k"
    with penstock.stream(query, schemas, flow=penstock.Flow(memory_bytes=600_000)) as stream:
        stream.push("o", orders)
        assert stream.poll().sort_by("id")["rid"].to_pylist() == [5, None]
        assert stream.report().memory_bytes["filters"] == 0
