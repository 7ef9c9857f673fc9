"""Rows that workers of one host have once: who writes them, who maps them, and what if not."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import Checkpoint
from penstock.host.device.fields import MalformedError
from penstock.host.wire import sealed
from penstock.host.workers.joining.runs import HostRuns, OwnRuns, create_board
from tests.host.workers.kit.groups import Rows, comparable, difference, numbered
from tests.kit.effort import effort

ROWS = 50_000
TABLE = pa.table(
    {"x": np.arange(ROWS), "name": ["a", "", None, "bcd", "e"] * (ROWS // 5), "y": np.ones(ROWS)}
)
Made = Callable[[int], HostRuns]


@pytest.fixture
def made() -> Iterator[Made]:
    """Give workers of one host."""
    board, found = create_board(), []

    def make(count: int, patience_s: float = 60) -> HostRuns:
        found.append(HostRuns(board, count, patience_s))
        return found[-1]

    yield make
    os.close(board)
    for own in found:
        own.close()


def never() -> pa.Table:
    raise AssertionError("it has been made already")


def test_the_first_writes_and_the_others_map(made: Made) -> None:
    one, two, three = (made(3) for _ in range(3))
    mine = one.run(1, ROWS, lambda: TABLE)
    theirs = [own.run(1, ROWS, never) for own in (two, three)]
    assert mine.is_own
    assert not any(own.is_own for own in theirs)
    assert all(own.table.equals(TABLE) for own in (mine, *theirs))
    assert mine.has(mine.table["x"].chunk(0).to_numpy())
    assert not mine.has(theirs[0].table["x"].chunk(0).to_numpy())


def test_each_run_is_written_by_whoever_comes_first(made: Made) -> None:
    workers = [made(2), made(2)]
    for number in range(1, 200):
        first, second = workers[:: 1 if number % 3 else -1]
        rows = TABLE.slice(number, ROWS // 2)
        assert first.run(number, rows.num_rows, lambda rows=rows: rows).is_own
        assert second.run(number, rows.num_rows, never).table.equals(rows)


def test_descriptors_do_not_grow(made: Made) -> None:
    one, two = made(2), made(2)
    files = lambda: len(os.listdir("/proc/self/fd"))  # noqa: E731
    before = files()
    for number in range(1, 30):
        one.run(number, ROWS, lambda: TABLE)
        two.run(number, ROWS, never)
    assert files() <= before + 2
    for number in range(30, 300):  # the other one takes none
        one.run(number, ROWS, lambda: TABLE)
    assert files() <= before + 66
    one.close()
    gc.collect()
    assert files() <= before


def test_what_is_mapped_outlives_its_writer(made: Made) -> None:
    one, two = made(2), made(2)
    one.run(1, ROWS, lambda: TABLE)
    found = two.run(1, ROWS, never)
    one.close()
    del one
    gc.collect()
    assert found.table.equals(TABLE)


def test_a_run_that_is_dropped_before_its_last_reader_is_made_again(made: Made) -> None:
    one, two, three = made(3), made(3), made(3)
    one.run(1, ROWS, lambda: TABLE)
    assert not two.run(1, ROWS, never).is_own
    one.close()
    own = three.run(1, ROWS, lambda: TABLE)
    assert own.is_own
    assert own.table.equals(TABLE)


def test_others_wait_for_one_that_writes(made: Made) -> None:
    one, two = made(2), made(2)
    has_begun, goes_on = threading.Event(), threading.Event()

    def slow() -> pa.Table:
        has_begun.set()
        assert goes_on.wait(60)
        return TABLE

    writer = threading.Thread(target=lambda: one.run(1, ROWS, slow))
    writer.start()
    assert has_begun.wait(60)
    found = []
    reader = threading.Thread(target=lambda: found.append(two.run(1, ROWS, never)))
    reader.start()
    goes_on.set()
    writer.join(60)
    reader.join(60)
    assert not found[0].is_own
    assert found[0].table.equals(TABLE)


def test_nobody_waits_for_ever(made: Made) -> None:
    one, two = made(2), made(2, patience_s=0.01)

    def asks() -> pa.Table:
        # While the first still writes, the other makes its own.
        assert two.run(1, ROWS, lambda: TABLE).is_own
        return TABLE

    assert one.run(1, ROWS, asks).table.equals(TABLE)


def test_a_worker_far_behind_makes_its_own(made: Made) -> None:
    one, two = made(2), made(2)
    for number in range(1, 100):
        one.run(number, ROWS, lambda: TABLE)
    assert two.run(1, ROWS, lambda: TABLE.slice(1)).table.num_rows == ROWS - 1
    assert two.run(99, ROWS, never).table.equals(TABLE)


def test_other_memory_under_the_number_of_a_descriptor_is_refused(made: Made) -> None:
    one, two = made(2), made(2)
    one.run(1, ROWS, lambda: TABLE)
    (file,) = one._written.values()
    other = create_board()
    os.dup2(other, file)
    os.close(other)
    assert two.run(1, ROWS, lambda: TABLE).is_own


def test_other_rows_for_the_same_step_are_an_error(made: Made) -> None:
    one, two = made(2), made(2)
    one.run(1, ROWS, lambda: TABLE)
    with pytest.raises(MalformedError, match="49999 rows for the same step"):
        two.run(1, ROWS - 1, never)


@pytest.mark.parametrize("size", [0, 100])
def test_little_is_not_shared(made: Made, size: int) -> None:
    one, two = made(2), made(2)
    few = TABLE.slice(0, size)
    assert one.run(1, size, lambda: few).is_own
    assert two.run(1, size, lambda: few).is_own


def test_without_memory_each_makes_its_own(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str, size: int) -> int:
        raise OSError(12, "no memory")

    one, two = made(2), made(2)
    monkeypatch.setattr(sealed, "create_sealed", fails)
    assert one.run(1, ROWS, lambda: TABLE).table is TABLE
    assert two.run(1, ROWS, lambda: TABLE).table is TABLE


def test_one_alone_makes_all() -> None:
    assert OwnRuns().run(1, ROWS, lambda: TABLE).table is TABLE


COUNT, PIECE = 40_000, 8_000
SCHEMA = pa.schema([(name, pa.int64()) for name in ("n", "t", "x", "p", "q", "r", "s")])
SCHEMAS, TIME = {"a": SCHEMA, "b": SCHEMA}, {"a": "t", "b": "t"}
QUERY = (
    "SELECT a.n AS i, b.n AS j, a.p AS p, b.q AS q, a.r AS r, b.s AS s FROM a JOIN b "
    "ON abs(a.x - b.x) < 2000 AND b.t BETWEEN a.t - 20000 AND a.t + 20000"
)


@pytest.fixture(scope="module")
def given() -> dict[str, pa.RecordBatch]:
    """Rows of which a step has more than what is too little to be shared."""
    rng, found = np.random.default_rng(3), {}
    for side in "ab":
        columns = [
            np.arange(COUNT),
            np.arange(COUNT) // 4,
            rng.integers(0, 1 << 30, COUNT),
            *rng.integers(0, 9, (4, COUNT)),
        ]
        found[side] = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=SCHEMA)
    return found


@pytest.fixture(scope="module")
def whole(given: dict[str, pa.RecordBatch]) -> Rows:
    tables = {side: pa.Table.from_batches([rows]) for side, rows in given.items()}
    found = comparable(penstock.sql(QUERY, tables, time=TIME))
    assert found
    return found


@pytest.mark.slow
def test_workers_hold_the_rows_of_a_window_once(
    given: dict[str, pa.RecordBatch], whole: Rows
) -> None:
    held: dict[int, int] = {}
    for size in (1, 3):
        with penstock.stream(QUERY, SCHEMAS, time=TIME, workers=size) as stream:
            for place in range(0, COUNT, PIECE):
                for side, rows in given.items():
                    stream.push(side, rows.slice(place, PIECE))
            stream.flush()
            held[size] = stream.report().memory_bytes["workers"]
            found = pa.concat_tables([stream.poll(), stream.close()])
        assert not difference(comparable(found), whole)
    # What each reads of the rows is its own; three times all of it would be without sharing.
    assert held[3] < 2.2 * held[1]


def test_workers_that_are_killed_lose_no_row(
    given: dict[str, pa.RecordBatch], whole: Rows, tmp_path: Path
) -> None:
    found: dict[int, pa.Table] = {}
    kept = Checkpoint(tmp_path, every_s=600)
    size, killed = effort((3, (PIECE, 3 * PIECE)), (2, (PIECE,)))
    with penstock.stream(QUERY, SCHEMAS, time=TIME, workers=size, checkpoint=kept) as stream:
        for place in range(0, COUNT, PIECE):
            for side, rows in given.items():
                stream.push(side, rows.slice(place, PIECE))
            stream.flush()
            found.update(numbered(stream))
            if place in killed:
                os.kill(stream.processes[place // PIECE % size], signal.SIGKILL)
        last = stream.close()
        found.update([] if last is None else [last])
        found.update(numbered(stream))
    assert not difference(comparable(pa.concat_tables(found.values())), whole)
