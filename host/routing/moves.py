"""Moves of a plan (the paper's MP): which part moves, how much of it, and where to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .loads import Loads


class Draft(NamedTuple):
    """Moves of a plan, each naming its part by the row in the :class:`Loads` it is made for.

    Attributes
    ----------
    row, amount, size, target : ndarray of int64, shape (moves,)
        The part, how much load and state of it move, and the lane that gets it.
    """

    row: np.ndarray
    amount: np.ndarray
    size: np.ndarray
    target: np.ndarray


@dataclass(frozen=True)
class KeyMoves:
    """Moves of a plan by key: the paper's MP, {key, amount, from, to}.

    Attributes
    ----------
    key, amount, size, source, target : ndarray of int64, shape (moves,)
        The key, how much load and state of it move, and the lanes that lose and get it.
    """

    key: np.ndarray
    amount: np.ndarray
    size: np.ndarray
    source: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.key)

    @classmethod
    def from_draft(cls, loads: Loads, draft: Draft) -> KeyMoves:
        """Return the moves of a draft, by keys and lanes."""
        row, amount, size, target = draft
        return cls(loads.key[row], amount, size, loads.lane[row], target)


def whole_parts(loads: Loads, row: np.ndarray, target: np.ndarray) -> Draft:
    """Return moves of whole parts."""
    return Draft(row, loads.load[row], loads.size[row], target)


def cut_parts(loads: Loads, cuts: Iterable[tuple[int, int, int]]) -> Draft:
    """Return moves of some of a part's load, each with the same share of its state.

    Parameters
    ----------
    loads : Loads
    cuts : iterable of (row, amount, target)
        A row may be cut many times, by at most its load in all.
    """
    left: dict[int, tuple[int, int]] = {}
    moves = []
    for row, amount, target in cuts:
        load, size = left.get(row) or (int(loads.load[row]), int(loads.size[row]))
        moved = size * amount // load if amount < load else size
        left[row] = load - amount, size - moved
        moves.append((row, amount, moved, target))
    return Draft(*np.array(moves, np.int64).reshape(-1, 4).T)


def together(*drafts: Draft) -> Draft:
    """Return the moves of some drafts as one draft."""
    return Draft(*(np.concatenate(column) for column in zip(*drafts, strict=True)))
