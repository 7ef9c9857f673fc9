"""Checks of a device's inputs: window keys and tasks. Each raises DeviceError."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import DeviceError
from penstock.program import BandProgram, Mode, Program, WindowProgram
from penstock.types import Type

from .base import AnyTask, Kernel, Task, WindowBuffer
from .search import SPARE_ROWS, SearchTask
from .storage import key_dtype, storage_dtype
from .window_join import WindowTask

#: Most positions of a window: results name them with 32 bits.
MAX_POSITION = (1 << 32) - 1

#: A column's required dtype, or its type with the bounds of its values; None: anything.
Column = np.dtype | Type | None


def stream_columns(program: Program) -> Sequence[Column]:
    """Stream columns of a task of the program."""
    if isinstance(program, BandProgram):
        return [key_dtype(program.key_bits)] * (2 * program.tests)
    return list(program.stream)


def window_columns(program: Program) -> Sequence[Column]:
    """Columns of the program's windows."""
    if isinstance(program, BandProgram):
        payload = [] if program.payload is None else [program.payload]
        return [*[key_dtype(program.key_bits)] * program.tests, *payload]
    return list(program.window)


def check_capacity(capacity: int) -> None:
    """Refuse a window with more positions than results can name."""
    if not 0 <= capacity <= MAX_POSITION:
        raise DeviceError(
            f"a window cannot have room for {capacity} tuples, only for 0 to {MAX_POSITION}; split "
            "the window into runs"
        )


def check_write(
    window: WindowBuffer, wanted: Sequence[Column], offset: int, columns: Sequence[np.ndarray]
) -> int:
    """Refuse keys that do not fit a window; returns the number of tuples."""
    check_columns("window keys", wanted, columns)
    count = len(columns[0]) if columns else 0
    if any(len(column) != count for column in columns):
        raise DeviceError("window keys must have equal lengths, one entry per window tuple")
    if not 0 <= offset <= offset + count <= window.capacity:
        raise DeviceError(
            f"{count} tuples at position {offset} do not fit a window of {window.capacity}; "
            "allocate a larger window or write fewer"
        )
    return count


def check_task(kernel: Kernel, capacity: int, wanted: Sequence[Column], task: Task) -> None:
    """Refuse a task of a range join that a kernel cannot run on a window.

    Parameters
    ----------
    capacity : int
        Positions of the window.
    wanted : sequence of Column
        Requirements of the stream columns.
    """
    check_columns("stream columns", wanted, task.stream)
    start, end = np.asarray(task.start), np.asarray(task.end)
    if any(len(column) != task.rows for column in (end, *task.stream)):
        raise DeviceError(
            f"stream columns and ranges must have equal lengths, {task.rows}: one entry per stream "
            "tuple"
        )
    _check_mode(kernel, task)
    if task.mode is Mode.PAIRS:
        _check_room(kernel, task)
    if not task.rows:
        return
    if start[0] < 0 or end[-1] > capacity:
        raise DeviceError(
            f"a task's ranges span [{start[0]}, {end[-1]}) in a window of {capacity} tuples; clip "
            "them to the window"
        )
    if (end < start).any() or (start[1:] < start[:-1]).any() or (end[1:] < end[:-1]).any():
        raise DeviceError(
            "a task's ranges are out of order; sort the stream tuples so that starts and ends "
            "both never fall, with start <= end"
        )


def check_search_task(
    kernel: Kernel, stream: Sequence[Column], window: Sequence[np.dtype], task: SearchTask
) -> None:
    """Refuse a search that a kernel cannot run.

    Parameters
    ----------
    stream, window : sequence of Column
        Requirements of the columns of either side.
    """
    check_columns("stream columns", stream, task.stream)
    check_columns("window columns", window, task.ordered.columns)
    entries = (task.start, task.end, *task.boxes.arrays, *task.stream)
    if any(len(column) != task.rows for column in entries):
        raise DeviceError(
            f"stream columns, ranges and boxes must have equal lengths, {task.rows}: one entry per "
            "stream tuple"
        )
    _check_mode(kernel, task)
    if task.mode is Mode.PAIRS and task.room < SPARE_ROWS:
        raise DeviceError(f"a search needs room for {SPARE_ROWS} pairs, not {task.room}")
    if any(len(column) < task.ordered.count + SPARE_ROWS for column in task.ordered.columns):
        raise DeviceError(f"columns of a search must have {SPARE_ROWS} spare rows at their end")


def check_window_task(kernel: Kernel, task: WindowTask, *, typed: bool = False) -> None:
    """Refuse a task of a window join that a kernel cannot run.

    Parameters
    ----------
    typed : bool
        Whether to check the columns against the program's types and bounds.
    """
    tuples, program = task.tuples, kernel.program
    assert isinstance(program, WindowProgram)
    if not 0 <= task.history <= len(tuples):
        raise DeviceError(f"{len(tuples)} tuples cannot have a history of {task.history}")
    of_b = int(np.count_nonzero(tuples.is_b))
    directions = (program.a, program.b), (program.b, program.a)
    for side, (probing, other) in enumerate(directions):
        wanted = [*window_columns(other), *stream_columns(probing)]
        columns = [*tuples.window[side], *tuples.stream[side]]
        kind, rows = f"columns of side {'AB'[side]}", of_b if side else len(tuples) - of_b
        check_columns(kind, wanted if typed else [None] * len(wanted), columns)
        if any(len(column) != rows for column in columns):
            raise DeviceError(f"{kind} must have {rows} rows, one per tuple")
    _check_room(kernel, task)


def _check_mode(kernel: Kernel, task: Task | SearchTask) -> None:
    if task.mode not in kernel.modes:
        raise DeviceError(
            f"the program was opened for other modes than {task.mode.value}; name every mode when "
            "opening it"
        )


def _check_room(kernel: Kernel, task: AnyTask) -> None:
    if task.room < (least := kernel.least_room(task)):
        raise DeviceError(f"a task needs room for {least} pairs, not {task.room}")


def check_columns(kind: str, wanted: Sequence[Column], columns: Sequence[np.ndarray]) -> None:
    """Refuse columns that do not fit a program."""
    if len(columns) != len(wanted):
        raise DeviceError(f"the program has {len(wanted)} {kind}, not {len(columns)}")
    for column, declared in zip(columns, wanted, strict=True):
        if isinstance(declared, Type) and declared.is_integral:
            _check_integers(kind, declared, column)
        elif declared is not None:
            dtype = storage_dtype(declared) if isinstance(declared, Type) else declared
            if not np.can_cast(np.asarray(column).dtype, dtype, "safe"):
                raise DeviceError(
                    f"{kind} of {column.dtype} came where the program has {dtype}; prepare the "
                    "keys in the program's layout"
                )


def _check_integers(kind: str, declared: Type, column: np.ndarray) -> None:
    """Refuse integers beyond the bounds of their type, by which devices choose widths."""
    if column.dtype.kind in "iu":
        info = np.iinfo(column.dtype)
        if declared.lo <= info.min and info.max <= declared.hi:
            return
    elif not column.dtype == storage_dtype(declared) == np.dtype(object):
        raise DeviceError(f"{kind} of {column.dtype} came where the program has {declared}")
    if len(column) and (column.min() < declared.lo or column.max() > declared.hi):
        raise DeviceError(
            f"{kind} have values of {column.min()} to {column.max()} where the program says "
            f"{declared.lo} to {declared.hi}"
        )
