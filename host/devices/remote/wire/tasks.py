"""Tasks and their results as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.expr.node import Expr
from penstock.program import AnyProgram, BandProgram, Mode, Program, WindowProgram

from ....device.base import AnyTask, Folds, Pause, Result, Task
from ....device.fields import Header, MalformedError, count_field, field
from ....device.window_join import Arrivals, WindowTask

#: Counters of a result, at most; devices have a dozen.
_MOST_COUNTERS = 100


def task_message(task: AnyTask) -> tuple[Header, list[np.ndarray]]:
    """A task as fields of a header, and a body."""
    if isinstance(task, WindowTask):
        return _window_task_message(task)
    columns = [np.asarray(task.start, np.int64), np.asarray(task.end, np.int64), *task.stream]
    return {"room": int(task.room), "mode": task.mode.value}, columns


def task_from(
    header: Mapping[str, object], columns: Sequence[np.ndarray], program: AnyProgram
) -> AnyTask:
    """The task of a message, for a kernel of a program.

    Its columns are copies, which nobody changes while it runs.

    Raises
    ------
    MalformedError
    """
    if isinstance(program, WindowProgram):
        return _window_task_from(header, columns)
    if len(columns) < 2 or any(column.dtype != np.int64 for column in columns[:2]):
        raise MalformedError("a task begins with two columns of int64, start and end")
    try:
        mode = Mode(header.get("mode"))
    except ValueError as cause:
        raise MalformedError(f"a task has the mode {header.get('mode')!r:.80}") from cause
    start, end, *stream = (np.array(column) for column in columns)
    return Task(stream, start, end, count_field(header, "room"), mode)


def _window_task_message(task: WindowTask) -> tuple[Header, list[np.ndarray]]:
    """A body of the side of each tuple, then A's window and stream columns, and B's.

    Columns of a message are of one length: those of a side have a row per tuple of either side,
    without a meaning where the tuple is of the other side.
    """
    tuples = task.tuples
    columns, counts = [np.asarray(tuples.is_b, bool)], []
    for side, of_side in enumerate((~columns[0], columns[0])):
        for some in (tuples.window[side], tuples.stream[side]):
            counts.append(len(some))
            for column in some:
                spread = np.zeros(len(tuples), column.dtype)
                spread[of_side] = column
                columns.append(spread)
    header = {"history": int(task.history), "room": int(task.room), "columns": counts}
    return header, columns


def _window_task_from(header: Mapping[str, object], columns: Sequence[np.ndarray]) -> WindowTask:
    counts = field(header, "columns", list)
    if (
        len(counts) != 4
        or any(type(n) is not int or n < 0 for n in counts)
        or len(columns) != 1 + sum(counts)
        or columns[0].dtype != np.bool_
    ):
        raise MalformedError("a task of the window-join operator has sides, and columns of both")
    is_b, remaining = np.array(columns[0]), list(columns[1:])
    picked = []
    for place, count in enumerate(counts):
        of_side = is_b if place >= 2 else ~is_b
        picked.append([column[of_side] for column in remaining[:count]])
        remaining = remaining[count:]
    tuples = Arrivals(is_b, (picked[0], picked[2]), (picked[1], picked[3]))
    history = count_field(header, "history", len(is_b))
    return WindowTask(tuples, history, count_field(header, "room"))


def result_message(result: Result) -> tuple[Header, list[np.ndarray]]:
    """A result as fields of a header, and a body: i and j, or found, value and position."""
    pause, folds = result.pause, result.folds
    header: Header = {
        "pause": None if pause is None else [int(pause.i0), int(pause.i1), int(pause.p)],
        "counters": {name: int(value) for name, value in result.counters.items()},
    }
    if folds is None:
        return header, [result.i, result.j]
    columns = [folds.found, folds.value]
    return header, columns if folds.position is None else [*columns, folds.position]


def result_from(
    header: Mapping[str, object],
    columns: Sequence[np.ndarray],
    task: AnyTask,
    capacity: int,
    program: AnyProgram,
) -> Result:
    """The result of a message; it is checked to be one that the task can have.

    Parameters
    ----------
    capacity : int
        Positions of the window, for a task of a range join.

    Raises
    ------
    MalformedError
    """
    counters = _counters(header)
    if isinstance(task, WindowTask):
        of_b = int(np.count_nonzero(task.tuples.is_b))
        bounds = task.rows - of_b, of_b
    elif task.mode is not Mode.PAIRS:
        assert not isinstance(program, WindowProgram)
        none = np.zeros(0, np.uint32)
        return Result(none, none, None, counters, _folds(columns, task, capacity, program))
    else:
        bounds = task.rows, capacity
    i, j = _pairs(columns, bounds)
    if len(i) > task.room:
        raise MalformedError(f"{len(i)} pairs came for a task with room for {task.room}")
    pause = header.get("pause")
    return Result(i, j, None if pause is None else _pause(pause, task), counters)


def _counters(header: Mapping[str, object]) -> dict[str, int]:
    counters = field(header, "counters", dict)
    if len(counters) > _MOST_COUNTERS:
        raise MalformedError(f"a result has {len(counters)} counters, above {_MOST_COUNTERS}")
    return {name: count_field(counters, name) for name in counters}


def _pairs(columns: Sequence[np.ndarray], bounds: tuple[int, int]) -> Sequence[np.ndarray]:
    if len(columns) != 2:
        raise MalformedError(f"pairs have 2 columns, not {len(columns)}")
    for column, bound in zip(columns, bounds, strict=True):
        if column.dtype != np.uint32:
            raise MalformedError(f"pairs are of uint32, not of {column.dtype}")
        if len(column) and column.max() >= bound:
            raise MalformedError(f"a pair has {column.max()}, and there are {bound}")
    return columns


def _pause(value: object, task: AnyTask) -> Pause:
    """Read the point at which a task paused; refuse one that leaves no less work than before."""
    if isinstance(value, list) and len(value) == 3 and all(type(n) is int for n in value):
        i0, i1, p = value
        if isinstance(task, WindowTask):
            possible = task.history < i0 == i1 <= task.rows and p == 0
        else:
            begun = i0 > 0 or (i1 > 0 and p > task.start[0])
            possible = 0 <= i0 <= i1 <= task.rows and begun and 0 <= p <= task.end[-1]
        if possible:
            return Pause(i0, i1, p)
    raise MalformedError(f"a task of {task.rows} tuples paused at {value!r:.80}")


def _folds(columns: Sequence[np.ndarray], task: Task, capacity: int, program: Program) -> Folds:
    nearest = task.mode is Mode.NEAREST
    if len(columns) != (3 if nearest else 2) or any(len(c) != task.rows for c in columns):
        raise MalformedError(f"{len(columns)} columns came as {task.mode.value} of each tuple")
    matched, value = columns[:2]
    if matched.dtype != np.bool_ or value.dtype not in _fold_dtypes(task.mode, program):
        raise MalformedError(f"{matched.dtype} and {value.dtype} came as {task.mode.value}")
    if not nearest:
        return Folds(matched, value)
    position = columns[2]
    if position.dtype != np.int64:
        raise MalformedError(f"positions are of int64, not of {position.dtype}")
    if len(position) and (position.min() < -1 or position.max() >= capacity):
        raise MalformedError(f"a position lies outside a window of {capacity}")
    return Folds(matched, value, position)


def _fold_dtypes(mode: Mode, program: Program) -> tuple[np.dtype, ...]:
    if mode is Mode.EXISTS:
        return (np.dtype(np.bool_),)
    if mode is Mode.COUNT:
        return (np.dtype(np.int64),)
    value = program.payload if isinstance(program, BandProgram) else program.value
    dtype = value.type if isinstance(value, Expr) else value
    if dtype is not None and dtype.is_float:
        return (np.dtype(np.float64),)
    return np.dtype(np.int64), np.dtype(object)
