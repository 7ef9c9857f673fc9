"""Probing one direction of a join of whole tables, on one device."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np

from penstock.errors import DeviceError
from penstock.expr.columns import Columns, Vector
from penstock.plan.plan import Evaluation
from penstock.program import BandProgram, Mode, Program

from ..device.base import Device, Folds, Kernel, WindowBuffer
from ..device.cut import TASK_EVALUATIONS
from ..device.merge import Merged
from ..keys.binding import Binder
from ..keys.prepare import Layout, window_keys
from ..prune.plan import PrunedRanges
from ..prune.pruner import Pruner
from ..prune.sizes import Pruning
from .memory import DeviceMemory
from .run import TIMEOUT_S, fold_pieces, run_pieces
from .stats import Stats
from .still import HasSnapshot

#: Pairs of one device result: 32 MiB of indices, many times what a task needs to be efficient.
ROOM = 1 << 22

#: Stream tuples whose pruned ranges are in memory together.
PORTION = 1 << 16

#: Matches: stream indices and window positions.
Pairs = tuple[np.ndarray, np.ndarray]


def refuse(
    device: Device, program: Program, evaluation: Evaluation, names: Mapping[str, str]
) -> None:
    """Say why a device cannot run a program, if it cannot.

    Raises
    ------
    DeviceError
    """
    reason = device.refuses(program, frozenset(evaluation.modes))
    if reason is None:
        return
    shape = "band" if isinstance(program, BandProgram) else "general"
    not_band = evaluation.form.why_general(names)
    why = f": {not_band}" if not_band else ""
    raise DeviceError(
        f"device {device.name} cannot run {evaluation.needed_by}: {reason} ({shape} form{why})"
    )


@dataclass(frozen=True)
class BoundPart:
    """Ranges of the tuples ``kept``, with their keys."""

    layout: Layout
    stream: list[np.ndarray]
    kept: np.ndarray
    ranges: PrunedRanges


class Prober:
    """Evaluates one form of a predicate on a device.

    Parameters
    ----------
    evaluation : Evaluation
    device : Device
    stats : Stats
        Gets the counts of every task.
    names : mapping of side to str
        What the query calls the sides, for messages.
    pruning : Pruning or None
        None evaluates every pair of the ranges.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        device: Device,
        stats: Stats,
        *,
        names: Mapping[str, str],
        pruning: Pruning | None = None,
    ) -> None:
        self.evaluation = evaluation
        self.form = evaluation.form
        self.names = names
        self.device = device
        self.stats = stats
        self.binder = Binder(self.form, device.key_widths, growing=False)
        self.memory = DeviceMemory(device, frozenset(evaluation.modes), growing=False)
        self.pruner = Pruner(pruning, device.task_evaluations or TASK_EVALUATIONS)

    def keys(self, columns: Columns, rows: int) -> list[Vector]:
        """Prepared keys of window tuples."""
        return window_keys(self.form, columns, rows)

    def probe(
        self, run: HasSnapshot, columns: Columns, start: np.ndarray, end: np.ndarray
    ) -> Generator[Pairs, None, None]:
        """Matches of stream tuples with their ranges of a run.

        Parameters
        ----------
        run : HasSnapshot
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
        for part in self._parts(run, columns, start, end, Mode.PAIRS):
            with self.leased(part) as (kernel, buffer):
                results = run_pieces(
                    kernel,
                    buffer,
                    part.stream,
                    part.ranges.pieces,
                    room=max(ROOM, kernel.min_room),
                    lanes=self.device.lanes,
                    task_evaluations=self.device.task_evaluations or TASK_EVALUATIONS,
                )
                with closing(results):
                    for result in results:
                        self.stats.note(result)
                        rows = part.kept[result.i]
                        yield part.ranges.matches(rows, result.j, start, end)

    def fold(
        self,
        run: HasSnapshot,
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
        for part in self._parts(run, columns, start, end, mode):
            with self.leased(part) as (kernel, buffer):
                results = fold_pieces(
                    kernel,
                    buffer,
                    part.stream,
                    part.ranges.pieces,
                    mode=mode,
                    lanes=self.device.lanes,
                    task_evaluations=self.device.task_evaluations or TASK_EVALUATIONS,
                )
                with closing(results):
                    for piece, result in results:
                        self.stats.note(result)
                        on_result()
                        assert result.folds is not None
                        merged.add(part.kept[piece.rows], result.folds)
        return merged.folds()

    def _parts(
        self, run: HasSnapshot, columns: Columns, start: np.ndarray, end: np.ndarray, mode: Mode
    ) -> Iterator[BoundPart]:
        """What of a probe the device has to evaluate, a portion of the tuples after the other."""
        window = run.snapshot()
        made, keys = self.binder.bind(window, columns, len(start))
        refuse(self.device, made.program, self.evaluation, self.names)
        possible = np.flatnonzero(keys.possible)
        self.stats.pairs_pruned += int((end - start)[~keys.possible].sum())
        size = len(possible) if self.pruner.pruning is None else PORTION
        for low in range(0, len(possible), max(size, 1)):
            kept = possible[low : low + size]
            stream = [a[kept] for a in keys.arrays]
            parts = self.pruner.parts(window, made, stream, start[kept], end[kept], mode)
            evaluated = sum(part.evaluations for part in parts)
            self.stats.pairs_pruned += int((end - start)[kept].sum()) - evaluated
            for part in parts:
                yield BoundPart(made, stream, kept, part)

    @contextmanager
    def leased(self, part: BoundPart) -> Iterator[tuple[Kernel, WindowBuffer]]:
        """Kernel and resident window."""
        # All of the rows, from position 0 on: then ranges are offsets in the buffer, too.
        source = part.ranges.source
        lease = self.memory.lease(source, part.layout, source.first, source.end, TIMEOUT_S)
        try:
            yield lease.window.kernel, lease.window.buffer
        finally:
            self.memory.release(lease)

    def close(self) -> None:
        self.memory.close()
