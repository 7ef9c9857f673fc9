"""Window joins on the CPU: range joins in both directions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from penstock.program import WindowProgram

from ...device.base import Device, Kernel, Pause, Result, Task, WindowBuffer
from ...device.checks import check_window_task
from ...device.cut import Cutting, Piece, run_to_end, whole
from ...device.window_join import WindowTask


class WindowJoinKernel(Kernel):
    """Both directions of a window join as range joins.

    A tuple meets a range of the other side's tuples, and neither end of the range steps back from
    one tuple to the next: so each direction is an ordinary range join.

    Parameters
    ----------
    device : Device
        Does the range joins.
    """

    def __init__(self, device: Device, program: WindowProgram) -> None:
        super().__init__(program)
        self.min_room = max(*program.rows, 1)
        self._device = device
        self._kernels = (device.open(program.a), device.open(program.b))
        # Threads of its own, since the device's threads must not wait for each other.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-window")
        self._lanes = ThreadPoolExecutor(device.lanes, thread_name_prefix="penstock-window-lane")

    def least_room(self, task: WindowTask) -> int:
        # A window holds no more tuples than there are.
        return min(self.min_room, max(task.rows, 1))

    def submit(self, window: None, task: WindowTask) -> Future[Result]:
        return self._thread.submit(self._run, task)

    def close(self) -> None:
        # The caller may be the thread of the last task, so this does not wait.
        self._thread.submit(self._lanes.shutdown, wait=False)  # after the last task
        self._thread.shutdown(wait=False)

    def _run(self, task: WindowTask) -> Result:
        check_window_task(self, task)
        tuples, counters = task.tuples, Counter(evaluations=0)
        start, end = tuples.met(self.program.rows)
        end[: task.history] = start[: task.history]
        (a_stream, b_window), (b_stream, a_window) = (
            self._probe(task, bool(is_b), start, end, counters) for is_b in (0, 1)
        )
        # Arrival of the later tuple of each pair: only pairs of complete tuples are kept.
        arrived = [np.flatnonzero(tuples.is_b == is_b) for is_b in (False, True)]
        later = np.concatenate([arrived[0][a_stream], arrived[1][b_stream]])
        pause, keep = None, slice(None)
        if len(later) > task.room:
            done = int(np.partition(later, task.room)[task.room])
            counters["evaluations"] = task.evaluations(self.program.rows, done)
            pause, keep = Pause(done, done, 0), later < done
        a = np.concatenate([a_stream, a_window])[keep]
        b = np.concatenate([b_window, b_stream])[keep]
        return Result(a, b, pause, counters)

    def _probe(
        self,
        task: WindowTask,
        is_b: bool,
        start: np.ndarray,
        end: np.ndarray,
        counters: Counter[str],
    ) -> tuple[np.ndarray, np.ndarray]:
        """All pairs whose later tuple is of one side: its row, and the row of the other tuple."""
        tuples, kernel = task.tuples, self._kernels[is_b]
        chosen = tuples.is_b == is_b
        start, end = start[chosen], end[chosen]
        buffer = kernel.allocate(len(tuples) - int(np.count_nonzero(chosen)))
        none = np.zeros(0, np.uint32)
        parts = [(none, none)]
        room = max(min(task.room, int((end - start).sum())), kernel.min_room)
        run_piece = partial(_results, kernel, buffer, tuples.stream[is_b], room)
        pieces = whole(start, end).tasks(Cutting(self._device.lanes))
        running: list[Future[list[Result]]] = []
        try:
            if buffer.capacity:
                buffer.write(0, tuples.window[not is_b])
            running += [self._lanes.submit(run_piece, piece) for piece in pieces]
            for result in chain.from_iterable(one.result() for one in running):
                counters.update(result.counters)
                parts.append((result.i, result.j))
        finally:
            wait(running)
            buffer.free()
        i, j = (np.concatenate(part) for part in zip(*parts, strict=True))
        return i, j


def _results(
    kernel: Kernel, buffer: WindowBuffer, stream: Sequence[np.ndarray], room: int, piece: Piece
) -> list[Result]:
    """Run a piece to its end, through its pauses; ``i`` are indices of ``stream``."""

    def run(part: Piece) -> Result:
        return kernel.run(buffer, Task(part.entries(stream), part.start, part.end, room))

    return [replace(one, i=part.rebased(one.i)) for part, one in run_to_end(piece, run)]
