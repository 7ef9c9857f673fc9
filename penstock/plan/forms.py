"""The form of a predicate for a given direction of the join."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from ..errors import QueryError
from ..expr import ops
from ..expr.node import Expr, walk
from ..program import MAX_BAND_TESTS, Mode
from ..stack import run_deep
from .band import BandForm, NotBandError, band_form
from .general import GeneralForm, general_form
from .logic import when_true

T = TypeVar("T")


@dataclass(frozen=True)
class JoinForm:
    """Form of a predicate with the side ``window`` flowing past the other.

    Parameters
    ----------
    window : str
    form : BandForm or GeneralForm
    predicate : Expr
        TRUE for every match; some pairs for which it is may still be left out, where the value to
        fold is NULL.
    not_band : NotBandError, optional
        The reason for not being in band form.
    """

    window: str
    form: BandForm | GeneralForm
    predicate: Expr
    not_band: NotBandError | None = None

    def why_general(self, names: Mapping[str, str] | None = None) -> str:
        """Why it is not a band, with the sides called by these names; "" if it is."""
        return "" if self.not_band is None else self.not_band.text(names)

    @property
    def cost(self) -> int:
        """Rank of the form by work per pair: band tests, any general form after them."""
        return len(self.form.tests) if isinstance(self.form, BandForm) else MAX_BAND_TESTS + 1


@lru_cache(maxsize=128)  # a predicate that is joined again has its form already
def join_form(predicate: Expr, window: str, *, band: bool = True) -> JoinForm:
    """Band form where there is one (and ``band`` allows it), general form otherwise.

    Raises
    ------
    QueryError
        The predicate has neither form.
    """
    return with_room(lambda: _join_form(predicate, window, band), predicate)


def _join_form(predicate: Expr, window: str, band: bool) -> JoinForm:
    formula = when_true(predicate)
    why = NotBandError("band form is switched off")
    if band:
        try:
            return JoinForm(window, band_form(formula, window), predicate)
        except NotBandError as error:
            why = error
    return JoinForm(window, general_form(formula, window), predicate, why)


def fold_form(
    predicate: Expr,
    window: str,
    value: Expr | None,
    modes: frozenset[Mode],
    *,
    band: bool = True,
) -> JoinForm:
    """Form of a predicate whose matches are folded.

    Parameters
    ----------
    predicate : Expr
    window : str
        Side that flows past the other, whose tuples get the aggregates.
    value : Expr or None
        Value to fold, over both sides; pairs for which it is NULL are no matches.
    modes : frozenset of Mode
        Without ``value`` only modes that need none.
    band : bool
        Whether band form is allowed.

    Raises
    ------
    QueryError
        The predicate or the value has no form.
    """
    if value is None:
        return join_form(predicate, window, band=band)
    return with_room(lambda: _fold_form(predicate, window, value, modes, band), predicate, value)


def _fold_form(
    predicate: Expr, window: str, value: Expr, modes: frozenset[Mode], band: bool
) -> JoinForm:
    folds = any(mode.needs_value for mode in modes)
    known = ops.not_(ops.is_null(value))
    of_window = value.sides == {window} and Mode.NEAREST not in modes
    if of_window and (value.type.is_integral or not folds):
        predicate_form = join_form(predicate, window, band=band)
        if isinstance(predicate_form.form, BandForm):
            form = replace(predicate_form.form, payload=value if folds else None)
            return replace(
                predicate_form, form=form.with_need(known) if value.type.nullable else form
            )
    if not folds:
        return join_form(ops.and_(predicate, known), window, band=band)
    formula = when_true(ops.and_(predicate, known))
    why = NotBandError("{} is not an integer of the window's tuple alone", value)
    if Mode.NEAREST in modes:
        why = NotBandError("the match with the least {} is asked for", value)
    return JoinForm(window, general_form(formula, window, value), predicate, why)


def with_room(make: Callable[[], T], *exprs: Expr) -> T:
    """Call ``make``, for large expressions in a thread with room for recursion; returns its result.

    Raises
    ------
    QueryError
        They are too deep even so.
    """
    if len(list(islice(walk(*exprs), _FEW + 1))) <= _FEW:
        return make()
    try:
        return run_deep(make)
    except RecursionError:
        raise QueryError(
            "the condition is nested too deeply, by some thousands of levels; compute parts of it "
            "in columns before"
        ) from None


#: Nodes of expressions whose forms any thread has room for: tests for NULL make levels of operands.
_FEW = 40
