"""Tasks and their results as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.expr.node import Expr
from penstock.host.device.base import Folds, Pause, Result, Task
from penstock.host.wire.message import Header, MalformedError, count_field, field
from penstock.program import BandProgram, Mode, Program

#: Counters of a result, at most; devices have a dozen.
_MOST_COUNTERS = 100


def task_message(task: Task) -> tuple[Header, list[np.ndarray]]:
    """A task as fields of a header, and a body: start, end, stream columns."""
    columns = [np.asarray(task.start, np.int64), np.asarray(task.end, np.int64), *task.stream]
    return {"room": int(task.room), "mode": task.mode.value}, columns


def task_from(header: Mapping[str, object], columns: Sequence[np.ndarray], most_room: int) -> Task:
    """The task of a message; its columns are copies, which nobody changes while it runs.

    Parameters
    ----------
    most_room : int
        Pairs that a result may hold at most, whatever the task says; it pauses then.

    Raises
    ------
    MalformedError
    """
    if len(columns) < 2 or any(column.dtype != np.int64 for column in columns[:2]):
        raise MalformedError("a task begins with two columns of int64, start and end")
    try:
        mode = Mode(header.get("mode"))
    except ValueError as cause:
        raise MalformedError(f"a task has the mode {header.get('mode')!r:.80}") from cause
    start, end, *stream = (np.array(column) for column in columns)
    return Task(stream, start, end, min(count_field(header, "room"), most_room), mode)


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
    task: Task,
    capacity: int,
    program: Program,
) -> Result:
    """The result of a message, which is one that the task can have.

    Parameters
    ----------
    capacity : int
        Of the window that the task ran on.
    program : Program

    Raises
    ------
    MalformedError
    """
    counters = counters_from(header)
    if task.mode is not Mode.PAIRS:
        none = np.zeros(0, np.uint32)
        return Result(none, none, None, counters, _folds(columns, task, capacity, program))
    i, j = pairs_from(columns, task.rows, capacity)
    if len(i) > task.room:
        raise MalformedError(f"{len(i)} pairs came for a task with room for {task.room}")
    pause = header.get("pause")
    return Result(i, j, None if pause is None else _pause(pause, task), counters)


def counters_from(header: Mapping[str, object]) -> dict[str, int]:
    """What a device counted during a task.

    Raises
    ------
    MalformedError
    """
    counters = field(header, "counters", dict)
    if len(counters) > _MOST_COUNTERS:
        raise MalformedError(f"a result has {len(counters)} counters, above {_MOST_COUNTERS}")
    return {name: count_field(counters, name) for name in counters}


def pairs_from(columns: Sequence[np.ndarray], *most: int) -> Sequence[np.ndarray]:
    """Two columns of a result, each of numbers below a bound.

    Raises
    ------
    MalformedError
    """
    if len(columns) != len(most):
        raise MalformedError(f"pairs have {len(most)} columns, not {len(columns)}")
    for column, bound in zip(columns, most, strict=True):
        if column.dtype != np.uint32:
            raise MalformedError(f"pairs are of uint32, not of {column.dtype}")
        if len(column) and column.max() >= bound:
            raise MalformedError(f"a pair has {column.max()}, and there are {bound}")
    return columns


def _pause(given: object, task: Task) -> Pause:
    """Where a task stopped; whatever is left is less than all of it."""
    if isinstance(given, list) and len(given) == 3 and all(type(n) is int for n in given):
        i0, i1, p = given
        begun = i0 > 0 or (i1 > 0 and p > task.start[0])
        if 0 <= i0 <= i1 <= task.rows and begun and 0 <= p <= task.end[-1]:
            return Pause(i0, i1, p)
    raise MalformedError(f"a task of {task.rows} tuples paused at {given!r:.80}")


def _folds(columns: Sequence[np.ndarray], task: Task, capacity: int, program: Program) -> Folds:
    nearest = task.mode is Mode.NEAREST
    if len(columns) != (3 if nearest else 2) or any(len(c) != task.rows for c in columns):
        raise MalformedError(f"{len(columns)} columns came as {task.mode.value} of each tuple")
    found, value = columns[:2]
    if found.dtype != np.bool_ or value.dtype not in _fold_dtypes(task.mode, program):
        raise MalformedError(f"{found.dtype} and {value.dtype} came as {task.mode.value}")
    if not nearest:
        return Folds(found, value)
    position = columns[2]
    if position.dtype != np.int64:
        raise MalformedError(f"positions are of int64, not of {position.dtype}")
    if len(position) and (position.min() < -1 or position.max() >= capacity):
        raise MalformedError(f"a position lies outside a window of {capacity}")
    return Folds(found, value, position)


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
