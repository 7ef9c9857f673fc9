"""Loads of keys on lanes (the paper's L), as flat arrays with a row for each part of a key."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.errors import DataError

from .checked_arrays import amounts, below, checked_lanes

if TYPE_CHECKING:
    from .moves import Draft

#: Doubles below it are exact integers, and so are their sums.
_EXACT = 1 << 53


class Loads:
    """Parts of keys on lanes, with their loads; immutable.

    A key that is split over two lanes has two rows. Keys are dense numbers: those of their cells.

    Parameters
    ----------
    key, lane, load : array_like of int, shape (parts,)
        In any order.
    size : array_like of int, shape (parts,), optional
        State that moves with a part; if not given, as much as its load.
    homes : array_like of int, shape (keys,)
        Where base routing sends each key, those without a row, too.
    lanes : int

    Attributes
    ----------
    key, lane, load, size : ndarray of int64, shape (parts,)
        In the order of key and lane.
    homes : ndarray of int64, shape (keys,)

    Raises
    ------
    DataError
        A load or size is negative, NaN, no whole number or beyond 64 bits, alone or in the sum; a
        key has two rows for one lane; a key or lane is unknown.
    UsageError
        There is no lane.
    """

    def __init__(
        self, key: Any, lane: Any, load: Any, size: Any = None, *, homes: Any, lanes: int
    ) -> None:
        self.lanes = checked_lanes(lanes)
        self.homes = below(homes, "home", self.lanes, "a lane: there are {} of them, from 0 on")
        self.key = below(key, "key", len(self.homes), "a key with a home: there are {}, from 0 on")
        self.lane = below(lane, "lane", self.lanes, "a lane: there are {} of them, from 0 on")
        self.load = amounts(load, "load")
        self.size = self.load if size is None else amounts(size, "size")
        lengths = {len(each) for each in (self.key, self.lane, self.load, self.size)}
        if len(lengths) > 1:
            raise DataError(
                f"parts have {len(self.key)} keys, {len(self.lane)} lanes, {len(self.load)} loads "
                f"and {len(self.size)} sizes; give one of each per part"
            )
        self._put_in_order()

    def _put_in_order(self) -> None:
        rising = self.key[1:] > self.key[:-1]
        if not rising.all():
            same = self.key[1:] == self.key[:-1]
            if not (rising | (same & (self.lane[1:] > self.lane[:-1]))).all():
                order = np.lexsort((self.lane, self.key))
                self.key, self.lane = self.key[order], self.lane[order]
                self.load, self.size = self.load[order], self.size[order]
            twice = (self.key[1:] == self.key[:-1]) & (self.lane[1:] == self.lane[:-1])
            if twice.any():
                at = int(np.argmax(twice))
                raise DataError(
                    f"key {self.key[at]} has two parts on lane {self.lane[at]}; add them up"
                )

    @classmethod
    def _unchecked(cls, columns: tuple[np.ndarray, ...], homes: np.ndarray, lanes: int) -> Loads:
        """Make loads of parts that are valid and in order, without checks."""
        loads = cls.__new__(cls)
        loads.key, loads.lane, loads.load, loads.size = columns
        loads.homes, loads.lanes = homes, lanes
        return loads

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def total(self) -> int:
        """Load of all lanes."""
        return int(self.load.sum())

    @cached_property
    def by_lane(self) -> np.ndarray:
        """Load of each lane, ndarray of int64, shape (lanes,)."""
        return sums(self.lane, self.load, self.lanes, self.total)

    @cached_property
    def whole(self) -> np.ndarray:
        """Whether each part is all of its key, ndarray of bool, shape (parts,)."""
        is_whole = np.ones(len(self), bool)
        same = self.key[1:] == self.key[:-1]
        is_whole[1:] &= ~same
        is_whole[:-1] &= ~same
        return is_whole

    @property
    def copies(self) -> int:
        """O4: tuples that are sent more than once, the sum over keys of load x (parts - 1)."""
        split = np.flatnonzero(~self.whole)
        if not len(split):
            return 0
        first = np.flatnonzero(np.diff(self.key[split], prepend=-1))
        load = np.add.reduceat(self.load[split], first)
        parts = np.diff(np.append(first, len(split)))
        return sum(map(int.__mul__, load.tolist(), (parts - 1).tolist()))

    def after(self, moves: Draft) -> Loads:
        """Return the loads after some moves.

        Parameters
        ----------
        moves : Draft
            Of parts of these loads.
        """
        row, amount, size, target = moves
        simple = self.whole[row] & (amount == self.load[row]) & (size == self.size[row])
        lane = self.lane.copy()
        lane[row[simple]] = target[simple]
        columns = self.key, lane, self.load, self.size
        if simple.all():
            return self._unchecked(columns, self.homes, self.lanes)
        row, amount, size, target = (each[~simple] for each in moves)
        keys = np.unique(self.key[row])
        begin, end = np.searchsorted(self.key, keys), np.searchsorted(self.key, keys, "right")
        old = spans(begin, end)
        load_left, size_left = self.load[old], self.size[old]
        at = np.searchsorted(old, row)
        np.subtract.at(load_left, at, amount)
        np.subtract.at(size_left, at, size)
        stays = (load_left > 0) | (size_left > 0)
        stays[np.setdiff1d(np.arange(len(old)), at)] = True
        parts = _add_up(
            np.concatenate([self.key[old[stays]], self.key[row]]),
            np.concatenate([self.lane[old[stays]], target]),
            np.concatenate([load_left[stays], amount]),
            np.concatenate([size_left[stays], size]),
        )
        kept = np.ones(len(self), bool)
        kept[old] = False
        left = [each[kept] for each in columns]
        place = np.searchsorted(left[0], parts[0])
        merged = (np.insert(each, place, new) for each, new in zip(left, parts, strict=True))
        return self._unchecked(tuple(merged), self.homes, self.lanes)


def _add_up(
    key: np.ndarray, lane: np.ndarray, load: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Add up the parts of each key on each lane; returns one part for them, in order."""
    order = np.lexsort((lane, key))
    key, lane = key[order], lane[order]
    first = np.flatnonzero((np.diff(key, prepend=-1) != 0) | (np.diff(lane, prepend=-1) != 0))
    loads, sizes = (np.add.reduceat(each[order], first) for each in (load, size))
    return key[first], lane[first], loads, sizes


def spans(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return all numbers of ranges ``[begin, end)``, one range after the other."""
    counts = end - begin
    before = np.cumsum(counts) - counts
    return np.repeat(begin - before, counts) + np.arange(int(counts.sum()))


def sums(group: np.ndarray, values: np.ndarray, groups: int, total: int) -> np.ndarray:
    """Return the exact sum of the values of each group, given the total of all."""
    if total < _EXACT:
        return np.bincount(group, values, groups).astype(np.int64)
    result = np.zeros(groups, np.int64)
    for bits in (0, 21, 42):
        limb = np.bincount(group, (values >> bits) & 0x1FFFFF, groups)
        result += limb.astype(np.int64) << bits
    return result
