"""The engine for a query, and the forms that it evaluates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from penstock.host.completeness.engine import Engine, RowsEngine, TimeEngine, fold_key
from penstock.host.completeness.probing import RowsProbing, TimeProbing
from penstock.query.plan import LEFT, RIGHT, JoinQuery, TimeWindow, other
from penstock.rewrite.folds import fold_plan
from penstock.rewrite.forms import JoinForm, fold_form, join_form


def probed_side(query: JoinQuery) -> str | None:
    """The side each of whose rows is probed once; None where rows probe as they come."""
    if query.aggregation is not None:
        return query.aggregation.side
    return LEFT if query.kind.is_existence else None


def open_forms(query: JoinQuery, *, band: bool) -> dict[str, JoinForm]:
    """Forms of a query's predicate by the engine's key for them.

    Raises
    ------
    QueryError
        The predicate, or a value that is folded, has no form.
    """
    side = probed_side(query)
    if side is None:
        return {w: join_form(query.predicate, w, band=band) for w in (LEFT, RIGHT)}
    window = other(side)
    if query.aggregation is None:
        return {window: join_form(query.predicate, window, band=band)}
    return {
        fold_key(k): fold_form(query.predicate, window, key.value, frozenset(modes), band=band)
        for k, (key, modes) in enumerate(fold_plan(query.aggregation).modes.items())
    }


def open_engine(
    query: JoinQuery, forms: Mapping[str, JoinForm], number: Callable[[int], np.ndarray]
) -> Engine:
    """The engine for a query's window and kind of join.

    Parameters
    ----------
    query : JoinQuery
    forms : mapping of str to JoinForm
        From :func:`open_forms`.
    number : callable
        Gives the next arrival numbers.
    """
    side = probed_side(query)
    if isinstance(query.window, TimeWindow):
        if side is None:
            return TimeEngine(query.window, forms)
        return TimeProbing(side, query.window, forms)
    return (
        RowsEngine(query, forms, number)
        if side is None
        else RowsProbing(side, query, forms, number)
    )
