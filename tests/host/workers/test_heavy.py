"""A key with most of the rows: its pairs are found by all workers, and each of them once."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import Checkpoint
from penstock.host.device.fields import MalformedError
from penstock.host.routing.base import WORKER_CELLS
from penstock.host.workers.compiling import compiled
from penstock.host.workers.job import Job
from penstock.host.workers.joining import heavy
from penstock.host.workers.joining.heavy import HeavyCells, heavy_cells
from penstock.host.workers.joining.state import JoinState
from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import FOREVER
from penstock.query.options import QueryOptions
from tests.host.workers.kit.groups import comparable, difference, numbered
from tests.host.workers.kit.joins import SCHEMA, SCHEMAS, opened, wanted

_ON = "ON a.k = b.k AND abs(a.x - b.x) < 3 AND b.t BETWEEN a.t - 6 AND a.t + 3"
QUERIES = {
    "inner": f"SELECT a.n AS i, b.n AS j FROM a JOIN b {_ON}",
    "left": f"SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b {_ON}",
    "right": f"SELECT a.n AS i, b.n AS j FROM a RIGHT JOIN b {_ON}",
    "full": f"SELECT a.n AS i, b.n AS j FROM a FULL JOIN b {_ON}",
    "semi": f"SELECT a.n AS i, a.t AS t FROM a LEFT SEMI JOIN b {_ON}",
    "anti": f"SELECT a.n AS i, a.t AS t FROM a LEFT ANTI JOIN b {_ON}",
}
#: Those whose heavy keys workers share.
SHARED = [name for name in QUERIES if name != "full"]
ROWS, COUNT = 200, 30
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
#: Of the key 1.
CELL = 1588


def batches(seed: int, count: int, share: float = 0.9) -> list[pa.RecordBatch]:
    """Rows in the order of time, most with one key."""
    rng, made = np.random.default_rng(seed), []
    for place in range(count):
        keys = np.where(rng.random(ROWS) < share, 1, rng.integers(2, 40, ROWS))
        columns = [
            range(place * ROWS, (place + 1) * ROWS),
            [None if rng.random() < 0.02 else key for key in keys.tolist()],
            [None] * ROWS,
            [None if rng.random() < 0.02 else place for _ in range(ROWS)],
            rng.integers(-100, 100, ROWS).tolist(),
        ]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return made


class Hands:
    """States of several workers, whose messages are carried by hand, and late at random."""

    def __init__(self, query: str, size: int, rng: Random) -> None:
        time = {"a": "t", "b": "t"}
        options = QueryOptions(time=time)
        job = Job(query, SCHEMAS, options, size, False, 0.0, 1 << 26, Path(), False)
        self.query, self.work, self.rng, self.size = query, compiled(job), rng, size
        self.states: list[Any] = [self.work.state(rank) for rank in range(size)]
        self.sent = {(a, b): deque() for a in range(size) for b in range(size) if a != b}
        #: One that is dealt nothing, so that others do not wait for what it sends: often the one
        #: that leads the heavy key.
        others = [None, *range(size)]
        leader = CELL * size // WORKER_CELLS
        self.idle = rng.choice([leader, rng.choice(others)]) if size > 1 else None
        #: What each worker knows that each other promises.
        self.known = [[-1] * size for _ in range(size)]
        self.found: list[pa.RecordBatch] = []
        #: Of each worker: what it has written, and what its last checkpoint consists of.
        self.parts: list[list[Any]] = [[] for _ in range(size)]
        self.newest: list[list[Any]] = [[] for _ in range(size)]

    def fold(self, source: int, batch: pa.RecordBatch, first: int) -> None:
        """Deal a batch to anybody, in two pieces."""
        batch = batch.select(self.work.dealt_schemas[source].names)
        cut = self.rng.randint(0, batch.num_rows)
        for piece, at in ((batch.slice(0, cut), first), (batch.slice(cut), first + cut)):
            if piece.num_rows:
                busy = [own for rank, own in enumerate(self.states) if rank != self.idle]
                self.rng.choice(busy).fold(piece, source, at)

    def seal(self, rank: int, promise: int) -> None:
        promise = FOREVER if rank == self.idle else promise
        blocks = self.states[rank].seal()
        for receiver in {*range(self.size)} - {rank}:
            self.sent[rank, receiver].append((blocks[receiver], promise))
        self.known[rank][rank] = promise

    def deliver(self, sender: int, receiver: int) -> None:
        if self.sent[sender, receiver]:
            blocks, promise = self.sent[sender, receiver].popleft()
            for block in blocks:
                self.states[receiver].merge(sender, block)
            self.known[receiver][sender] = promise

    def release(self, rank: int) -> None:
        self.found.append(self.states[rank].release(self.work.limit(min(self.known[rank]))))

    def some(self, promise: int) -> None:
        """Let some end their epochs, and some of what is on its way arrive."""
        for rank in range(self.size):
            if self.rng.random() < (0.1 if rank == self.idle else 0.5):
                self.seal(rank, promise)
        for pair in self.sent:
            if self.rng.random() < 0.5:
                self.deliver(*pair)
        self.release(self.rng.randrange(self.size))

    def cut(self, promise: int, *, saves: bool = True) -> None:
        """All end their epochs, all arrives, and each may save."""
        for rank in range(self.size):
            self.seal(rank, promise)
        for pair, queue in self.sent.items():
            while queue:
                self.deliver(*pair)
        for rank, state in enumerate(self.states):
            self.release(rank)
            state.cut()
            if not saves:
                continue
            found = state.save()
            earlier = [self.parts[rank][n] for n in found if isinstance(n, int)]
            self.parts[rank].append([b for b in found if not isinstance(b, int)])
            self.newest[rank] = [*earlier, self.parts[rank][-1]]

    def restart(self, size: int) -> Hands:
        """Begin from what the last cut has saved, with another number of workers."""
        saved, then = [part for own in self.newest for part in own], self.size
        time = min(map(min, self.known))
        after = Hands(self.query, size, self.rng)
        after.found = self.found
        after.known = [[time] * size for _ in range(size)]
        for state in after.states:
            for part in saved:
                state.load(map(memoryview, part), then)
        return after


def run(name: str, seed: int, share: float = 0.8) -> Hands:
    """Push to workers, with cuts, and once or twice another number of workers.

    Parameters
    ----------
    share : float
        Of cuts at which all save.
    """
    rng = Random(seed)
    hands = Hands(QUERIES[name], rng.choice([2, 3, 4]), rng)
    given = {source: batches(2 * seed + source, COUNT) for source in range(2)}
    for place in range(COUNT):
        for source, own in given.items():
            hands.fold(source, own[place], place * ROWS)
        hands.some(place)
        if rng.random() < 0.35:
            saves = rng.random() < share
            hands.cut(place, saves=saves)
            if saves and rng.random() < 0.2:
                hands = hands.restart(rng.choice([1, 2, 3, 5]))
    hands.cut(FOREVER)
    rows = comparable(pa.Table.from_batches(hands.found).select(hands.work.output.names))
    assert not difference(rows, wanted(QUERIES[name], *given.values())), (name, seed)
    return hands


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy, "LEAST_ROWS", 1_000)


def run_some() -> None:
    for seed in range(6):
        run("left", seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", QUERIES)
def test_by_hand(name: str, seed: int) -> None:
    hands = run(name, seed)
    shared = [state._heavy.cells for state in hands.states]
    assert all(cells == shared[0] for cells in shared)
    if len(hands.states) > 1 and hands.states[0]._parts._saved.number > 1:
        assert shared[0] == [CELL] * (name in SHARED)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["left", pytest.param("right", marks=pytest.mark.slow)])
def test_by_hand_without_checkpoints(name: str, seed: int) -> None:
    hands = run(name, seed, share=0)
    assert all(state._heavy.cells == [CELL] for state in hands.states)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.parametrize("name", SHARED)
def test_many_by_hand(name: str, seed: int) -> None:
    run(name, seed)


def test_a_side_that_is_spread_too_early_is_noticed(monkeypatch) -> None:
    """One cut is not enough: what the leader holds of the other side is not there yet."""

    def cut(self: HeavyCells) -> list[int]:
        found = right(self)
        self._spread[:] = self._copied
        return found

    right = HeavyCells.cut
    monkeypatch.setattr(HeavyCells, "cut", cut)
    with pytest.raises(AssertionError, match="rows are missing"):
        run_some()


@pytest.mark.slow
def test_rows_that_do_not_move_are_noticed(monkeypatch) -> None:
    right = JoinState.seal

    def seal(self: JoinState) -> Any:
        self._moving = []
        return right(self)

    monkeypatch.setattr(JoinState, "seal", seal)
    with pytest.raises(AssertionError, match="rows are missing"):
        run_some()


def test_few_rows_are_counted_on(monkeypatch) -> None:
    """Cuts may come every few milliseconds."""
    monkeypatch.setattr(heavy, "LEAST_ROWS", 4_096)
    cells = HeavyCells(0, 2, RIGHT)
    for _ in range(4):
        cells.count(np.full(1_000, 7))
        cells.report()
        assert cells.cut() == []
    cells.count(np.full(1_000, 7))
    cells.report()
    assert cells.cut() == [7]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inner", "left"])
def test_streams_without_checkpoints(name: str) -> None:
    """Each cut tells that rows have left: it is one for heavy keys, too."""
    given = {source: batches(seed, COUNT) for seed, source in enumerate("ab")}
    found = []
    with opened(QUERIES[name], 3) as stream:
        for place in range(COUNT):
            for source in "ab":
                stream.push(source, given[source][place])
            found.append(stream.poll())
        found.append(stream.close())
    rows = comparable(pa.concat_tables(found))
    assert not difference(rows, wanted(QUERIES[name], given["a"], given["b"]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["left", "right"])
def test_streams(name: str, tmp_path) -> None:
    given = {source: batches(seed, 30) for seed, source in enumerate("ab")}
    found: dict[int, Any] = {}
    for size, places in ((3, range(12)), (2, range(12, 30))):
        kept = Checkpoint(tmp_path, every_s=600)
        with opened(QUERIES[name], size, checkpoint=kept) as stream:
            for place in places:
                for source in "ab":
                    stream.push(source, given[source][place])
                if place % 4 == 3:
                    stream.flush()
                found.update(numbered(stream))
            if places[-1] < 29:
                stream.stop()
                continue
            last = stream.close()
            found.update([] if last is None else [last])
            found.update(numbered(stream))
    rows = comparable(pa.concat_tables(found.values()))
    assert not difference(rows, wanted(QUERIES[name], given["a"], given["b"]))


@pytest.mark.parametrize("name", ["inner", pytest.param("right", marks=pytest.mark.slow)])
def test_tables(name: str) -> None:
    tables = {s: pa.Table.from_batches(batches(seed, 20)) for seed, s in enumerate("ab")}
    time = {"a": "t", "b": "t"}
    found = penstock.sql(QUERIES[name], tables, time=time, workers=3)
    whole = penstock.sql(QUERIES[name], tables, time=time)
    assert not difference(comparable(found), comparable(whole))
    job = Job(QUERIES[name], SCHEMAS, QueryOptions(time=time), 3, False, 0.0, 1, None, False, True)
    assert len(compiled(job).heavy(tables)) == 1


def test_what_is_heavy() -> None:
    loads = np.zeros(WORKER_CELLS, np.int64)
    loads[:8] = 1000
    assert heavy_cells(loads, 8000, 2) == []
    loads[5] = 12_000
    assert heavy_cells(loads, 19_000, 2) == [5]
    assert heavy_cells(loads, 19_000, 1) == []
    assert heavy_cells(loads // 100, 190, 2) == []


def test_all_come_to_the_same_cells() -> None:
    ours, theirs = HeavyCells(0, 2, RIGHT), HeavyCells(1, 2, RIGHT)
    ours.count(np.full(900, 7))
    theirs.count(np.arange(400) % WORKER_CELLS)
    for one, other, rank in ((ours, theirs, 0), (theirs, ours, 1)):
        other.take_report(rank, one.report())
    ours.count(np.full(5000, 9))  # behind its mark
    assert ours.cut() == theirs.cut() == [7]
    assert ours.copied(RIGHT, np.array([7, 8])).tolist() == [True, False]
    assert not ours.copied(LEFT, np.array([7])).any()
    assert not ours.spread(LEFT, np.array([7])).any()
    assert ours.cut() == []
    assert ours.spread(LEFT, np.array([7, 8])).tolist() == [True, False]
    assert ours.cells == [7]
    with pytest.raises(MalformedError, match="is cut"):
        ours.take_report(1, b"\0" * 16)
    with pytest.raises(MalformedError, match="a cell that there is not"):
        ours.take_report(1, np.array([9, WORKER_CELLS, 9], "<i8").tobytes())
    assert heavy.TOLERANCE > 0


def test_null_keys_are_no_load() -> None:
    """Workers get rows without a key in turn, so these make no cell heavy."""
    count = 4_000
    keys = [None] * count + [key % 40 for key in range(count)]
    columns = [range(2 * count), keys, [None] * 2 * count, [0] * 2 * count, [0] * 2 * count]
    table = pa.table(columns, schema=SCHEMA)
    hands = Hands(QUERIES["inner"], 2, Random(0))
    hands.idle = None
    hands.fold(0, table.combine_chunks().to_batches()[0], 0)
    loads = 0
    for state in hands.states:
        state.seal()
        loads += np.frombuffer(state._heavy.report() or bytes(8), "<i8")[0]
    assert loads == count
    options = QueryOptions(time={"a": "t", "b": "t"})
    job = Job(QUERIES["inner"], SCHEMAS, options, 2, False, 0.0, 1 << 26, Path(), False)
    assert compiled(job).heavy({"a": table, "b": table}) == ()
