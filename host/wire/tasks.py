"""Tasks and their results as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.host.device.base import Folds, Pause, Result, Task
from penstock.host.wire.columns import batch_of
from penstock.host.wire.message import Header, MalformedError, field
from penstock.program import Mode


def task_message(task: Task) -> tuple[Header, pa.RecordBatch]:
    """A task as fields of a header, and a body: start, end, stream columns."""
    columns = [np.asarray(task.start, np.int64), np.asarray(task.end, np.int64), *task.stream]
    return {"room": int(task.room), "mode": task.mode.value}, batch_of(columns)


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
    return Task(stream, start, end, min(field(header, "room", int), most_room), mode)


def result_message(result: Result) -> tuple[Header, pa.RecordBatch]:
    """A result as fields of a header, and a body: i and j, or found, value and position."""
    pause, folds = result.pause, result.folds
    header: Header = {
        "pause": None if pause is None else [int(pause.i0), int(pause.i1), int(pause.p)],
        "counters": {name: int(value) for name, value in result.counters.items()},
        "folds": folds is not None,
    }
    if folds is None:
        return header, batch_of([result.i, result.j])
    columns = [folds.found, folds.value]
    return header, batch_of(columns if folds.position is None else [*columns, folds.position])


def result_from(header: Mapping[str, object], columns: Sequence[np.ndarray]) -> Result:
    """The result of a message.

    Raises
    ------
    MalformedError
    """
    counters = field(header, "counters", dict)
    if header.get("folds"):
        if len(columns) not in (2, 3):
            raise MalformedError(f"aggregates have 2 or 3 columns, not {len(columns)}")
        none = np.zeros(0, np.uint32)
        return Result(none, none, None, counters, Folds(*columns))
    if len(columns) != 2:
        raise MalformedError(f"pairs have 2 columns, not {len(columns)}")
    pause = header.get("pause")
    where = None if pause is None else Pause(*field(header, "pause", list))
    return Result(columns[0], columns[1], where, counters)
