"""What is wrong with a write of window keys or a task is said the same on every device."""

from __future__ import annotations

import re

import numpy as np
import pytest

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Kernel, Task, WindowBuffer
from penstock.host.device.checks import (
    MAX_POSITION,
    check_capacity,
    check_columns,
    check_task,
    check_window_task,
    check_write,
    stream_columns,
    window_columns,
)
from penstock.host.device.window_join import Arrivals, WindowTask
from penstock.program import BandProgram, Mode, WindowProgram
from penstock.types import integer

PROGRAM = BandProgram(1, 0b10, 32, integer(0, 9, nullable=False))
CODES = np.arange(3, dtype=np.uint32)
VALUES = np.arange(3, dtype=np.int8)


class Loaded(Kernel):
    """A program of which tasks are checked."""

    min_room = 4

    def submit(self, window, task):
        raise NotImplementedError


class Window(WindowBuffer):
    """A window that is never written."""

    def write(self, offset, columns):
        raise NotImplementedError

    def free(self):
        raise NotImplementedError


def refused(message: str):
    return pytest.raises(DeviceError, match=re.escape(message))


def task(start, end, room=9, mode=Mode.PAIRS, dtype=np.uint32) -> Task:
    return Task([np.zeros(len(start), dtype)] * 2, np.array(start), np.array(end), room, mode)


@pytest.mark.parametrize("capacity", [-1, MAX_POSITION + 1])
def test_capacity(capacity: int) -> None:
    check_capacity(MAX_POSITION)
    with refused(f"room for {capacity} tuples"):
        check_capacity(capacity)


@pytest.mark.parametrize(
    ("offset", "columns", "message"),
    [
        (0, [CODES], "the program has 2 window keys, not 1"),
        (0, [CODES, VALUES[1:]], "window keys must have equal lengths"),
        (3, [CODES, VALUES], "3 tuples at position 3 do not fit a window of 5"),
        (-1, [CODES, VALUES], "3 tuples at position -1 do not fit"),
        (0, [CODES.astype(np.int64), VALUES], "window keys of int64 came where the program has"),
        (0, [CODES, VALUES + 8], "values of 8 to 10 where the program says 0 to 9"),
    ],
)
def test_writes(offset: int, columns: list, message: str) -> None:
    window, wanted = Window(5), window_columns(PROGRAM)
    assert check_write(window, wanted, 2, [CODES, VALUES]) == 3
    with refused(message):
        check_write(window, wanted, offset, columns)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Task([CODES], CODES, CODES, 9), "the program has 2 stream columns, not 1"),
        (task([0], [1], dtype=np.int64), "stream columns of int64 came where the program has"),
        (Task([CODES] * 2, CODES[1:], CODES[1:], 9), "must have equal lengths, 2"),
        (task([0], [1], mode=Mode.COUNT), "opened for other modes than count"),
        (task([0], [1], room=3), "a task needs room for 4 pairs, not 3"),
        (task([0], [6]), "span [0, 6) in a window of 5"),
        (task([-1], [1]), "span [-1, 1) in a window of 5"),
        (task([1, 0], [2, 2]), "out of order"),
        (task([0, 1], [2, 1]), "out of order"),
        (task([0, 3], [1, 2]), "out of order"),
    ],
)
def test_tasks(wrong: Task, message: str) -> None:
    kernel, wanted = Loaded(PROGRAM, PAIRS), stream_columns(PROGRAM)
    check_task(kernel, 5, wanted, task([0, 0, 5], [1, 2, 5]))
    check_task(kernel, 5, wanted, task([], []))
    with refused(message):
        check_task(kernel, 5, wanted, wrong)


def test_window_tasks() -> None:
    kernel = Loaded(WindowProgram(PROGRAM, PROGRAM, (3, 4)))
    is_b = np.array([False, True, True])
    a, b = ([CODES[:1], VALUES[:1]], [CODES[:2], VALUES[:2]])
    tuples = Arrivals(is_b, (a, b), ([CODES[:1]] * 2, [CODES[:2]] * 2))
    check_window_task(kernel, WindowTask(tuples, 3, 4), typed=True)
    for history in (-1, 4):
        with refused(f"3 tuples cannot have a history of {history}"):
            check_window_task(kernel, WindowTask(tuples, history, 4))
    with refused("a task needs room for 4 pairs, not 3"):
        check_window_task(kernel, WindowTask(tuples, 0, 3))
    short = Arrivals(is_b, (a, [CODES[:1], VALUES[:2]]), tuples.stream)
    with refused("columns of side B must have 2 rows, one per tuple"):
        check_window_task(kernel, WindowTask(short, 0, 4))
    fewer = Arrivals(is_b, (a[:1], b), tuples.stream)
    with refused("the program has 4 columns of side A, not 3"):
        check_window_task(kernel, WindowTask(fewer, 0, 4))
    wide = Arrivals(is_b, tuples.window, ([CODES[:1].astype(np.int64)] * 2, tuples.stream[1]))
    check_window_task(kernel, WindowTask(wide, 0, 4))
    with refused("columns of side A of int64 came where the program has uint32"):
        check_window_task(kernel, WindowTask(wide, 0, 4), typed=True)


def test_no_columns_of_any_kind() -> None:
    check_columns("window keys", [None], [np.array(["a"])])
