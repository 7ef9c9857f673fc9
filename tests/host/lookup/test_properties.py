"""Parts of a lookup beside plain Python models of them."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.host.lookup.algorithm import Algorithm, ThresholdCache
from penstock.host.lookup.cache import Cache, FrequencyCache, KeyGroups, NoCache
from penstock.host.lookup.frequency import Frequency
from penstock.host.lookup.hash_table import HashTable
from penstock.host.lookup.lookup import Lookup
from penstock.host.lookup.memory import MemorySplit
from penstock.host.lookup.pages import Cyclic, Oldest, Wanted
from penstock.host.lookup.waiting import RowsByPage
from penstock.host.relation.border import PageIndex, PageRows
from tests.kit.effort import examples

SCHEMA = pa.schema([("hash", pa.uint64()), ("rid", pa.int64())])
TOP = (1 << 64) - 1
#: Hashes with everything that their places are computed from: few, close, far apart, all ones.
HASHES = (
    st.integers(0, 20) | st.integers(0, TOP) | st.sampled_from([TOP, TOP - 1, 1 << 63, 1 << 56])
)


def quick(count: int):
    return settings(
        max_examples=examples(count), deadline=None, suppress_health_check=list(HealthCheck)
    )


def hashes_of(values) -> np.ndarray:
    return np.array(list(values), np.uint64)


# -- hash table -----------------------------------------------------------------------------------


@quick(200)
@given(st.lists(st.tuples(st.booleans(), st.sets(HASHES, max_size=400)), max_size=8))
def test_hash_table(steps):
    table, model = HashTable(), {}
    for is_new, hashes in steps:
        if is_new:
            table.replace(hashes_of(hashes))
            model = {}
        else:
            hashes = {one for one in hashes if one not in model}
            table.add(hashes_of(hashes), len(model))
        model.update(zip(hashes, range(len(model), len(model) + len(hashes)), strict=True))
        asked = [*model, 3, 5, TOP, 77, *(h ^ 1 for h in list(model)[:50])]
        found = table.find(hashes_of(asked))
        assert found.dtype == np.int32
        assert found.tolist() == [model.get(one, -1) for one in asked]
        assert table.memory_bytes >= 12 * len(model)


def test_hash_table_grows_and_keeps_its_numbers():
    table = HashTable()
    hashes = np.random.default_rng(3).integers(0, TOP, 5000, dtype=np.uint64)
    for start in range(0, 5000, 7):
        table.add(hashes[start : start + 7], start)
    assert np.array_equal(table.find(hashes), np.arange(5000))


# -- waiting rows ---------------------------------------------------------------------------------


@quick(200)
@given(st.data())
def test_waiting(data):
    pages = data.draw(st.integers(1, 9))
    waiting, model = RowsByPage(pages), defaultdict(list)
    number = 0
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            rows = data.draw(st.lists(st.tuples(HASHES, st.integers(0, pages - 1)), max_size=30))
            rows *= data.draw(st.sampled_from([1, 1, 60]))
            ids = np.arange(number, number + len(rows))
            number += len(rows)
            waiting.add(ids, hashes_of(h for h, _ in rows), np.array([p for _, p in rows], int))
            for one, (key, page) in zip(ids.tolist(), rows, strict=True):
                model[page].append((one, key))
        else:
            asked = data.draw(st.lists(st.integers(0, pages - 1), unique=True))
            ids, hashes = waiting.rows_for(np.array(asked, np.int64))
            waiting.drop(np.array(asked, np.int64))
            wanted = [row for page in asked for row in model.pop(page, [])]
            assert list(zip(ids.tolist(), hashes.tolist(), strict=True)) == wanted
        left = {page: rows for page, rows in model.items() if rows}
        assert waiting.rows == sum(map(len, left.values()))
        assert waiting.pages.tolist() == sorted(left)
        every = np.arange(pages)
        assert waiting.count_of(every).tolist() == [len(left.get(p, [])) for p in range(pages)]
        if left:
            by_age = sorted(left, key=lambda page: left[page][0][0])
            assert waiting.by_age().tolist() == by_age


# -- which pages ----------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 100), min_size=1, max_size=12)


def waiting_for(pages: int, wanted: list[int]) -> RowsByPage:
    waiting = RowsByPage(pages)
    waiting.add(np.arange(len(wanted)), np.zeros(len(wanted), np.uint64), np.array(wanted, int))
    return waiting


@quick(200)
@given(SIZES, st.integers(1, 300))
def test_cyclic_reads_all_pages_in_turn(sizes, most):
    choice = Cyclic(np.array(sizes), most)
    waiting = waiting_for(len(sizes), [0])
    read = []
    while len(read) < 3 * len(sizes):
        pages = choice.next(waiting).tolist()
        assert pages
        assert pages == list(range(pages[0], pages[0] + len(pages)))
        total = sum(sizes[p] for p in pages)
        assert len(pages) == 1 or total <= most
        end = pages[-1] + 1
        assert end == len(sizes) or total + sizes[end] > most
        read += pages
    assert read == [n % len(sizes) for n in range(len(read))]
    assert choice.holds


@quick(200)
@given(SIZES, st.integers(1, 300), st.data())
def test_oldest_and_wanted(sizes, most, data):
    wanted = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1))
    waiting = waiting_for(len(sizes), wanted)
    assert Oldest(np.array(sizes), most).next(waiting).tolist() == [wanted[0]]
    pages = Wanted(np.array(sizes), np.ones(len(sizes)), most).next(waiting).tolist()
    every = sorted(set(wanted))
    assert pages == every[: len(pages)]
    assert pages
    total = sum(sizes[p] for p in pages)
    assert len(pages) == 1 or total <= most
    assert len(pages) == len(every) or total + sizes[every[len(pages)]] > most


# -- how often ------------------------------------------------------------------------------------


@quick(100)
@given(st.lists(st.lists(HASHES, max_size=200), max_size=8))
def test_frequency_is_never_too_low(batches):
    frequency, counts = Frequency(4), Counter()
    noted = 0
    for batch in batches:
        frequency.note(hashes_of(batch))
        counts.update(batch)
        noted += len(batch)
        if noted < 2048 and counts:
            found = frequency.estimate(hashes_of(counts))
            assert found.dtype == np.float32
            assert (found >= np.minimum(list(counts.values()), 255)).all()
            assert found.max() <= max(counts.values()) + noted / 64


def test_frequency_decays():
    frequency = Frequency(100)
    hot, cold = hashes_of([7 << 40]), np.random.default_rng(1).integers(0, TOP, 100_000, np.uint64)
    frequency.note(np.repeat(hot, 100))
    assert frequency.estimate(hot).tolist() == [100.0]
    for start in range(0, 100_000, 100):
        frequency.note(cold[start : start + 100])
    assert frequency.estimate(hot)[0] < 60


def test_frequency_tells_keys_apart_and_stays_within_its_counters():
    frequency = Frequency(1000)
    keys = np.random.default_rng(1).integers(0, TOP, 500, dtype=np.uint64)
    frequency.note(np.repeat(keys, 3))
    assert np.mean(frequency.estimate(keys) == 3) > 0.98
    frequency.note(np.repeat(keys[:1], 1000))
    assert frequency.estimate(keys[:1]).tolist() == [255.0]
    other = np.random.default_rng(2).integers(0, TOP, 500, dtype=np.uint64)
    assert np.mean(frequency.estimate(other) == 0) > 0.9


# -- groups and caches ----------------------------------------------------------------------------


class Store:
    """All rows of each key, in pages by hash; the answer of reading is made from it."""

    def __init__(self, rows: dict[int, int], cuts: list[int]) -> None:
        self.rows = rows
        self.first = np.array(sorted({0, *cuts}), np.uint64)
        of = self.page_of(sorted(rows))
        counts = np.zeros(len(self.first), np.int32)
        for key, page in zip(sorted(rows), of, strict=True):
            counts[page] += rows[key]
        self.index = PageIndex(self.first, counts, counts.astype(np.int64) * 10 + 5, {}, 0)

    def page_of(self, keys: list[int]) -> list[int]:
        return [sum(first <= key for first in self.first.tolist()) - 1 for key in keys]

    def read(self, pages: list[int]) -> PageRows:
        keys = sorted(self.rows)
        own = dict(zip(keys, self.page_of(keys), strict=True))
        parts = [[(k, n) for k in keys if own[k] == p for n in range(self.rows[k])] for p in pages]
        rows = [row for part in parts for row in part]
        hashes = hashes_of(k for k, _ in rows)
        batch = pa.record_batch(
            [pa.array(hashes), pa.array([n for _, n in rows], pa.int64())], schema=SCHEMA
        )
        return PageRows(hashes, batch, np.cumsum([0, *map(len, parts)]))


def rows_of(groups: KeyGroups, group: int) -> list[tuple[int, int]]:
    batch = groups.batch.take(pa.array(groups.rows_of(np.array([group]))))
    return list(zip(*batch.to_pydict().values(), strict=True))


def groups_of(store: dict[int, int], keys: list[int], spare: int = 1) -> KeyGroups:
    """KeyGroups of some keys in a batch with rows of others between them."""
    rows, starts = [(TOP, -1)] * spare, []
    for key in keys:
        starts.append(len(rows))
        rows += [(key, n) for n in range(store.get(key, 0))] + [(TOP, -1)] * spare
    batch = pa.record_batch(
        [pa.array([k for k, _ in rows], pa.uint64()), pa.array([n for _, n in rows], pa.int64())],
        schema=SCHEMA,
    )
    counts = np.array([store.get(key, 0) for key in keys], np.int64)
    return KeyGroups(hashes_of(keys), np.array(starts, np.int64), counts, batch)


STORES = st.dictionaries(HASHES, st.integers(1, 4), max_size=40)


@quick(100)
@given(STORES, st.data())
def test_groups(store, data):
    keys = [*store, *(key for key in (1, 2, 3) if key not in store)]
    groups = groups_of(store, keys)
    picked = data.draw(st.lists(st.integers(0, len(keys) - 1), unique=True))
    few = groups.pick(np.array(picked, np.int64))
    assert len(few) == len(picked)
    both = KeyGroups.concat([few, groups, KeyGroups.none(SCHEMA)])
    assert len(both) == len(picked) + len(keys)
    for place, key in enumerate([*(keys[p] for p in picked), *keys]):
        assert both.hashes[place] == key
        assert rows_of(both, place) == [(key, n) for n in range(store.get(key, 0))]
    assert few.batch.num_rows == sum(store.get(keys[p], 0) for p in picked)


def caches(most: int) -> list[Cache]:
    return [
        NoCache(SCHEMA, 0),
        FrequencyCache(SCHEMA, most, 50),
        ThresholdCache(SCHEMA, most, 1),
    ]


@quick(150)
@given(
    STORES,
    st.integers(0, 2),
    st.sampled_from([0, 64, 200, 700, 1500, 5000, 10**6]),
    st.data(),
)
def test_caches(store, kind, most, data):
    """A cache holds whole groups of what it was offered, none of what was dropped."""
    cache = caches(most)[kind]
    allowed: set[int] = set()
    for _ in range(data.draw(st.integers(1, 10))):
        keys = data.draw(st.lists(st.sampled_from([*store, 1, 2, 3, TOP]), unique=True))
        cache.came(hashes_of(keys * data.draw(st.integers(0, 5))))
        missing = [
            key for key, entry in zip(keys, cache.find(hashes_of(keys)), strict=True) if entry < 0
        ]
        matched = np.array(
            data.draw(st.lists(st.integers(1, 6), min_size=len(missing), max_size=len(missing))),
            int,
        )
        cache.offer(groups_of(store, missing), matched, 16.0)
        allowed |= set(missing)
        how = data.draw(st.sampled_from(["", "", "some", "all"]))
        if how == "some":
            gone = data.draw(st.lists(HASHES | st.sampled_from([*store, 1]), unique=True))
            cache.drop(hashes_of(sorted(gone)))
            allowed -= set(gone)
            for key in gone:
                store.pop(key, None) if key % 2 else store.update({key: 3})
        elif how == "all":
            cache.drop(None)
            assert len(cache) == 0
            allowed = set()
        every = [*{*store, *allowed, 1, 2, 3, TOP}]
        entries = cache.find(hashes_of(every))
        held = sorted((int(e), key) for e, key in zip(entries, every, strict=True) if e >= 0)
        assert [entry for entry, _ in held] == list(range(len(cache)))
        assert {key for _, key in held} <= allowed
        found = cache.groups(np.array([e for e, _ in held], np.int64))
        for place, (_, key) in enumerate(held):
            assert rows_of(found, place) == [(key, n) for n in range(store.get(key, 0))]
        sizes = [store.get(key, 0) * 16 + 64 for _, key in held]
        assert cache.used_bytes == sum(sizes)
        assert cache.used_bytes <= most
        half = cache.groups(np.array([e for e, _ in held[::2]], np.int64))
        assert half.hashes.tolist() == [key for _, key in held[::2]]


def offered(cache: Cache, keys: list[int], times: int = 1) -> None:
    hashes = hashes_of(keys)
    cache.came(np.repeat(hashes, times))
    missing = [key for key, e in zip(keys, cache.find(hashes), strict=True) if e < 0]
    cache.offer(groups_of(dict.fromkeys(keys, 1), missing), np.full(len(missing), times), 16.0)


def test_the_frequent_stay():
    """Hot keys survive a flood of keys that come once, absent ones among them."""
    cache = FrequencyCache(SCHEMA, 8000, 100)  # room for 100 groups
    hot = [(n << 50) + 5 for n in range(1, 60)]
    for _ in range(5):
        offered(cache, hot, 4)
    for n in range(0, 4000, 40):
        offered(cache, [(k << 44) + 9 for k in range(n + 1, n + 41)])
        offered(cache, hot, 1)
    assert np.mean(cache.find(hashes_of(hot)) >= 0) > 0.95


def test_hot_keys_that_change_are_learned_anew():
    cache = FrequencyCache(SCHEMA, 8000, 100)
    for first in (1, 1000):
        hot = [(n << 50) + 5 for n in range(first, first + 60)]
        for _ in range(200):
            offered(cache, hot, 2)
        assert np.mean(cache.find(hashes_of(hot)) >= 0) > 0.9


def test_the_threshold_rises_while_much_is_replaced_and_falls_while_there_is_room():
    cache = ThresholdCache(SCHEMA, 800, 1)  # room for 10 groups
    offered(cache, list(range(1, 11)))
    assert len(cache) == 10
    offered(cache, list(range(100, 110)))
    assert (cache.find(hashes_of(range(100, 110))) >= 0).all()
    offered(cache, list(range(200, 210)))  # a match is not above the threshold any more
    assert (cache.find(hashes_of(range(200, 210))) < 0).all()
    cache.drop(None)
    offered(cache, [300])
    offered(cache, [301])
    offered(cache, [302])
    assert cache.find(hashes_of([302])).tolist() != [-1]


# -- the machine ----------------------------------------------------------------------------------


@quick(200)
@given(STORES, st.lists(HASHES, max_size=5), st.sampled_from(list(Algorithm)), st.data())
def test_lookup(store, cuts, algorithm, data):
    """Each row is answered once, with all rows of its key and no others; others come meanwhile."""
    world = Store(store, cuts)
    most = data.draw(st.sampled_from([1, 30, 200, 10_000]))
    cache = algorithm.cache(SCHEMA, data.draw(st.sampled_from([0, 300, 2000, 10**6])), 50)
    lookup = Lookup(world.index, cache, algorithm.choice(world.index.bytes, world.index.rows, most))
    model: deque[tuple[int, int]] = deque()
    answered: dict[int, int] = {}
    keys: dict[int, int] = {}
    reads = pages_read = 0
    request = None
    for _ in range(data.draw(st.integers(1, 20))):
        if data.draw(st.booleans()):
            rows = data.draw(st.lists(st.sampled_from([*store, 1, 2, 3, TOP]), max_size=12))
            ids = np.arange(len(keys), len(keys) + len(rows))
            keys.update(zip(ids.tolist(), rows, strict=True))
            model.extend(zip(ids.tolist(), rows, strict=True))
            is_kept = cache.find(hashes_of(rows)) >= 0
            answers = lookup.admit(ids, hashes_of(rows))
            assert answers.ids.tolist() == ids[is_kept].tolist()
        elif lookup.waiting.rows and request is None:
            request = lookup.ask()
            if data.draw(st.booleans()):
                lookup.take_back(request)
                request = lookup.ask()
            continue
        elif request is not None:
            pages = request.pages
            # Of pages that are wanted only rows that are sought are kept.
            is_whole = algorithm is not Algorithm.AUTO
            assert len(pages) == 1 or not is_whole or world.index.bytes[pages].sum() <= most
            answers = lookup.arrived(request, world.read(pages.tolist()))
            request = None
            reads += 1
            pages_read += len(pages)
        else:
            continue
        for one, group in zip(answers.ids.tolist(), answers.group.tolist(), strict=True):
            assert one not in answered
            answered[one] = group
            key = keys[one]
            assert answers.groups.hashes[group] == key
            assert rows_of(answers.groups, group) == [(key, n) for n in range(store.get(key, 0))]
        assert len(answered) + lookup.unanswered == len(keys)
        assert lookup.occupied >= lookup.unanswered
    while lookup.occupied:
        assert lookup.waiting.rows or lookup.choice.holds or request is not None
        request = request or lookup.ask()
        answers = lookup.arrived(request, world.read(request.pages.tolist()))
        reads, pages_read = reads + 1, pages_read + len(request.pages)
        request = None
        answered.update(zip(answers.ids.tolist(), answers.group.tolist(), strict=True))
    assert sorted(answered) == sorted(keys)
    counts = lookup.counts
    assert (counts.rows, counts.reads, counts.pages) == (len(keys), reads, pages_read)
    assert 0 <= counts.hits <= len(keys)
    if algorithm in (Algorithm.MESHJOIN, Algorithm.HYBRIDJOIN):
        assert counts.hits == 0


def test_a_pass_lets_rows_go_one_pass_after_they_came():
    world = Store({n << 60: 1 for n in range(8)}, [n << 60 for n in range(8)])
    algorithm = Algorithm.MESHJOIN
    lookup = Lookup(
        world.index,
        algorithm.cache(SCHEMA, 0, 1),
        algorithm.choice(world.index.bytes, world.index.rows, 1),
    )
    lookup.admit(np.array([0]), hashes_of([0]))
    lookup.arrived(lookup.ask(), world.read([0]))
    lookup.admit(np.array([1]), hashes_of([5 << 60]))
    for page in range(1, 8):
        assert lookup.occupied == 2
        lookup.arrived(lookup.ask(), world.read([page]))
    assert lookup.occupied == 1
    lookup.arrived(lookup.ask(), world.read([0]))
    assert lookup.occupied == 0


# -- memory ---------------------------------------------------------------------------------------


@quick(200)
@given(st.integers(0, 1 << 32), st.integers(0, 1 << 24), st.integers(1, 4000), st.booleans())
def test_memory_is_shared_out(memory, index, row_bytes, keeps_rows):
    try:
        split = MemorySplit.share_out(memory, index, row_bytes, keeps_rows=keeps_rows)
    except UsageError as refusal:
        assert f"memory_bytes is {memory:,}" in str(refusal)  # noqa: PT017
        assert memory < index + (1 << 18) + 1024 * (row_bytes + 48)
        return
    parts = (split.index, split.pages, split.cache, split.rows)
    assert min(parts) >= 0
    assert sum(parts) <= memory
    assert split.index == index
    assert split.pages >= 1 << 18
    assert split.rows_of(row_bytes) >= 1024
    waiting = split.rows_of(row_bytes) * (row_bytes + 48)
    assert waiting <= max(split.rows - split.answered_bytes, 1024 * (row_bytes + 48))
    assert keeps_rows or not split.cache


def test_the_remedy_of_too_little_memory_helps():
    with pytest.raises(UsageError, match="give it more") as refusal:
        MemorySplit.share_out(1, 144, 8, keeps_rows=True)
    assert "larger pages" not in str(refusal.value)
