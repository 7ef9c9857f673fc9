"""Arrival numbers of tuples, and their 32-bit form with a wrap flag (paper 1, section 3.3).

A number says when a tuple came, among all tuples of both sides. In stored columns it takes 32 bits:
31 that count and a flag that changes with each round. Two ids are in order as long as less than a
round lies between them.
"""

from __future__ import annotations

import numpy as np

#: Ids of one round.
ROUND = 1 << 31


class TupleIds:
    """Gives arrival numbers, from 0 or any other start on."""

    def __init__(self, start: int = 0) -> None:
        self.following = start

    def next(self, count: int) -> np.ndarray:
        """The next ``count`` numbers, int64."""
        first = self.following
        self.following += count
        return np.arange(first, first + count, dtype=np.int64)


def packed(numbers: np.ndarray) -> np.ndarray:
    """Ids of arrival numbers: the low 31 bits, and the parity of the round on top.

    Parameters
    ----------
    numbers : ndarray of int64

    Returns
    -------
    ndarray of uint32
    """
    return (numbers & 0xFFFFFFFF).astype(np.uint32)


def unpacked(ids: np.ndarray, latest: int) -> np.ndarray:
    """Arrival numbers of ids, none of which is above ``latest`` or a round or more below it.

    Parameters
    ----------
    ids : ndarray of uint32
    latest : int
        An arrival number.

    Returns
    -------
    ndarray of int64
    """
    behind = (np.uint32(latest & 0xFFFFFFFF) - ids).astype(np.uint32)
    return np.int64(latest) - behind.astype(np.int64)
