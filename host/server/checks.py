"""What a client's keys and tasks must be, checked before a device sees them.

Devices check their tasks, too, each in its own way; here all of it is checked for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import Task
from penstock.host.device.storage import key_dtype, storage_dtype
from penstock.host.device.window_join import WindowTask
from penstock.host.device.window_ranges import check_task as check_tuples
from penstock.program import BandProgram, Mode, Program, WindowProgram
from penstock.types import Type

#: Positions of a window, at most: results name them with 32 bits.
MAX_POSITION = (1 << 32) - 1
#: Bytes of an aggregate of a stream tuple: whether it is there, value, position, and the integer
#: that the value is where it has more than 64 bits.
_FOLD_BYTES = 1 + 8 + 8 + 104
#: Pairs that devices may write beyond a result's room.
_SLACK = 1 << 10

#: What a column must be: codes of a dtype, or keys of a type.
_Column = np.dtype | Type


def pair_bytes(room: int) -> int:
    """Bytes of a result of so many pairs."""
    return 8 * (room + _SLACK)


def result_bytes(task: Task) -> int:
    """Bytes of a checked task's result, at most."""
    if task.mode is not Mode.PAIRS:
        return _FOLD_BYTES * task.rows
    # Devices allocate room for the result, and may do so where there are fewer pairs.
    return pair_bytes(task.room)


def check_keys(program: Program, columns: Sequence[np.ndarray]) -> None:
    """Refuse window keys that are none of a program's.

    Raises
    ------
    DeviceError
    """
    _check_columns("window keys", _window(program), columns)


def check_task(program: Program, capacity: int, task: Task, evaluations: int) -> None:
    """Refuse a task that a program cannot have on a window.

    Parameters
    ----------
    evaluations : int
        Predicate tests of a task, at most.

    Raises
    ------
    DeviceError
    """
    _check_columns("stream keys", _stream(program), task.stream)
    start, end = task.start, task.end
    if any(len(column) != task.rows for column in (end, *task.stream)):
        raise DeviceError(f"columns of a task must have {task.rows} rows, one per stream tuple")
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
    _check_evaluations(int((end - start).sum()), evaluations)


def _check_evaluations(count: int, most: int) -> None:
    if count > most:
        raise DeviceError(
            f"a task of {count} predicate tests would keep others waiting, above {most}; cut it"
        )


def check_arrivals(program: WindowProgram, task: WindowTask, evaluations: int) -> None:
    """Refuse a task that a window-join program cannot have.

    Parameters
    ----------
    evaluations : int
        Predicate tests of a task, at most.

    Raises
    ------
    DeviceError
    """
    check_tuples(task)
    for side, (own, other) in enumerate(((program.a, program.b), (program.b, program.a))):
        _check_columns("window keys", _window(other), task.tuples.window[side])
        _check_columns("stream keys", _stream(own), task.tuples.stream[side])
    start, end = task.tuples.met(task.rows)
    _check_evaluations(int((end - start)[task.history :].sum()), evaluations)


def _check_columns(what: str, wanted: Sequence[_Column], columns: Sequence[np.ndarray]) -> None:
    if len(columns) != len(wanted):
        raise DeviceError(
            f"{len(columns)} columns came as {what}, and the program has {len(wanted)}"
        )
    for column, own in zip(columns, wanted, strict=True):
        if isinstance(own, Type) and own.is_integral:
            _check_integers(what, own, column)
            continue
        dtype = storage_dtype(own) if isinstance(own, Type) else own
        if not np.can_cast(column.dtype, dtype, "safe"):
            raise DeviceError(f"{what} of {column.dtype} came where the program has {dtype}")


def _check_integers(what: str, own: Type, column: np.ndarray) -> None:
    """Devices compute with the width that the bounds need, and rely on them."""
    if column.dtype.kind in "iu":
        info = np.iinfo(column.dtype)
        if own.lo <= info.min and info.max <= own.hi:
            return
    elif not column.dtype == storage_dtype(own) == np.dtype(object):
        raise DeviceError(f"{what} of {column.dtype} came where the program has {own}")
    if len(column) and (column.min() < own.lo or column.max() > own.hi):
        raise DeviceError(
            f"{what} have values of {column.min()} to {column.max()} where the program says "
            f"{own.lo} to {own.hi}"
        )


def _stream(program: Program) -> list[_Column]:
    if isinstance(program, BandProgram):
        return [key_dtype(program.key_bits)] * (2 * program.tests)
    return list(program.stream)


def _window(program: Program) -> list[_Column]:
    if isinstance(program, BandProgram):
        payload = [] if program.payload is None else [program.payload]
        return [key_dtype(program.key_bits)] * program.tests + payload
    return list(program.window)
