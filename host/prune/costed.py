"""Record of the orders that the chooser costed: its choice, and the result of the look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.words import many

from .cells import Grid
from .zones import POSITION, ZoneOrder

#: Words for kinds of orders.
KIND: dict[type, str] = {Grid: "cells", ZoneOrder: "zones"}
ALL_PAIRS = "all pairs"


class Candidate(NamedTuple):
    """An order that was costed.

    Parameters
    ----------
    kind : str
        "cells" or "zones".
    tests : tuple of int
        Tests by whose keys rows are sorted, equalities first; POSITION is a row's place.
    share : float
        Share of a tuple's rows in the window that it is expected to test.
    tuple_ns, sort_ns : float
        Nanoseconds to search a slab for a tuple, and to sort a row.
    """

    kind: str
    tests: tuple[int, ...]
    share: float
    tuple_ns: float
    sort_ns: float


@dataclass
class Costed:
    """Orders that were costed for the probes of one form, and what became of them.

    Empty if no probe had pairs enough for an order.

    Attributes
    ----------
    keys : callable
        Returns the texts of the tests' keys.
    tuples, pairs : int
        Probing tuples for which orders were costed last, and their pairs in the window.
    rows : int
        Window rows to sort.
    visits : float
        Slabs that the tuples visit, in all.
    scan_ns : float
        Nanoseconds to test a pair of the window as it stands.
    candidates : list of Candidate
    chosen : Candidate or None
        None: all pairs are tested.
    used : Counter of str
        Probing tuples by the kind of order that they were searched in, or by "all pairs".
    turned_down : dict of str to (float, float)
        By the kind of an order that was made, and was given up when it was looked at: nanoseconds
        that a tuple was expected to take there, and that tuples of a sample took.
    """

    keys: Callable[[], Sequence[str]] = tuple
    tuples: int = 0
    pairs: int = 0
    rows: int = 0
    visits: float = 0.0
    scan_ns: float = 0.0
    candidates: list[Candidate] = field(default_factory=list)
    chosen: Candidate | None = None
    used: Counter[str] = field(default_factory=Counter)
    turned_down: dict[str, tuple[float, float]] = field(default_factory=dict)

    def tested(self, candidate: Candidate | None) -> float:
        """Rows that a tuple is expected to test; of None, those of all pairs."""
        each = self.pairs / max(self.tuples, 1)
        return each if candidate is None else each * candidate.share

    def seconds(self, candidate: Candidate | None, tuples: int | None = None) -> float:
        """Expected seconds of one core to search for tuples, those that were costed by default."""
        ns = self.pairs * self.scan_ns if candidate is None else self.visits * candidate.tuple_ns
        return ns * 1e-9 * (1.0 if tuples is None else tuples / max(self.tuples, 1))

    def by(self, candidate: Candidate) -> str:
        """Name the keys of a candidate."""
        keys = self.keys()
        return ", ".join("place" if d == POSITION else keys[d] for d in candidate.tests)

    def outcome(self, tested: int | None = None) -> list[str]:
        """Say which orders were used, and what came beside what was expected.

        Parameters
        ----------
        tested : int, optional
            Pairs that were tested for all tuples.
        """
        texts, tuples = [], sum(self.used.values())
        for kind, number in self.used.most_common():
            texts.append(f"{kind} for {many(number, 'row')}")
        used = self.chosen if self.chosen and self.chosen.kind in self.used else None
        if self.chosen and not used and not self.turned_down:
            texts.append(f"{self.chosen.kind} not sorted: no faster with that than all pairs")
        if self.candidates and tuples and tested is not None:
            expected = self.tested(used)
            texts.append(f"{tested / tuples:,.0f} tests a row, {expected:,.0f} expected")
        for kind, (expected, took) in self.turned_down.items():
            texts.append(
                f"the look turned {kind} down: {took:,.0f} ns a row, {expected:,.0f} expected"
            )
        return texts

    def lines(self, tuples: int | None = None) -> list[tuple[str, str]]:
        """Topics and texts: all pairs and each candidate, the cheapest first, with what they cost.

        Parameters
        ----------
        tuples : int, optional
            Probing tuples in all, if orders were costed for some of them.
        """
        if not self.candidates:
            return []
        lines = []
        for one in [None, *sorted(self.candidates, key=lambda one: one.tuple_ns)]:
            sort = "" if one is None else f"{one.sort_ns * self.rows * 1e-9:.2g} s"
            numbers = f"{self.tested(one):>13,.0f} {self.seconds(one, tuples):>9.2g} s {sort:>9}"
            mark = "  (chosen)" if one == self.chosen else ""
            text = "" if one is None else f"  by {self.by(one)}"
            lines.append(
                (ALL_PAIRS if one is None else one.kind, f"{numbers}{text}{mark}".rstrip())
            )
        return lines
