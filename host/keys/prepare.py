"""Prepared keys of a join in one direction: the values of a tuple that a device compares.

A :class:`~.layouts.Layout` turns the values of a window run, and of its stream tuples, into arrays
of codes and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from penstock.expr.columns import Columns, Vector, evaluate_columns
from penstock.expr.node import Expr
from penstock.plan.band import BandForm
from penstock.plan.forms import JoinForm
from penstock.plan.general import KeySource
from penstock.plan.search import search_of

from .encoders import Floats
from .layouts import BandLayout, GeneralLayout, Layout, key_values, stream_side
from .sums import sum_vector

#: Most keys that rows are searched by, beside those of the program.
MOST_SEARCHED = 4


@lru_cache(maxsize=128)
def search_form(form: JoinForm) -> JoinForm | None:
    """The band by which the rows are searched that may match a general form.

    None if it has none, or is a band itself.
    """
    if isinstance(form.form, BandForm):
        return None
    search = search_of(form.predicate, form.window)
    searched = search.form_of_best(MOST_SEARCHED)
    return None if searched is None else replace(form, form=searched)


def program_keys(form: JoinForm) -> int:
    """Number of a window tuple's keys that the program is for; those to search by follow."""
    if isinstance(form.form, BandForm):
        return len(form.form.tests) + (form.form.payload is not None)
    return len(form.form.window_keys)


def window_keys(form: JoinForm, columns: Columns, rows: int) -> list[Vector]:
    """Prepared values of window tuples, before any encoding."""
    if isinstance(form.form, BandForm):
        keys = [_test_key(test.key, columns, rows) for test in form.form.tests]
        if form.form.need is not None:
            known = evaluate_columns(form.form.need, columns, rows).true
            keys = [replace(v, valid=known if v.valid is None else v.valid & known) for v in keys]
        if form.form.payload is not None:
            keys.append(key_values(KeySource("value", form.form.payload), columns, rows))
        return keys
    keys = [key_values(source, columns, rows) for source in form.form.window_keys]
    searched = search_form(form)
    if searched is not None:
        assert isinstance(searched.form, BandForm)
        keys += [_test_key(test.key, columns, rows) for test in searched.form.tests]
    return keys


def _test_key(expr: Expr, columns: Columns, rows: int) -> Vector:
    """Key of a band test; a condition is 1 where it is TRUE, else 0."""
    if (sums := sum_vector(expr, columns, rows)) is not None:
        return sums
    v = evaluate_columns(expr, columns, rows)
    return Vector(v.true.astype(np.int64), None, 0, 1) if v.values.dtype == bool else v


def stream_values(form: JoinForm, columns: Columns, rows: int) -> list[Vector]:
    """Prepared values of stream tuples in the general form; empty in band form."""
    if isinstance(form.form, BandForm):
        return []
    none = Vector(np.zeros(0, dtype=np.int64))
    return [
        none if source.kind in ("lo", "hi") else key_values(source, columns, rows)
        for source in form.form.stream_keys
    ]


def layout(
    form: JoinForm,
    window: Sequence[Vector],
    stream: Sequence[Vector],
    widths: Sequence[int],
    spare_bits: int = 0,
    *,
    floats: Floats = "ranks",
) -> Layout:
    """A layout that covers these tuples.

    Parameters
    ----------
    form : JoinForm
    window : sequence of Vector
        From :func:`window_keys`.
    stream : sequence of Vector
        From :func:`stream_values`; only the general form looks at them.
    widths : sequence of int
        ``Device.key_widths``.
    spare_bits : int
        Room for later values: above 0, codes of a band use their whole width, and an integer key
        of the general form gets the bounds of the next register width that is a multiple of this.
        0 keeps the exact bounds.
    floats : str
        How floats get codes of a band.
    """
    if isinstance(form.form, BandForm):
        return BandLayout(form.form, window, widths, spare=spare_bits > 0, floats=floats)
    return GeneralLayout(form.form, window, stream, spare_bits)


def check(form: JoinForm, columns: Columns, rows: int, *, window: bool) -> None:
    """Evaluate every CAST that can fail in tuples of one side, before they change any state.

    Raises
    ------
    DataError
    """
    check_casts(expressions(form, window), columns, rows)


def check_casts(exprs: Iterable[Expr], columns: Columns, rows: int) -> None:
    """Evaluate the expressions with a CAST that can fail, for its error.

    Raises
    ------
    DataError
    """
    for expr in exprs:
        if expr.may_fail:
            evaluate_columns(expr, columns, rows)


def expressions(form: JoinForm, window: bool) -> list[Expr]:
    """Expressions that are evaluated on a window tuple, or on a stream tuple."""
    if isinstance(form.form, BandForm):
        tests = form.form.tests
        if not window:
            return [e for test in tests for e in stream_side(test)]
        optional = (form.form.payload, form.form.need)
        return [*(test.key for test in tests), *(e for e in optional if e is not None)]
    exprs = []
    for source in form.form.window_keys if window else form.form.stream_keys:
        exprs += [source.expr] if source.test is None or window else stream_side(source.test)
    return exprs
