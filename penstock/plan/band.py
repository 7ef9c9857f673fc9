"""Band form: a boolean function of tests ``lo <= key <= hi`` (docs/predicates.md).

The key of a test comes from the window tuple, its bounds from the stream tuple, so that bounds can
travel with each stream tuple and one piece of hardware serves every predicate of this form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..expr import ops
from ..expr.node import Expr, show

ZERO = ops.const(0)


class NotBandError(Exception):
    """The predicate has no band form.

    Parameters
    ----------
    reason : str
        The reason, with ``{}`` for each part.
    *parts : Expr
        Parts of the predicate that the reason names.
    """

    def __init__(self, reason: str, *parts: Expr) -> None:
        self.reason = reason
        self.parts = parts
        super().__init__(self.text())

    def text(self, names: Mapping[str, str] | None = None) -> str:
        """The reason, with the sides called by these names."""
        return self.reason.format(*(f"`{show(part, names)}`" for part in self.parts))


@dataclass(frozen=True)
class Bound:
    """One end of a band.

    Parameters
    ----------
    expr : Expr
        Stream-side value; NULL makes the test fail.
    open : bool
        The bound itself is outside the band.
    after : bool
        The bound is the first text after every text that starts with ``expr``.
    """

    expr: Expr
    open: bool = False
    after: bool = False


@dataclass(frozen=True)
class BandTest:
    """``max(lo) <= key <= min(hi)``, and every stream-side condition in ``when`` is TRUE.

    ``key`` is window-side (a condition counts as 1 where TRUE, else 0); NULL makes the test fail.
    """

    key: Expr
    lo: tuple[Bound, ...] = ()
    hi: tuple[Bound, ...] = ()
    when: tuple[Expr, ...] = ()

    @property
    def is_equality(self) -> bool:
        """Whether each stream tuple asks for one value."""
        if len(self.lo) != 1 or self.lo != self.hi:
            return False
        return not self.lo[0].open and not self.lo[0].after


#: A test that every key passes but NULL.
ALWAYS = BandTest(ZERO, lo=(Bound(ZERO),), hi=(Bound(ZERO),))


@dataclass(frozen=True)
class BandForm:
    """A predicate as band tests and the truth table over their outcomes.

    Parameters
    ----------
    window : str
        Side that flows past the other.
    tests : tuple of BandTest
    table : int
        As for :class:`~penstock.program.BandProgram`.
    payload : Expr or None
        Window-side integer that is folded over the matches.
    need : Expr or None
        Window-side condition: a window tuple for which it is not TRUE matches nothing. Its keys
        count as NULL, so all tests fail.
    """

    window: str
    tests: tuple[BandTest, ...]
    table: int
    payload: Expr | None = None
    need: Expr | None = None

    def with_need(self, need: Expr) -> BandForm:
        """The form with a further condition on window tuples."""
        if self.table & 1:
            # True for every outcome: one test that only a NULL key fails.
            return replace(self, tests=(ALWAYS,), table=0b10, need=need)
        return replace(self, need=need)
