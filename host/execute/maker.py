"""Makes orders of the probes of one form: keys, layouts, pruning, cutting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakSet

import numpy as np

from penstock.errors import DeviceError
from penstock.expr.columns import Columns
from penstock.plan.band import BandForm
from penstock.plan.plan import Evaluation
from penstock.program import BandProgram, Mode, Program

from ..device.base import Device
from ..device.cut import Cutting, Piece
from ..keys.binding import Binder, search_binder
from ..keys.encoders import floats_of
from ..keys.layouts import Layout
from ..keys.prepare import expressions
from ..prune.chooser import LOOKED_AT, SearchKeys, key_texts
from ..prune.costed import Costed
from ..prune.parts import SearchedLate, TupleKeys, search_piece
from ..prune.pruner import Pruner
from ..prune.sizes import Pruning
from ..windows.probe import Evaluated, Probe
from .order import FEW, BoundProbe, Order
from .stats import Stats
from .units import UnitSample, choose_units, modes_for, widths_to_choose


class OrderMaker:
    """Makes orders of the probes of one form.

    Parameters
    ----------
    devices : sequence of Device
        Any of them may run an order.
    names : mapping of side to str
        Names of the sides in the query, for messages.
    pruning : Pruning or None
        None evaluates every pair of the ranges.
    growing : bool
        Whether layouts should leave room for other values in later probes.
    appended : bool
        Whether windows get further rows.

    Raises
    ------
    DeviceError
        The devices have no key width in common.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        devices: Sequence[Device],
        names: Mapping[str, str],
        cutting: Cutting,
        *,
        pruning: Pruning | None,
        growing: bool,
        appended: bool = False,
    ) -> None:
        self.evaluation = evaluation
        self.names = names
        self.cutting = cutting
        self._devices = devices
        #: Layouts whose programs already name their units.
        self._chosen: WeakSet[Layout] = WeakSet()
        searches = all(device.searches for device in devices)
        widths, floats = _common_widths(devices), floats_of(searches=searches)
        self._binder = Binder(evaluation.form, widths, growing=growing, floats=floats)
        #: Binds the keys to search by, where the program compares other keys.
        self._searched: Binder | None = None
        if pruning is not None:
            self._searched = search_binder(evaluation.form, growing=growing)
        self._pruner = Pruner(
            pruning,
            cutting.most,
            growing=appended,
            searches=searches,
            units=cutting.units,
            threads=cutting.lanes,
            is_band=isinstance(evaluation.form.form, BandForm),
        )
        forms = [binder.form for binder in (self._binder, self._searched) if binder is not None]
        casts = any(e.may_fail for form in forms for e in expressions(form, window=False))
        #: Whether tasks may compute their tuples' keys: not if the data could cause an error.
        self._may_be_late = self._pruner.may_be_late and len(evaluation.modes) == 1 and not casts

    @property
    def costed(self) -> Costed:
        """The orders of windows that were costed, and what became of them, also later."""
        form, names, costed = self.evaluation.form, self.names, self._pruner.costed
        costed.keys = lambda: key_texts(form, names)
        return costed

    def orders(self, batch: int, probe: Probe, stats: Stats) -> Iterator[Order]:
        """Make the orders of a probe, one portion of its tuples at a time.

        Raises
        ------
        DeviceError
            A device refuses the predicate.
        """
        if not probe.fold:  # each pair once, however many folds test it
            stats.pairs_in_window += probe.pairs
        evaluated = probe.evaluated
        window, columns, rows = evaluated.window, evaluated.columns, len(evaluated.start)
        layout = self._binder.bind(window, columns, rows)
        self._choose_units(layout, evaluated)
        modes = self._modes(layout.program)
        for device in self._devices:
            _refuse(device, layout.program, self.evaluation, modes, self.names)
        search_layout = None
        if self._searched is not None and probe.pairs >= self._pruner.least_pairs:
            search_layout = self._searched.bind(window, columns, rows)
        sizes = self._pruner.pruning
        size = max(rows, 1) if sizes is None else sizes.portion
        # Lanes work on one portion while the next one is made.
        for low in range(0, rows, size):
            portion = _Portion(probe, layout, search_layout, low, min(low + size, rows))
            late = self._late(portion)
            for bound in self._bound(portion, stats) if late is None else late:
                for whole in bound.ranges.pieces:
                    for piece in whole.tasks(self.cutting):
                        if len(piece.rows):
                            yield Order(batch, bound, piece)

    def _modes(self, program: Program) -> tuple[Mode, ...]:
        """Return the modes in which devices run the program."""
        if self.evaluation.fold is not None:
            return self.evaluation.modes
        return modes_for(self._devices, program, self.evaluation.modes)

    def _choose_units(self, layout: Layout, evaluated: Evaluated) -> None:
        """Choose the width of the units for a new layout, where devices have several."""
        if layout in self._chosen:
            return
        self._chosen.add(layout)
        widths = widths_to_choose(self._devices, layout.program, self.evaluation.modes)
        if not widths:
            return
        sample = UnitSample.take(
            layout, evaluated.window, evaluated.columns, evaluated.start, evaluated.end
        )
        if (expected := choose_units(sample, sorted(widths))) is not None:
            layout.program = replace(layout.program, unit_bits=expected.bits)

    def _bound(self, portion: _Portion, stats: Stats) -> Iterator[BoundProbe]:
        """Bind the tuples of a portion, for each mode."""
        evaluated = portion.probe.evaluated
        keys, (start, end) = portion.keys(0, portion.rows), portion.ranges
        admitted = int(end.sum() - start.sum())
        kept, arrays, bounds = portion.tuples, keys.arrays, keys.bounds
        chosen = np.flatnonzero(keys.possible)
        # To test the pairs of a few tuples that match nothing is cheaper than to copy the others.
        is_scanned = portion.probe.pairs < self._pruner.least_pairs
        if len(chosen) + is_scanned * (len(start) // FEW) < len(start):
            start, end, kept = (each.take(chosen) for each in (start, end, kept))
            # Keys to search by may be those of the program.
            picked = {id(a): a.take(chosen) for a in (*arrays, *bounds)}
            arrays, bounds = ([picked[id(a)] for a in group] for group in (arrays, bounds))
        search = self._search_keys(portion, bounds)
        has_keys = self._searched is not None or bool(search.tests)
        may_search = self._pruner.may_search and has_keys
        layout, ordered = portion.layout, self._modes(portion.layout.program)
        modes = frozenset(ordered)
        for mode in ordered:
            parts = self._pruner.parts(evaluated.window, layout, search, start, end, mode)
            for kind in {part.kind for part in parts}:
                self._pruner.costed.used[kind] += len(start)
            stats.prune(admitted - sum(part.evaluations for part in parts))
            for part in parts:
                yield BoundProbe(portion.probe, part, layout, arrays, kept, mode, modes, may_search)

    def _late(self, portion: _Portion) -> list[BoundProbe] | None:
        """Bind a portion whose keys are computed by its tasks; None if they are needed now."""
        if not self._may_be_late or not self._pruner.is_ordered(portion.probe.evaluated.window.run):
            return None
        start, end = portion.ranges
        ranges = Piece(np.arange(portion.rows, dtype=np.uint32), start, end)
        some = ranges.sample(LOOKED_AT)
        keys = portion.keys_at(some.rows)
        some, bounds = some.pick(keys.possible), [bound[keys.possible] for bound in keys.bounds]
        if not len(some.rows):
            return None
        sample = replace(some, rows=ranges.rows[: len(some.rows)])
        search, layout = self._search_keys(portion, bounds), portion.layout
        (mode,) = self.evaluation.modes
        window = portion.probe.evaluated.window
        prepared = self._pruner.late(window, layout, search, ranges, sample, mode)
        if prepared is None:
            return None
        ordered, grid, choice = prepared
        searched = SearchedLate(ordered, search_piece(ordered, ranges, choice), grid, portion.keys)
        self._pruner.costed.used[searched.kind] += portion.rows
        return [
            BoundProbe(portion.probe, searched, layout, (), portion.tuples, mode, frozenset({mode}))
        ]

    def _search_keys(self, portion: _Portion, bounds: Sequence[np.ndarray]) -> SearchKeys:
        skip = 0 if self._searched is None or portion.search_layout is None else self._searched.skip
        return SearchKeys(portion.search_layout or portion.layout, bounds, skip)

    def keep(self, runs: Collection[int]) -> set[int]:
        """Forget all other runs; return the numbers of runs to keep in device memory."""
        self._binder.keep(runs)
        if self._searched is not None:
            self._searched.keep(runs)
        return self._pruner.keep(runs)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory."""
        return self._pruner.nbytes


@dataclass(frozen=True)
class _Portion:
    """The tuples ``[low, high)`` of a probe.

    Parameters
    ----------
    search_layout : Layout or None
        Layout of the keys to search by, if they are not the program's keys.
    """

    probe: Probe
    layout: Layout
    search_layout: Layout | None
    low: int
    high: int

    @property
    def rows(self) -> int:
        return self.high - self.low

    @property
    def tuples(self) -> np.ndarray:
        return np.arange(self.low, self.high)

    @property
    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        evaluated = self.probe.evaluated
        return evaluated.start[self.low : self.high], evaluated.end[self.low : self.high]

    def keys(self, low: int, high: int) -> TupleKeys:
        """Compute the keys of the portion's tuples ``[low, high)``."""
        columns = self.probe.evaluated.columns_between(self.low + low, self.low + high)
        return self._keys(columns, high - low)

    def keys_at(self, rows: np.ndarray) -> TupleKeys:
        """Compute the keys of some of the portion's tuples."""
        columns = self.probe.evaluated.columns
        at = rows + self.low
        return self._keys({key: v.at(at) for key, v in columns.items()}, len(rows))

    def _keys(self, columns: Columns, rows: int) -> TupleKeys:
        keys = self.layout.stream(columns, rows)
        if self.search_layout is None:
            return TupleKeys(keys.arrays, keys.arrays, keys.possible)
        searched = self.search_layout.stream(columns, rows)
        return TupleKeys(keys.arrays, searched.arrays, keys.possible & searched.possible)


def _refuse(
    device: Device,
    program: Program,
    evaluation: Evaluation,
    modes: Sequence[Mode],
    names: Mapping[str, str],
) -> None:
    """Refuse a program that a device cannot run.

    Raises
    ------
    DeviceError
    """
    reason = device.refuses(program, frozenset(modes))
    if reason is None:
        return
    shape = "band" if isinstance(program, BandProgram) else "general"
    not_band = evaluation.form.why_general(names)
    why = f": {not_band}" if not_band else ""
    raise DeviceError(
        f"device {device.name} cannot run {evaluation.needed_by}: {reason} ({shape} form{why})"
    )


def _common_widths(devices: Sequence[Device]) -> list[int]:
    """Return the widths of band codes that all devices offer.

    Raises
    ------
    DeviceError
    """
    widths = sorted(set.intersection(*(set(d.key_widths) for d in devices)))
    if not widths:
        offered = "; ".join(f"{d.name}: {', '.join(map(str, d.key_widths))}" for d in devices)
        raise DeviceError(
            f"the devices have no key width in common ({offered}); give them one, or use fewer"
        )
    return widths
