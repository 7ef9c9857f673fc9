"""Tasks in slices, so that a heavy task does not occupy a device while other clients wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.program import Mode

from ....device.base import Kernel, Pause, Result, Task, WindowBuffer
from ....device.cut import Piece, reach
from ....device.merge import Merged

#: Seconds of a slice: while other clients run tasks, and while none does.
SHARED_S, ALONE_S = 0.001, 0.02
#: Evaluations of a kernel's first slice, before its speed is known.
_FIRST = 1 << 18
#: Evaluations of a slice, at least.
_LEAST = 1 << 10


class WholeTask:
    """A task in one step.

    Parameters
    ----------
    start : callable
        Gives it to the device.
    """

    def __init__(self, start: Callable[[], Future[Any]]) -> None:
        self._start = start
        self._result: Any = None

    def begin(self, shared: bool) -> Future[Any]:
        """Give the next step to the device; ``shared`` if other clients use it, too."""
        return self._start()

    def take(self, result: Any) -> bool:
        """Take a step's result; returns whether it was the last step."""
        self._result = result
        return True

    def result(self) -> Any:
        """The result of all steps."""
        return self._result


class KernelSpeed:
    """How fast a kernel is, by its latest tasks."""

    def __init__(self) -> None:
        self._per_s = 0.0

    def evaluations(self, shared: bool) -> int:
        """How many evaluations take as long as a slice."""
        if not self._per_s:
            return _FIRST
        return max(int(self._per_s * (SHARED_S if shared else ALONE_S)), _LEAST)

    def learn(self, result: Result) -> None:
        """Learn from the time that a slice took."""
        evaluations = result.counters.get("evaluations", 0)
        if result.ran is not None and evaluations >= _LEAST:
            began, ended = result.ran
            self._per_s = evaluations / max(ended - began, 1e-6)


@dataclass(eq=False)
class Sliced:
    """A task in steps of a few tuples, or of a part of one tuple's range; as :class:`WholeTask`.

    Parameters
    ----------
    kernel : Kernel
    window : WindowBuffer
    task : Task
    speed : KernelSpeed
        Of the kernel.
    """

    kernel: Kernel
    window: WindowBuffer
    task: Task
    speed: KernelSpeed
    # The next tuple, and the window position at which it goes on.
    _at: int = 0
    _position: int = 0
    _pairs: int = 0
    _step: Piece | None = None
    _results: list[Result] = field(default_factory=list)
    _pause: Pause | None = None

    def __post_init__(self) -> None:
        task = self.task
        self._whole = Piece(np.arange(task.rows, dtype=np.uint32), task.start, task.end)
        self._upto = np.cumsum(task.end - task.start)
        self._merged: Merged | None = None

    @property
    def evaluations(self) -> int:
        """Evaluations of the whole task."""
        return int(self._upto[-1]) if len(self._upto) else 0

    def begin(self, shared: bool) -> Future[Result]:
        step = self._step = self._next(self.speed.evaluations(shared))
        task = self.task
        if step is not self._whole:
            room = task.room - self._pairs
            task = Task(step.entries(task.stream), step.start, step.end, room, task.mode)
        return self.kernel.submit(self.window, task)

    def take(self, result: Result) -> bool:
        step, task = self._step, self.task
        assert step is not None
        self.speed.learn(result)
        if not task.rows:
            self._results.append(result)
            return True
        self._results.append(replace(result, i=step.rebased(result.i)))
        if result.folds is not None:
            if step is not self._whole:
                if self._merged is None:
                    self._merged = Merged(task.mode, task.rows)
                self._merged.add(step.rows, result.folds)
        elif result.pause is not None:
            self._pause = _paused(step, result.pause)
            return True
        self._pairs += len(result.i)
        last = int(step.rows[-1])
        if step.high < task.end[last]:
            self._at, self._position = last, step.high
        else:
            self._at, self._position = last + 1, 0
        if self._at >= task.rows:
            return True
        if task.mode is Mode.PAIRS and task.room - self._pairs < self.kernel.min_room:
            begun = self._at + (self._position > 0)
            self._pause = Pause(self._at, begun, self._position)
            return True
        return False

    def result(self) -> Result:
        first, last = self._results[0], self._results[-1]
        counters: Counter[str] = Counter()
        for one in self._results:
            counters.update(one.counters)
        ran = None
        if first.ran is not None and last.ran is not None:
            ran = first.ran[0], last.ran[1]
        if len(self._results) == 1 and self._merged is None:
            return Result(first.i, first.j, self._pause, counters, first.folds, ran)
        return Result(
            np.concatenate([one.i for one in self._results]),
            np.concatenate([one.j for one in self._results]),
            self._pause,
            counters,
            None if self._merged is None else self._merged.folds(),
            ran,
        )

    def _next(self, most: int) -> Piece:
        """The next step, of ``most`` evaluations: some tuples, or a part of one tuple's range."""
        low, task = self._at, self.task
        if not task.rows:
            return self._whole
        begins = max(int(task.start[low]), self._position)
        if self._position or task.end[low] - begins > most:
            return self._whole.part(low, low + 1).clipped(begins, begins + most)
        high = max(reach(self._upto, low, most), low + 1)
        return self._whole if high - low == task.rows else self._whole.part(low, high)


def _paused(step: Piece, pause: Pause) -> Pause:
    """Pause of the whole task if a step pauses."""
    low = int(step.rows[0])
    if len(step.rows) > 1:
        return Pause(low + pause.i0, low + pause.i1, pause.p)
    # Perhaps a part of the tuple's range: positions before the part are complete.
    position = pause.p if pause.i0 < pause.i1 else step.high if pause.i0 else step.low
    return Pause(low, low + 1, position)
