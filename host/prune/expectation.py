"""Expected savings of an order of the window by cells, for ``penstock explain``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.plan.band import BandForm
from penstock.plan.plan import Evaluation

from ..device.base import Device
from ..device.cut import whole
from ..keys.binding import Binder, search_binder
from ..keys.prepare import window_keys
from ..rows.sides import SideRows
from ..windows.run import still
from .choice import GridChoice, costs_of
from .search import Orderings, SearchKeys
from .sizes import DEFAULT_PRUNING


@dataclass(frozen=True)
class Expectation:
    """The order that a join of two tables has a choice of.

    Parameters
    ----------
    rows : int
        Window rows that are sorted together.
    choice : GridChoice
    share : float
        Share of the pairs in the window that are expected to be tested.
    is_worth : bool
        Whether that takes less time than to test all.
    """

    rows: int
    choice: GridChoice
    share: float
    is_worth: bool


def expectation(
    evaluation: Evaluation,
    window: SideRows,
    stream: SideRows,
    start: np.ndarray,
    end: np.ndarray,
    device: Device,
) -> Expectation | None:
    """The order of a window that a join of tables would choose; None if there is none.

    Parameters
    ----------
    window, stream : SideRows
        In the order of time.
    start, end : ndarray of int64
        Range of window rows of each tuple.
    """
    form = evaluation.form
    ranges = whole(start, end)
    if not len(ranges.rows):
        return None
    run = still(window.time, window_keys(form, window.columns, len(window)))
    binder = search_binder(form, growing=False) or Binder(form, device.key_widths, growing=False)
    layout = binder.bind(run, stream.columns, len(start))
    by = SearchKeys(layout, layout.stream(stream.columns, len(start)).arrays, binder.skip)
    is_band = isinstance(form.form, BandForm)
    costs = costs_of(searches=device.searches, units=device.units, speed=1.0, is_band=is_band)
    orderings = Orderings(DEFAULT_PRUNING, growing=False, threads=1, costs=costs)
    choices = orderings.choose(run, by, ranges)
    if not choices:
        return None
    ((rows, choice),) = choices
    mean = ranges.evaluations / len(ranges.rows)
    share = min(choice.share * (rows + mean) / mean, 1.0)
    is_worth = orderings.gain(ranges, rows, choice) > 0
    return Expectation(rows, choice, share, is_worth)
