"""Runs one large range join as many device tasks.

The join is cut by predicted evaluations, not by rows: a cut is as large as keeps a device busy for
a few milliseconds and as small as lets all lanes share the work. Results come back while later
tasks run, and at most two tasks per lane hold results at any time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import DeviceError, UsageError
from penstock.host.device.base import Kernel, Result, Task, WindowBuffer
from penstock.host.device.merge import Merged
from penstock.program import Mode

#: Evaluations of a task, at most: 6 ms of one core at 2e10 evaluations per second. Half of it cost
#: 9 % of the rate of a large join, twice as much gained nothing.
TASK_EVALUATIONS = 1 << 27
#: Tasks per lane that a join is cut into where it is large enough, so that lanes end together.
TASKS_PER_LANE = 8
#: Evaluations below which a task is not cut further: its fixed cost, about 0.1 ms, would show.
LEAST_EVALUATIONS = 1 << 22
#: Stream tuples per task below which the window is cut instead: a device passes each window tuple
#: to all tuples of a task, so few of them would waste its memory bandwidth.
LEAST_ROWS = 256
#: Seconds after which a task that has not ended counts as hung.
TIMEOUT_S = 600.0


@dataclass(frozen=True)
class _Piece:
    """Tuples ``rows[...]`` of the caller, with their ranges."""

    rows: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def part(self, low: int, high: int) -> _Piece:
        return _Piece(self.rows[low:high], self.start[low:high], self.end[low:high])

    def rebased(self, i: np.ndarray) -> np.ndarray:
        """The caller's indices of the piece's tuples ``i``, as uint32."""
        first, last = int(self.rows[0]), int(self.rows[-1])
        if last - first + 1 == len(self.rows):
            # Without gaps, which is the rule: an addition instead of a look-up per pair.
            return i + np.uint32(first) if first else i
        return self.rows[i]

    def clipped(self, low: int, high: int) -> _Piece:
        """The part of each range in ``[low, high)``, without the empty ones."""
        return _nonempty(self.rows, np.maximum(self.start, low), np.minimum(self.end, high))


def run_task(
    kernel: Kernel,
    window: WindowBuffer,
    task_stream: Sequence[np.ndarray],
    start: np.ndarray,
    end: np.ndarray,
    *,
    room: int,
    lanes: int,
    task_evaluations: int = TASK_EVALUATIONS,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[Result]:
    """Run a range join on all lanes of a device.

    Parameters
    ----------
    kernel : Kernel
    window : WindowBuffer
        Allocated by ``kernel``; its rows in the ranges must not be written until the end.
    task_stream : sequence of ndarray, each of shape (n,)
        As ``Task.stream``.
    start, end : ndarray of int64, shape (n,)
        As ``Task.start`` and ``Task.end``, except that empty ranges (``start >= end``) may be
        anywhere.
    room : int
        Most pairs of one result. At most ``2 * lanes`` results are held at a time.
    lanes : int
        ``Device.lanes`` of the kernel's device.
    task_evaluations : int
        Most evaluations of one task, where it can be cut.
    timeout_s : float
        Seconds to wait for one task.

    Yields
    ------
    Result
        In order of submission (what a paused task left over is submitted before untouched work).
        ``i`` indexes the caller's tuples; ``pause`` is always None.

    Raises
    ------
    UsageError
        An argument is out of range.
    DeviceError
        A task failed, or did not end in time.

    Notes
    -----
    Closing the generator, or an exception in its consumer, cancels the tasks that have not started
    and waits for those that have, so that the window may be freed afterwards.
    """
    if room < kernel.min_room:
        raise UsageError(f"room must be at least {kernel.min_room} pairs, not {room!r}")
    _check(lanes, task_evaluations)
    fresh = _cut(_whole(start, end), lanes, task_evaluations)
    resumed: list[_Piece] = []
    results = _fly(
        kernel,
        window,
        task_stream,
        lambda: resumed.pop() if resumed else next(fresh, None),
        room=room,
        mode=Mode.PAIRS,
        lanes=lanes,
        timeout_s=timeout_s,
    )
    with closing(results):
        for piece, result in results:
            if result.pause is not None:
                stop = result.pause
                resumed.append(piece.part(stop.i1, len(piece.rows)))
                rest = piece.part(stop.i0, stop.i1)
                resumed.append(rest.clipped(stop.p, np.iinfo(np.int64).max))
            yield replace(result, i=piece.rebased(result.i), pause=None)


def fold_task(
    kernel: Kernel,
    window: WindowBuffer,
    task_stream: Sequence[np.ndarray],
    start: np.ndarray,
    end: np.ndarray,
    *,
    mode: Mode,
    lanes: int,
    task_evaluations: int = TASK_EVALUATIONS,
    timeout_s: float = TIMEOUT_S,
    on_result: Callable[[Result], None] | None = None,
) -> Result:
    """Run the aggregates of a range join on all lanes of a device.

    Parameters
    ----------
    mode : Mode
        Not PAIRS, and one of those that the kernel was opened for.
    on_result : callable, optional
        Called with the result of each task, in order of submission.
    kernel, window, task_stream, start, end, lanes, task_evaluations, timeout_s
        As for :func:`run_task`.

    Returns
    -------
    Result
        ``folds`` has an element for each of the caller's tuples: the aggregates of a tuple whose
        range was cut are merged exactly, sums of floats in order of positions. ``counters`` are
        the sums over all tasks.

    Raises
    ------
    UsageError
        An argument is out of range.
    DeviceError
        A task failed, or did not end in time. As for :func:`run_task`, none is left running.
    """
    if mode is Mode.PAIRS:
        raise UsageError("fold_task folds matches; use run_task for pairs")
    _check(lanes, task_evaluations)
    pieces = _cut(_whole(start, end), lanes, task_evaluations)
    results = _fly(
        kernel,
        window,
        task_stream,
        lambda: next(pieces, None),
        room=kernel.min_room,
        mode=mode,
        lanes=lanes,
        timeout_s=timeout_s,
    )
    merged, counters = Merged(mode, len(start)), Counter()
    with closing(results):
        for piece, result in results:
            if result.folds is None:
                raise DeviceError(f"a task for {mode.value} came back without its aggregates")
            merged.add(piece.rows, result.folds)
            counters.update(result.counters)
            if on_result is not None:
                on_result(result)
    none = np.zeros(0, np.uint32)
    return Result(none, none, None, counters, merged.folds())


def _check(lanes: int, task_evaluations: int) -> None:
    if lanes < 1:
        raise UsageError(f"lanes must be at least 1, not {lanes!r}")
    if task_evaluations < 1:
        raise UsageError(f"task_evaluations must be at least 1, not {task_evaluations!r}")


def _fly(
    kernel: Kernel,
    window: WindowBuffer,
    task_stream: Sequence[np.ndarray],
    following: Callable[[], _Piece | None],
    *,
    room: int,
    mode: Mode,
    lanes: int,
    timeout_s: float,
) -> Generator[tuple[_Piece, Result], None, None]:
    """Keep two tasks per lane in flight; results in order of submission.

    ``following`` gives the next piece, None where there is none now. Closing the generator ends
    as :func:`run_task` says.
    """
    stream = [np.asarray(column) for column in task_stream]
    flying: deque[tuple[_Piece, Future[Result]]] = deque()
    try:
        while True:
            while len(flying) < 2 * lanes:
                piece = following()
                if piece is None:
                    break
                if len(piece.rows) == 0:
                    continue
                task = Task([c[piece.rows] for c in stream], piece.start, piece.end, room, mode)
                flying.append((piece, kernel.submit(window, task)))
            if not flying:
                return
            piece, future = flying.popleft()
            try:
                result = future.result(timeout_s)
            except FutureTimeoutError as cause:
                if future.done():
                    raise
                flying.appendleft((piece, future))
                raise DeviceError(_late(piece, timeout_s)) from cause
            yield piece, result
    finally:
        running = [future for _, future in flying if not future.cancel()]
        wait(running, timeout_s)


def _whole(start: np.ndarray, end: np.ndarray) -> _Piece:
    return _nonempty(
        np.arange(len(start), dtype=np.uint32),
        np.asarray(start, np.int64),
        np.asarray(end, np.int64),
    )


def _nonempty(rows: np.ndarray, start: np.ndarray, end: np.ndarray) -> _Piece:
    keep = start < end
    if keep.all():
        return _Piece(rows, start, end)
    return _Piece(rows[keep], start[keep], end[keep])


def _cut(whole: _Piece, lanes: int, most: int) -> Iterator[_Piece]:
    """Pieces of about equal evaluations, at most ``most`` each, in order of rows."""
    rows = len(whole.rows)
    if rows == 0:
        return
    upto = np.cumsum(whole.end - whole.start)
    target = min(most, max(int(upto[-1]) // (TASKS_PER_LANE * lanes), LEAST_EVALUATIONS))
    low = 0
    while low < rows:
        done = int(upto[low - 1]) if low else 0
        high = int(np.searchsorted(upto, done + target, side="right"))
        high = min(rows, max(high, low + LEAST_ROWS))
        yield from _cut_window(whole.part(low, high), int(upto[high - 1]) - done, target)
        low = high


def _cut_window(piece: _Piece, evaluations: int, target: int) -> Iterator[_Piece]:
    """The piece, cut by window positions if it has more evaluations than the target."""
    if evaluations <= target:
        yield piece
        return
    low, high = int(piece.start[0]), int(piece.end[-1])
    parts = min(-(-evaluations // target), high - low)
    for k in range(parts):
        clipped = piece.clipped(
            low + (high - low) * k // parts, low + (high - low) * (k + 1) // parts
        )
        if len(clipped.rows):
            yield clipped


def _late(piece: _Piece, timeout_s: float) -> str:
    evaluations = int((piece.end - piece.start).sum())
    return (
        f"a task of {len(piece.rows)} stream tuples (from number {piece.rows[0]} on) and "
        f"{evaluations} evaluations did not end within {timeout_s:g} s: the device hangs, or the "
        "task is too large for it; pass a smaller task_evaluations or a longer timeout_s"
    )
