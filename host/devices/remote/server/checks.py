"""Limits of a client's task: columns, time on the device, memory of the result."""

from __future__ import annotations

from penstock.errors import DeviceError
from penstock.program import Mode

from ....device.base import AnyTask, Kernel, WindowBuffer
from ....device.checks import check_task, check_window_task, stream_columns
from ....device.window_join import WindowTask
from .limits import Limits

#: Bytes of a stream tuple's fold: ``found``, value, position, and a Python integer where the value
#: has more than 64 bits.
_FOLD_BYTES = 1 + 8 + 8 + 104
#: Pairs that devices may write beyond a result's room.
_SLACK = 1 << 10


def result_bytes(task: AnyTask) -> int:
    """Bytes of a checked task's result, at most."""
    if not isinstance(task, WindowTask) and task.mode is not Mode.PAIRS:
        return _FOLD_BYTES * task.rows
    # Devices may allocate room for all pairs, however few there are.
    return 8 * (task.room + _SLACK)


def check_asked(kernel: Kernel, window: WindowBuffer | None, task: AnyTask, limits: Limits) -> None:
    """Refuse a task that no client may ask for, in addition to the device's checks.

    Raises
    ------
    DeviceError
    """
    if isinstance(task, WindowTask):
        check_window_task(kernel, task, typed=True)
        count, most = task.evaluations(kernel.program.rows), limits.join_evaluations
    else:
        assert window is not None
        check_task(kernel, window.capacity, stream_columns(kernel.program), task)
        count, most = int((task.end - task.start).sum()), limits.evaluations
    if count > most:
        raise DeviceError(
            f"a task of {count} predicate tests would keep others waiting, above {most}; cut it"
        )
