"""Which form a predicate takes for a given direction of the join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.expr.node import Expr
from penstock.program import MAX_BAND_TESTS
from penstock.rewrite.band import BandForm, NotBandError, band_form
from penstock.rewrite.general import GeneralForm, general_form
from penstock.rewrite.logic import when_true


@dataclass(frozen=True)
class JoinForm:
    """Form of a predicate with the side ``window`` flowing past the other.

    ``not_band`` says why it is not a band, None if it is.
    """

    window: str
    form: BandForm | GeneralForm
    not_band: NotBandError | None = None

    def why_general(self, names: Mapping[str, str] | None = None) -> str:
        """Why it is not a band, with the sides called by these names; "" if it is."""
        return "" if self.not_band is None else self.not_band.text(names)

    @property
    def cost(self) -> int:
        """Rank of the form by work per pair: band tests, any general form after them."""
        return len(self.form.tests) if isinstance(self.form, BandForm) else MAX_BAND_TESTS + 1


def join_form(predicate: Expr, window: str, *, band: bool = True) -> JoinForm:
    """Band form where there is one (and ``band`` allows it), general form otherwise.

    Raises
    ------
    QueryError
        The predicate has neither form.
    """
    formula = when_true(predicate)
    why = NotBandError("band form is switched off")
    if band:
        try:
            return JoinForm(window, band_form(formula, window))
        except NotBandError as error:
            why = error
    return JoinForm(window, general_form(formula, window), why)
