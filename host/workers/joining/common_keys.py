"""Which of many rows have a key that some of few rows have, too."""

from __future__ import annotations

import numpy as np

from penstock.plan.routing_keys import RoutingKeys

from ...rows.sides import SideRows
from .sharing import key_hashes

#: Marks for each of the few, at least: one in so many of the many is found in vain. Of all, at
#: most so many that a processor's cache holds them.
_MARKS, _LEAST_BITS, _MOST_BITS = 16, 10, 22
#: How many times as many the many must be for the search to be worth it.
_WORTH = 4

#: The upper half of the hash of a key of each row, and which rows have one; None if all do.
Keys = tuple[np.ndarray, np.ndarray | None]


class CommonKeys:
    """Finds rows by their keys.

    Parameters
    ----------
    keys : RoutingKeys
    """

    def __init__(self, keys: RoutingKeys) -> None:
        self._keys = keys

    def of(self, side: str, rows: SideRows) -> Keys:
        """Return the keys of rows of a side."""
        hashes, valid = key_hashes(self._keys, side, rows.columns, len(rows))
        return (hashes >> np.uint64(32)).astype(np.uint32), valid


def is_worth(few: int, many: int) -> bool:
    """Whether so many rows are to be searched for keys of so few."""
    return _WORTH * few < many


class KeyMarks:
    """The keys of a few rows.

    Parameters
    ----------
    few : Keys
    """

    def __init__(self, few: Keys) -> None:
        hashes, valid = few
        bits = (_MARKS * len(hashes)).bit_length()
        self._shift = np.uint32(32 - min(max(bits, _LEAST_BITS), _MOST_BITS))
        self._marks = np.zeros(1 << (32 - int(self._shift)), bool)
        self._marks[(hashes if valid is None else hashes[valid]) >> self._shift] = True

    def find(self, many: Keys) -> np.ndarray:
        """Return the places of rows that have such a key, ascending, and of some that have not."""
        hashes, valid = many
        found = self._marks[hashes >> self._shift]
        return np.flatnonzero(found if valid is None else found & valid)
