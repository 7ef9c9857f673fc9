"""Output rows made in threads: in order, some ahead, and none left running."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from penstock.host.emit.output import LEAST_VALUES, MOST_THREADS, Making, RowsByArrival, make_rows

NONE = np.zeros(0, np.int64)


def rows(number: int) -> RowsByArrival:
    return RowsByArrival(pa.record_batch({"n": [number]}), NONE, NONE)


def numbers(given: Iterator[RowsByArrival]) -> list[int]:
    return [one.batch["n"][0].as_py() for one in given]


def many(make: Callable[[], RowsByArrival]) -> Making:
    return Making(LEAST_VALUES, make)


@pytest.mark.parametrize("lanes", [1, 2, 4, 100])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_rows_keep_their_order(lanes: int, count: int) -> None:
    def slow(number: int) -> RowsByArrival:
        time.sleep(0.002 * (number % 3 == 0))
        return rows(number)

    makings = (Making(LEAST_VALUES * (n % 4), lambda n=n: slow(n)) for n in range(count))
    assert numbers(make_rows(makings, lanes)) == list(range(count))


def test_few_rows_need_no_thread() -> None:
    where: list[threading.Thread] = []

    def make() -> RowsByArrival:
        where.append(threading.current_thread())
        return rows(0)

    assert len(list(make_rows([Making(LEAST_VALUES - 1, make)] * 3, 2))) == 3
    assert set(where) == {threading.main_thread()}
    list(make_rows([many(make)], 2))
    assert where[-1] is not threading.main_thread()


@pytest.mark.parametrize("others", [0, 1, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_the_last_rows_are_made_in_the_thread_that_takes_them(others: int, count: int) -> None:
    where: dict[int, threading.Thread] = {}

    def make(number: int) -> RowsByArrival:
        where[number] = threading.current_thread()
        return rows(number)

    def makings(begin: int, end: int) -> Iterator[Making]:
        for number in range(begin, end):
            yield many(partial(make, number))

    every = make_rows(list(makings(0, others)), 2, lambda: makings(others, others + count))
    assert numbers(every) == list(range(others + count))
    here = [number for number, own in where.items() if own is threading.main_thread()]
    assert here == ([others + count - 1] if count else [])


@pytest.mark.parametrize("lanes", [1, 3, 1000])
def test_no_more_is_asked_for_than_threads_make(lanes: int) -> None:
    threads = min(lanes, MOST_THREADS)
    asked = 0
    begun = threading.Semaphore(0)
    go = threading.Event()

    def make(number: int) -> RowsByArrival:
        begun.release()
        assert go.wait(30)
        return rows(number)

    def makings() -> Iterator[Making]:
        nonlocal asked
        for n in range(4 * threads):
            asked += 1
            if asked == threads + 1:  # all threads are busy, and none gives rows before
                assert all(begun.acquire(timeout=30) for _ in range(threads))
                go.set()
            yield many(lambda n=n: make(n))

    given = make_rows(makings(), lanes)
    assert numbers(iter([next(given)])) == [0]
    assert asked <= threads + 1
    assert numbers(given) == list(range(1, 4 * threads))


def test_an_error_reaches_who_takes_the_rows() -> None:
    def fail() -> RowsByArrival:
        raise ValueError("no rows")

    makings = [many(lambda: rows(0)), many(fail), many(lambda: rows(2))]
    given = make_rows(makings, 2)
    assert next(given).batch.num_rows == 1
    with pytest.raises(ValueError, match="no rows"):
        list(given)


def test_an_error_of_what_finds_them_waits_for_what_runs() -> None:
    ended = threading.Event()

    def slow() -> RowsByArrival:
        time.sleep(0.05)
        ended.set()
        return rows(0)

    def makings() -> Iterator[Making]:
        yield many(slow)
        raise ValueError("no pairs")

    with pytest.raises(ValueError, match="no pairs"):
        list(make_rows(makings(), 2))
    assert ended.is_set() or threading.active_count() == 1


def test_closing_early_leaves_no_thread() -> None:
    before = threading.active_count()
    given = make_rows((many(lambda n=n: rows(n)) for n in range(100)), 4)
    next(given)
    given.close()
    assert threading.active_count() == before
