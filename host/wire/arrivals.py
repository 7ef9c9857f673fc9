"""Window-join programs, tasks and results as messages.

Columns of both sides have one row per tuple of either side, and are of no meaning where the tuple
is of the other side: the columns of a message are of one length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.host.device.window_join import Arrivals, WindowResult, WindowTask
from penstock.host.wire.message import Header, MalformedError, count_field, field
from penstock.host.wire.programs import program_from, program_header
from penstock.host.wire.tasks import counters_from, pairs_from
from penstock.program import WindowProgram


def join_header(program: WindowProgram, rows: tuple[int, int]) -> Header:
    """Fields of a call that names a program of the window-join operator."""
    return {
        "a": program_header(program.a),
        "b": program_header(program.b),
        "rows": [int(n) for n in rows],
    }


def join_from(header: Mapping[str, object]) -> tuple[WindowProgram, tuple[int, int]]:
    """The program of a call, and the sizes of its windows.

    Raises
    ------
    MalformedError
    """
    return WindowProgram(program_from(header.get("a")), program_from(header.get("b"))), rows_from(
        header
    )


def rows_from(header: Mapping[str, object]) -> tuple[int, int]:
    """Sizes of both windows.

    Raises
    ------
    MalformedError
    """
    given = field(header, "rows", list)
    if len(given) != 2 or any(type(n) is not int or not 0 <= n < 1 << 63 for n in given):
        raise MalformedError(f"windows have the sizes {given!r:.80}, which are no two integers")
    return given[0], given[1]


def arrivals_message(task: WindowTask) -> tuple[Header, list[np.ndarray]]:
    """A task as fields of a header and a body: the side of each tuple, then A's and B's columns."""
    tuples = task.tuples
    columns, counts = [np.asarray(tuples.is_b, bool)], []
    for side, of_side in enumerate((~columns[0], columns[0])):
        for some in (tuples.window[side], tuples.stream[side]):
            counts.append(len(some))
            for column in some:
                spread = np.zeros(len(tuples), column.dtype)
                spread[of_side] = column
                columns.append(spread)
    header = {
        "history": int(task.history),
        "rows": [int(n) for n in task.rows],
        "room": int(task.room),
        "columns": counts,
    }
    return header, columns


def arrivals_from(header: Mapping[str, object], columns: Sequence[np.ndarray]) -> WindowTask:
    """The task of a message; its columns are copies.

    Raises
    ------
    MalformedError
    """
    counts = field(header, "columns", list)
    if (
        len(counts) != 4
        or any(type(n) is not int or n < 0 for n in counts)
        or len(columns) != 1 + sum(counts)
        or columns[0].dtype != np.bool_
    ):
        raise MalformedError("a task of the window-join operator has sides, and columns of both")
    is_b, rest = np.array(columns[0]), list(columns[1:])
    picked = []
    for place, count in enumerate(counts):
        of_side = is_b if place >= 2 else ~is_b
        picked.append([column[of_side] for column in rest[:count]])
        rest = rest[count:]
    tuples = Arrivals(is_b, (picked[0], picked[2]), (picked[1], picked[3]))
    history = count_field(header, "history", len(is_b))
    return WindowTask(tuples, history, rows_from(header), count_field(header, "room"))


def join_result_message(result: WindowResult) -> tuple[Header, list[np.ndarray]]:
    """A result as fields of a header, and a body: a and b."""
    counters = {name: int(value) for name, value in result.counters.items()}
    return {"done": int(result.done), "counters": counters}, [result.a, result.b]


def join_result_from(
    header: Mapping[str, object], columns: Sequence[np.ndarray], task: WindowTask
) -> WindowResult:
    """The result of a message, which is one that the task can have.

    Raises
    ------
    MalformedError
    """
    tuples = task.tuples
    count_b = int(np.count_nonzero(tuples.is_b))
    a, b = pairs_from(columns, len(tuples) - count_b, count_b)
    done = count_field(header, "done", len(tuples))
    if done <= task.history < len(tuples):
        raise MalformedError(f"a task with a history of {task.history} is done up to {done}")
    return WindowResult(a, b, done, counters_from(header))
