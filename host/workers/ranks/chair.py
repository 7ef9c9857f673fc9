"""Chair of the ranks: at rank 0, decides when all ranks cut and when a cut is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Begin:
    """Decision that all ranks cut.

    Parameters
    ----------
    number : int
    is_last : bool
        Whether all ranks have ended, so that no cut follows.
    """

    number: int
    is_last: bool


@dataclass(frozen=True)
class Over:
    """Decision that a cut is over, since all ranks have given their parts: it can be committed.

    Parameters
    ----------
    number : int
    parts : tuple
        By rank.
    is_last : bool
    """

    number: int
    parts: tuple[Mapping[str, Any], ...]
    is_last: bool


class Chair:
    """Pure state machine of the chair: which ranks have ended, or given their part of a cut.

    Parameters
    ----------
    size : int
    number : int
        Of the last record, 0 without one.
    """

    def __init__(self, size: int, number: int) -> None:
        self._size = size
        self._number = number
        self._is_wanted = self._is_over = False
        self._ended: set[int] = set()
        self._begun: Begin | None = None
        self._parts: dict[int, Mapping[str, Any]] = {}

    def want(self) -> None:
        """Note that a rank wants a cut."""
        self._is_wanted = True

    def end(self, rank: int) -> None:
        """Note that a rank takes no more input."""
        self._ended.add(rank)

    def part(self, rank: int, number: int, part: Mapping[str, Any]) -> None:
        """Note a rank's part of the cut that is under way."""
        assert self._begun is not None
        assert self._begun.number == number
        self._parts[rank] = part

    def turn(self) -> Begin | Over | None:
        """Return the next decision for all ranks; None if there is none.

        Ranks may hear that a cut is over only once it is committed.
        """
        if self._is_over:
            return None
        if self._begun is None:
            is_last = len(self._ended) == self._size
            if not (is_last or self._is_wanted):
                return None
            self._number += 1
            self._is_wanted = False
            self._begun = Begin(self._number, is_last)
            return self._begun
        if len(self._parts) < self._size:
            return None
        parts = tuple(self._parts[rank] for rank in range(self._size))
        over = Over(self._number, parts, self._begun.is_last)
        self._parts, self._begun, self._is_over = {}, None, over.is_last
        return over
