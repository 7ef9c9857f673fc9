"""Keys of both sides that a join condition ties to each other, by which rows are dealt to lanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ..expr.node import Expr, show
from .band import Bound
from .float_bands import float_bands
from .linear import Linear, linear, total
from .logic import conjuncts_of, equalities
from .plan import plan
from .query import LEFT, RIGHT, JoinQuery, columns
from .search import search_of


@dataclass(frozen=True)
class RoutingKeys:
    """Keys of both sides that are equal, or differ by little, wherever two rows match.

    Parameters
    ----------
    left, right : tuple of Expr
        The key of each side, over its own columns; of a match, values at the same place are equal.
        Of a band there is one on each side, integers or floats. If one is NULL, the row matches
        nothing.
    conjuncts : tuple of Expr
        That say so.
    band : (int, int) or (float, float), optional
        Of a match, ``low <= right - left <= high``.
    share : float, optional
        Of a band of floats: it holds but for this share of either key, which rounding may hide.
    grouped : str, optional
        The side whose groups these are keys of, where the condition ties none: rows of the other
        side have no key, and may match any of them.
    """

    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    conjuncts: tuple[Expr, ...]
    band: tuple[float, float] | None = None
    share: float | None = None
    grouped: str | None = None

    def side_keys(self, side: str) -> tuple[Expr, ...]:
        """The key of a side."""
        return self.left if side == LEFT else self.right

    def names(self, side: str) -> set[str]:
        """The columns that the key of a side needs."""
        return {name for key in self.side_keys(side) for _, name in columns(key)}

    def text(self, names: Mapping[str, str]) -> str:
        """The conjuncts, or keys of groups, with the sides called by these names."""
        if self.grouped is not None:
            return "groups of " + ", ".join(
                show(key, names) for key in self.side_keys(self.grouped)
            )
        return " AND ".join(show(conjunct, names) for conjunct in self.conjuncts)

    def are_keys_of_groups(self, query: JoinQuery) -> bool:
        """Whether all rows of a group have one key; so of rows that wait for a time key."""
        planned = plan(query)
        if query.aggregation is None or planned.closing_key is None:
            return True
        (side,) = planned.decided_once
        return set(self.side_keys(side)) <= set(query.aggregation.keys)


def routing_keys(
    predicate: Expr, wanted: Mapping[str, frozenset[str]] | None = None
) -> RoutingKeys | None:
    """The keys of a predicate: all that it compares by =, or else its first band; None if none.

    Parameters
    ----------
    predicate : Expr
    wanted : mapping of side to set of columns, optional
        Only keys over exactly these columns.
    """

    def suits(keys: RoutingKeys) -> bool:
        return wanted is None or all(keys.names(side) == wanted[side] for side in (LEFT, RIGHT))

    equal = list(_equalities(predicate))
    if wanted is not None:
        sides = (LEFT, RIGHT)
        equal = [one for one in equal if all(one.names(side) <= wanted[side] for side in sides)]
    candidates = [_all_of(equal)] if equal else []
    return next(filter(suits, chain(candidates, _bands(predicate), _float_bands(predicate))), None)


def group_keys(query: JoinQuery) -> RoutingKeys | None:
    """The keys of a stream's groups, by which rows that wait for them are dealt; None without any.

    What says when groups are complete is left out where there are other keys, so that groups of one
    key stay together from time to time.
    """
    planned = plan(query)
    closing = planned.closing_key
    if closing is None or query.aggregation is None:
        return None
    (side,) = planned.decided_once
    named = [key for key in query.aggregation.keys if key.sides == {side}]
    keys = tuple(key for key in named if key is not query.aggregation.keys[closing.index])
    keys = keys or tuple(named)
    left, right = (keys, ()) if side == LEFT else ((), keys)
    return RoutingKeys(left, right, (), grouped=side)


def _all_of(parts: Sequence[RoutingKeys]) -> RoutingKeys:
    """Several equalities as one."""
    left, right = (tuple(one.side_keys(side)[0] for one in parts) for side in (LEFT, RIGHT))
    return RoutingKeys(left, right, tuple(one.conjuncts[0] for one in parts))


def _equalities(predicate: Expr) -> Iterator[RoutingKeys]:
    """The equalities of the outermost AND."""
    for conjunct, left, right in equalities(conjuncts_of(predicate), LEFT):
        if right.sides:
            yield RoutingKeys((left,), (right,), (conjunct,))


def _bands(predicate: Expr) -> Iterator[RoutingKeys]:
    """Keys whose difference lies between two integers, also where that only follows."""
    for key in search_of(predicate, RIGHT).keys:
        right, span = key.test.key, _span(key.test.lo, key.test.hi)
        if span is not None and right.type.is_integral and right.sides == {RIGHT}:
            left, low, high = span
            yield RoutingKeys((left,), (right,), (key.conjunct,), (low, high))


def _float_bands(predicate: Expr) -> Iterator[RoutingKeys]:
    for one in float_bands(predicate):
        band = (one.low, one.high)
        yield RoutingKeys((one.left,), (one.right,), one.conjuncts, band, one.share)


def _span(lows: tuple[Bound, ...], highs: tuple[Bound, ...]) -> tuple[Expr, int, int] | None:
    """A left key, and how far below and above it the bounds lie."""
    for low in lows:
        for high in highs:
            if not all(b.expr.type.is_integral and not b.after for b in (low, high)):
                continue
            a, b = linear(low.expr), linear(high.expr)
            if a.terms and dict(a.terms) == dict(b.terms):
                # The bounds themselves may not belong to it, which is no matter.
                return total(Linear(a.terms, 0)), a.constant, b.constant
    return None
