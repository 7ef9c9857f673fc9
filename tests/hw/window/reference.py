"""Reference of the window join: the results of any build for the tuples that it admitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from penstock.hw.window.layout import Side

T = TypeVar("T")


def join(
    admitted: Iterable[tuple[Side, T]],
    rows_a: int,
    rows_b: int,
    joins: Callable[[T, T, Side], bool],
) -> Iterator[tuple[T, T, Side]]:
    """Brute force over tuples in the order of their admission.

    Parameters
    ----------
    admitted : iterable of (Side, tuple)
        The tuples, in order.
    rows_a, rows_b : int
        Sizes of the windows over A and over B.
    joins : callable
        Takes a tuple of A, one of B, and the side of the later one; whether they are joined.

    Yields
    ------
    tuple
        Tuple of A, tuple of B, and the side of the later one; in the order of the later, then of
        the earlier one.
    """
    seen: dict[Side, list[T]] = {Side.A: [], Side.B: []}
    rows = {Side.A: rows_a, Side.B: rows_b}
    for side, item in admitted:
        window = seen[side.other]
        for old in window[max(len(window) - rows[side.other], 0) :]:
            a, b = (item, old) if side is Side.A else (old, item)
            if joins(a, b, side):
                yield a, b, side
        seen[side].append(item)
