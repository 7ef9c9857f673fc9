"""Sessions of both sides' rows: what meets in a join by ``session_window``.

Rows with one key, of both sides, are of one session as long as neighbours in time are at most a gap
apart. A session's number is then a row's time: only rows of one session meet, so the join's other
parts know nothing of sessions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..expr import ops
from ..expr.node import Expr, Op, walk
from ..types import int_of
from .logic import equalities
from .window import LEFT

#: Column of a row's session; no column of a user has this name.
SESSION = "\0session"
#: No two times of 64 bits lie further apart.
MOST_GAP = (1 << 64) - 1


def session_column(side: str) -> Expr:
    """A row's session, NULL where it has no time or no key: such a row meets nothing."""
    return ops.column(side, SESSION, int_of(64))


@dataclass(frozen=True)
class Sessions:
    """How rows form sessions.

    Parameters
    ----------
    times : tuple of Expr
        Event times of the left and right side, as integers of one unit.
    unit : str
        Of both, "" for plain integers.
    own_units : tuple of str
        Units of the time columns themselves.
    gap : int
        Most time between neighbours of one session.
    keys : tuple of tuple of Expr
        Keys of the left and right side; those at one place have one type.
    """

    times: tuple[Expr, Expr]
    unit: str
    own_units: tuple[str, str]
    gap: int
    keys: tuple[tuple[Expr, ...], tuple[Expr, ...]]

    def side_keys(self, side: str) -> tuple[Expr, ...]:
        """The key of a side."""
        return self.keys[0 if side == LEFT else 1]

    def columns_of(self, side: str) -> set[str]:
        """The columns of a side's key."""
        leaves = (leaf for key in self.side_keys(side) for leaf in walk(key))
        return {leaf.attr[1] for leaf in leaves if leaf.op is Op.COLUMN}

    def __str__(self) -> str:
        gap = f"{self.gap} {self.unit}" if self.unit else str(self.gap)
        return f"sessions of both sides' rows with one key, at most {gap} apart"


def keys_of(conjuncts: Iterable[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The keys that a join condition says are equal, of the left and right side."""
    pairs = [(a, b) for _, a, b in equalities(conjuncts, LEFT) if b.sides]
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
