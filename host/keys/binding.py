"""Layouts of window runs: a layout is kept while it covers the run and its probes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from penstock.expr.columns import Columns, Vector
from penstock.plan.forms import JoinForm

from .encoders import Floats
from .layouts import Layout
from .prepare import layout, program_keys, search_form, stream_values

#: Widths of codes to search by; they stay in this process.
SEARCH_WIDTHS = (32, 64)
#: Key bounds of a growing window are rounded up to registers of a multiple of this many bits.
SPARE_BITS = 16


class KeyedRun(Protocol):
    """The keys of a window run."""

    @property
    def run(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def keys(self) -> Sequence[Vector]: ...

    def keys_between(self, low: int, high: int) -> list[Vector]: ...


class Binder:
    """Gives probes of one form their programs and keys.

    Parameters
    ----------
    form : JoinForm
    widths : sequence of int
        Widths of band codes that every device in question offers, ascending.
    growing : bool
        Whether windows grow, so that layouts should leave room for later values.
    skip : int
        Keys of window tuples before those of the form.
    floats : str
        How floats get codes.
    """

    def __init__(
        self,
        form: JoinForm,
        widths: Sequence[int],
        *,
        growing: bool,
        skip: int = 0,
        floats: Floats = "ranks",
    ) -> None:
        self.skip = skip
        self.floats: Floats = floats
        self.form = form
        self.widths = widths
        self.spare_bits = SPARE_BITS if growing else 0
        self._bound: dict[int, tuple[Layout, int]] = {}
        self._seen: list[tuple[int, int]] = []

    def bind(self, window: KeyedRun, columns: Columns, rows: int) -> Layout:
        """The run's layout, a new one if the old one no longer serves.

        Parameters
        ----------
        window : KeyedRun
        columns : mapping of (side, name) to Vector
            Columns of the stream tuples.
        rows : int
            Number of stream tuples.
        """
        values = self._remembered(stream_values(self.form, columns, rows))
        known, upto = self._bound.get(window.run, (None, 0))
        upto = max(upto, window.first)
        fresh = window.keys_between(upto, window.end)[self.skip :] if upto < window.end else []
        if known is None or not known.covers_stream(values) or (fresh and not known.covers(fresh)):
            window_keys = window.keys[self.skip :]
            known = layout(
                self.form, window_keys, values, self.widths, self.spare_bits, floats=self.floats
            )
        self._bound[window.run] = (known, max(upto, window.end))
        return known

    def keep(self, runs: Collection[int]) -> None:
        """Forget the layouts of all other runs."""
        for run in self._bound.keys() - set(runs):
            del self._bound[run]

    def _remembered(self, values: Sequence[Vector]) -> list[Vector]:
        """Stream values with the bounds of all tuples so far, so that layouts do not alternate."""
        if not self._seen:
            self._seen = [(v.lo, v.hi) for v in values]
        self._seen = [
            (min(lo, v.lo), max(hi, v.hi)) for (lo, hi), v in zip(self._seen, values, strict=True)
        ]
        return [replace(v, lo=lo, hi=hi) for v, (lo, hi) in zip(values, self._seen, strict=True)]


def search_binder(form: JoinForm, *, growing: bool) -> Binder | None:
    """Make the binder of keys to search rows by; None for a band, or if there are no such keys."""
    searched = search_form(form)
    if searched is None:
        return None
    skip = program_keys(form)
    return Binder(searched, SEARCH_WIDTHS, growing=growing, skip=skip, floats="coarse")
