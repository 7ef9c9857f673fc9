"""The engine for a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from penstock.host.completeness.engine import Engine, RowsEngine, TimeEngine
from penstock.host.completeness.existence import RowsExistence, TimeExistence
from penstock.query.plan import JoinQuery, TimeWindow
from penstock.rewrite.forms import JoinForm


def open_engine(
    query: JoinQuery, forms: Mapping[str, JoinForm], number: Callable[[int], np.ndarray]
) -> Engine:
    """The engine for a query's window and kind of join.

    Parameters
    ----------
    query : JoinQuery
    forms : mapping of side to JoinForm
        Form of the predicate with that side as the window.
    number : callable
        Gives the next arrival numbers.
    """
    if isinstance(query.window, TimeWindow):
        made = TimeExistence if query.kind.is_existence else TimeEngine
        return made(query.window, forms)
    return (RowsExistence if query.kind.is_existence else RowsEngine)(query, forms, number)
