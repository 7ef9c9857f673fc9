"""Opens the engine for a plan."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.plan.plan import JoinPlan
from penstock.plan.query import TimeWindow

from .engine import RowsEngine, TimeEngine, WindowEngine
from .probing import RowsProbing, TimeProbing


def open_engine(plan: JoinPlan, number: Callable[[int], np.ndarray]) -> WindowEngine:
    """Open the engine for a plan's window and kind of join.

    Parameters
    ----------
    number : callable
        Gives the next arrival numbers.

    Raises
    ------
    QueryError
        The predicate, or a folded value, has no form.
    """
    forms = {key: one.form for key, one in plan.evaluations.items()}
    side, window = plan.probing, plan.query.window
    if isinstance(window, TimeWindow):
        return TimeEngine(window, forms) if side is None else TimeProbing(side, window, forms)
    if side is None:
        return RowsEngine(plan.query, forms, number)
    return RowsProbing(side, plan.query, forms, number)
