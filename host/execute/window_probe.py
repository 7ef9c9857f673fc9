"""Probing the window of a join of tables: one run, or the blocks that its rows are of."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np

from penstock.expr.columns import Columns
from penstock.plan.general import GeneralForm
from penstock.plan.plan import Evaluation
from penstock.program import Mode

from ..device.base import Device, Folds
from ..device.merge import Merged
from ..prune.sizes import Pruning
from ..rows.sides import SideRows, take
from ..rows.stretches import Stretch, WindowPart, window_parts
from .probe import Pairs, Prober
from .residence import Residence
from .resident_prober import ResidentProber
from .stats import Stats
from .still import HasSnapshot, StillRun


@dataclass(frozen=True)
class WindowProbe:
    """A window in parts, and who probes it."""

    prober: Prober
    #: Runs, and what of the window each is; None if it is the window.
    parts: Sequence[tuple[HasSnapshot, WindowPart | None]]

    def probe(
        self, columns: Columns, start: np.ndarray, end: np.ndarray
    ) -> Generator[Pairs, None, None]:
        """Matches of stream tuples with their ranges of the window; both are places.

        Parameters
        ----------
        columns : mapping of (side, name) to Vector
            Columns of the stream tuples.
        start, end : ndarray of int64, shape (n,)
            Ranges of places in the window, both ascending.
        """
        for run, part in self.parts:
            if part is None:
                yield from self.prober.probe(run, columns, start, end)
                continue
            low, high = part.ranges(start, end)
            own = _met(low, high)
            found = self.prober.probe(run, _picked(columns, own), low[own], high[own])
            with closing(found):
                for tuples, positions in found:
                    yield tuples.astype(np.int64) + own.start, part.places(positions)

    def fold(
        self,
        columns: Columns,
        start: np.ndarray,
        end: np.ndarray,
        mode: Mode,
        on_result: Callable[[], None] = lambda: None,
    ) -> Folds:
        """Aggregates of stream tuples over their matches; arguments as for :meth:`probe`."""
        merged = Merged(mode, len(start))
        for run, part in self.parts:
            if part is None:
                return self.prober.fold(run, columns, start, end, mode, on_result)
            low, high = part.ranges(start, end)
            own = _met(low, high)
            folds = self.prober.fold(
                run, _picked(columns, own), low[own], high[own], mode, on_result
            )
            if folds.position is not None:
                position = np.full(len(folds.found), -1, np.int64)
                position[folds.found] = part.places(folds.position[folds.found])
                folds = Folds(folds.found, folds.value, position)
            merged.add(np.arange(own.start, own.stop), folds)
        return merged.folds()


@contextmanager
def window_probe(
    evaluation: Evaluation,
    window: SideRows,
    stretches: Sequence[Stretch],
    device: Device,
    stats: Stats,
    *,
    names: Mapping[str, str],
    residence: Residence | None = None,
    pruning: Pruning | None = None,
) -> Iterator[WindowProbe]:
    """A window, ready to be probed.

    Parameters
    ----------
    evaluation : Evaluation
    window : SideRows
    stretches : sequence of Stretch
        Which of the rows are of blocks.
    residence : Residence, optional
        Where those are kept; without it the window is one run.
    device, stats, names, pruning
        As for :class:`~penstock.host.execute.probe.Prober`.
    """
    options = {"names": names, "pruning": pruning}
    if residence is None or not stretches or _in_order(evaluation):
        prober = Prober(evaluation, device, stats, **options)
        with closing(prober):
            run = StillRun(window.time, prober.keys(window.columns, len(window)))
            yield WindowProbe(prober, [(run, None)])
        return
    with residence.prober(evaluation, device, stats, **options) as prober:
        parts = window_parts(window, stretches)
        yield WindowProbe(prober, [(_run(prober, part), part) for part in parts])


def _run(prober: ResidentProber, part: WindowPart) -> HasSnapshot:
    if part.block is not None:
        return prober.run_of(part.block)
    return StillRun(part.rows.time, prober.keys(part.rows.columns, len(part.rows)))


def _in_order(evaluation: Evaluation) -> bool:
    """Whether the result depends on the order of rows, as sums of floats do."""
    form = evaluation.form.form
    value = form.value if isinstance(form, GeneralForm) else None
    return Mode.SUM in evaluation.modes and value is not None and not value.type.is_integral


def _met(low: np.ndarray, high: np.ndarray) -> slice:
    """The tuples from the first to the last one with a range that is not empty."""
    met = np.flatnonzero(high > low)
    return slice(int(met[0]), int(met[-1]) + 1) if len(met) else slice(0, 0)


def _picked(columns: Columns, own: slice) -> Columns:
    return {key: take(v, own) for key, v in columns.items()}
