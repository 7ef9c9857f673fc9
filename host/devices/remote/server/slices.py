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
from ....device.cut import reach
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


@dataclass
class _Step:
    low: int
    high: int
    #: Where the range of a single tuple was cut.
    begins: int
    ends: int
    is_cut: bool = False
    #: Whether another part of the tuple's range comes after this one.
    left: bool = False


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
    _step: _Step | None = None
    _results: list[Result] = field(default_factory=list)
    _pause: Pause | None = None

    def __post_init__(self) -> None:
        self._upto = np.cumsum(self.task.end - self.task.start)
        self._merged: Merged | None = None

    @property
    def evaluations(self) -> int:
        """Evaluations of the whole task."""
        return int(self._upto[-1]) if len(self._upto) else 0

    def begin(self, shared: bool) -> Future[Result]:
        step = self._step = self._next(self.speed.evaluations(shared))
        task = self.task
        if step.high - step.low == task.rows and not step.is_cut:
            return self.kernel.submit(self.window, task)
        rows = slice(step.low, step.high)
        part = Task(
            [column[rows] for column in task.stream],
            np.maximum(task.start[rows], step.begins),
            np.minimum(task.end[rows], step.ends),
            task.room - self._pairs,
            task.mode,
        )
        return self.kernel.submit(self.window, part)

    def take(self, result: Result) -> bool:
        step = self._step
        assert step is not None
        self.speed.learn(result)
        if step.low:
            result = replace(result, i=result.i + np.uint32(step.low))
        self._results.append(result)
        if result.folds is not None:
            if step.high - step.low < self.task.rows or step.is_cut:
                if self._merged is None:
                    self._merged = Merged(self.task.mode, self.task.rows)
                self._merged.add(np.arange(step.low, step.high), result.folds)
        elif result.pause is not None:
            self._pause = self._paused(step, result.pause)
            return True
        self._pairs += len(result.i)
        if step.left:
            self._at, self._position = step.low, step.ends
        else:
            self._at, self._position = step.high, 0
        if self._at >= self.task.rows:
            return True
        if self.task.mode is Mode.PAIRS and self.task.room - self._pairs < self.kernel.min_room:
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

    def _next(self, most: int) -> _Step:
        """The next step, of ``most`` evaluations: some tuples, or a part of one tuple's range."""
        low, task = self._at, self.task
        if low >= task.rows:
            return _Step(0, task.rows, 0, self.window.capacity)
        begins = max(int(task.start[low]), self._position)
        end = int(task.end[low])
        if self._position or end - begins > most:
            ends = min(end, begins + most)
            return _Step(low, low + 1, begins, ends, True, ends < end)
        return _Step(low, max(reach(self._upto, low, most), low + 1), 0, self.window.capacity)

    def _paused(self, step: _Step, pause: Pause) -> Pause:
        """Pause of the whole task if a step pauses."""
        if not step.is_cut:
            return Pause(step.low + pause.i0, step.low + pause.i1, pause.p)
        # A part of one tuple's range: positions before the part are complete.
        position = pause.p if pause.i0 < pause.i1 else step.ends if pause.i0 else step.begins
        return Pause(step.low, step.low + 1, position)
