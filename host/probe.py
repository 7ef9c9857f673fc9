"""Probing one direction of a join of whole tables, on one device."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager

import numpy as np

from penstock.errors import DeviceError
from penstock.expr.columns import Vector
from penstock.host.binding import Binder
from penstock.host.completeness.run import WindowRun
from penstock.host.device.base import PAIRS, Device, Folds, Kernel, Result, WindowBuffer
from penstock.host.device.cut import TASK_EVALUATIONS
from penstock.host.device.merge import Merged
from penstock.host.device.run import TIMEOUT_S, fold_task, run_task
from penstock.host.lanes.memory import DeviceMemory
from penstock.host.prepare import Columns, StreamKeys, window_keys
from penstock.host.stats import Stats
from penstock.program import BandProgram, Mode, Program
from penstock.rewrite.forms import JoinForm

#: Pairs of one device result: 32 MiB of indices, many times what a task needs to be efficient.
ROOM = 1 << 22

#: Matches: stream indices and window positions.
Pairs = tuple[np.ndarray, np.ndarray]


def refuse(
    device: Device,
    program: Program,
    modes: frozenset[Mode],
    form: JoinForm,
    names: Mapping[str, str],
    what: str = "this query",
) -> None:
    """Say why a device cannot run a program, if it cannot.

    Raises
    ------
    DeviceError
    """
    reason = device.refuses(program, modes)
    if reason is None:
        return
    shape = "band" if isinstance(program, BandProgram) else "general"
    not_band = form.why_general(names)
    why = f": {not_band}" if not_band else ""
    raise DeviceError(f"device {device.name} cannot run {what}: {reason} ({shape} form{why})")


class Prober:
    """Evaluates one form of a predicate on a device.

    Parameters
    ----------
    form : JoinForm
    device : Device
    stats : Stats
        Gets the counts of every task.
    names : mapping of side to str
        What the query calls the sides, for messages.
    modes : frozenset of Mode
        What the device is asked for.
    what : str
        What needs it, for messages.
    """

    def __init__(
        self,
        form: JoinForm,
        device: Device,
        stats: Stats,
        *,
        names: Mapping[str, str],
        modes: frozenset[Mode] = PAIRS,
        what: str = "this query",
    ) -> None:
        self.form = form
        self.modes = modes
        self.what = what
        self.names = names
        self.device = device
        self.stats = stats
        self.binder = Binder(form, device.key_widths, growing=False)
        self.memory = DeviceMemory(device, modes, growing=False)

    def keys(self, columns: Columns, rows: int) -> list[Vector]:
        """Prepared keys of window tuples."""
        return window_keys(self.form, columns, rows)

    def probe(
        self, run: WindowRun, columns: Columns, start: np.ndarray, end: np.ndarray
    ) -> Generator[Pairs, None, None]:
        """Matches of stream tuples with their ranges of a run.

        Parameters
        ----------
        run : WindowRun
        columns : mapping of (side, name) to Vector
            Columns of the stream tuples.
        start, end : ndarray of int64, shape (n,)
            Ranges of positions in the run.

        Raises
        ------
        DeviceError
            The device refuses the predicate, or failed.
        """
        pairs = int((end - start).sum())
        self.stats.pairs_in_window += pairs
        if not pairs:
            return
        with self._loaded(run, columns, len(start)) as (kernel, buffer, keys, kept):
            results = run_task(
                kernel,
                buffer,
                [a[kept] for a in keys.arrays],
                start[kept],
                end[kept],
                room=max(ROOM, kernel.min_room),
                lanes=self.device.lanes,
                task_evaluations=self.device.task_evaluations or TASK_EVALUATIONS,
            )
            with closing(results):
                for result in results:
                    self.stats.add(result.counters)
                    yield kept[result.i], result.j

    def fold(
        self,
        run: WindowRun,
        columns: Columns,
        start: np.ndarray,
        end: np.ndarray,
        mode: Mode,
        on_result: Callable[[], None] = lambda: None,
    ) -> Folds:
        """Aggregates of stream tuples over their matches; arguments as for :meth:`probe`.

        ``mode`` is one of the prober's, ``on_result`` is called after each task.
        """
        merged = Merged(mode, len(start))
        if not (end > start).any():
            return merged.folds()

        def count(result: Result) -> None:
            self.stats.add(result.counters)
            on_result()

        with self._loaded(run, columns, len(start)) as (kernel, buffer, keys, kept):
            result = fold_task(
                kernel,
                buffer,
                [a[kept] for a in keys.arrays],
                start[kept],
                end[kept],
                mode=mode,
                lanes=self.device.lanes,
                task_evaluations=self.device.task_evaluations or TASK_EVALUATIONS,
                on_result=count,
            )
        assert result.folds is not None
        merged.add(kept, result.folds)
        return merged.folds()

    @contextmanager
    def _loaded(
        self, run: WindowRun, columns: Columns, rows: int
    ) -> Iterator[tuple[Kernel, WindowBuffer, StreamKeys, np.ndarray]]:
        """Kernel, resident window, stream keys, and which tuples can match at all."""
        window = run.snapshot()
        made, keys = self.binder.bind(window, columns, rows)
        refuse(self.device, made.program, self.modes, self.form, self.names, self.what)
        lease = self.memory.lease(window, made, window.first, window.end, TIMEOUT_S)
        try:
            found = lease.window
            yield found.kernel, found.buffer, keys, np.flatnonzero(keys.possible)
        finally:
            self.memory.release(lease)

    def close(self) -> None:
        self.memory.close()
