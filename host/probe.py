"""Probing one direction of a join: stream tuples against resident window runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from penstock.errors import DeviceError
from penstock.expr.columns import Vector
from penstock.host.device.base import PAIRS, Device, Folds, Kernel, Result, WindowBuffer
from penstock.host.device.merge import Merged
from penstock.host.device.run import TASK_EVALUATIONS, fold_task, run_task
from penstock.host.prepare import Columns, Layout, StreamKeys, layout, stream_values, window_keys
from penstock.host.stats import Stats
from penstock.host.window_run import WindowRun
from penstock.program import BandProgram, Mode, Program
from penstock.rewrite.forms import JoinForm

#: Pairs of one device result: 32 MiB of indices, many times what a task needs to be efficient.
ROOM = 1 << 22
#: Key bounds of a growing window are rounded up to registers of a multiple of this many bits.
SPARE_BITS = 16

#: Matches: stream indices and window positions.
Pairs = tuple[np.ndarray, np.ndarray]


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
    growing : bool
        Whether windows grow, so that layouts should leave room for later values.
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
        growing: bool,
        modes: frozenset[Mode] = PAIRS,
        what: str = "this query",
    ) -> None:
        self.form = form
        self.modes = modes
        self.what = what
        self.names = names
        self.device = device
        self.stats = stats
        self.spare_bits = SPARE_BITS if growing else 0
        self.kernels: dict[Program, Kernel] = {}
        self.seen: list[tuple[int, int]] = []

    def keys(self, columns: Columns, rows: int) -> list[Vector]:
        """Prepared keys of window tuples."""
        return window_keys(self.form, columns, rows)

    def probe(
        self, run: WindowRun, columns: Columns, start: np.ndarray, end: np.ndarray
    ) -> Iterator[Pairs]:
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
        kernel, buffer, keys, kept = self._load(run, columns, len(start))
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
        kernel, buffer, keys, kept = self._load(run, columns, len(start))

        def count(result: Result) -> None:
            self.stats.add(result.counters)
            on_result()

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

    def _load(
        self, run: WindowRun, columns: Columns, rows: int
    ) -> tuple[Kernel, WindowBuffer, StreamKeys, np.ndarray]:
        """Kernel, resident window, stream keys, and which tuples can match at all."""
        made, keys = self._layout(run, columns, rows)
        kernel = self._kernel(made.program)
        buffer = run.buffer if run.layout is made else run.load(made, kernel)
        assert buffer is not None
        return kernel, buffer, keys, np.flatnonzero(keys.possible)

    def close(self) -> None:
        for kernel in self.kernels.values():
            kernel.close()
        self.kernels.clear()

    def _layout(self, run: WindowRun, columns: Columns, rows: int) -> tuple[Layout, StreamKeys]:
        """The run's layout if it serves these stream tuples, a new one otherwise."""
        values = self._remembered(stream_values(self.form, columns, rows))
        made = run.layout
        if made is None or not made.covers_stream(values):
            made = layout(self.form, run.keys, values, self.device.key_widths, self.spare_bits)
        return made, made.stream(columns, rows)

    def _remembered(self, values: Sequence[Vector]) -> list[Vector]:
        """Stream values with the bounds of all tuples so far, so that layouts do not alternate."""
        if not self.seen:
            self.seen = [(v.lo, v.hi) for v in values]
        self.seen = [
            (min(lo, v.lo), max(hi, v.hi)) for (lo, hi), v in zip(self.seen, values, strict=True)
        ]
        return [
            Vector(v.values, v.valid, lo, hi) for (lo, hi), v in zip(self.seen, values, strict=True)
        ]

    def _kernel(self, program: Program) -> Kernel:
        if program not in self.kernels:
            reason = self.device.refuses(program, self.modes)
            if reason is not None:
                shape = "band" if isinstance(program, BandProgram) else "general"
                not_band = self.form.why_general(self.names)
                why = f": {not_band}" if not_band else ""
                raise DeviceError(
                    f"device {self.device.name} cannot run {self.what}: {reason} "
                    f"({shape} form{why})"
                )
            self.kernels[program] = self.device.open(program, self.modes)
        return self.kernels[program]
