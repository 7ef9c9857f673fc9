"""Step of MNRT that places unloaded keys on lanes (LOADINGSELECT of Algorithm 4)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

import numpy as np

from .assignment import Assignment
from .unloading import largest_that_fit, unload

#: Whole keys that are placed one by one, the largest first; smaller keys are placed in bulk.
_ONE_BY_ONE = 2048
#: A key may overfill a lane if its load is at least so many times the load that then must leave. On
#: the benchmark's grid 10 moves 1.08 times the least load; 3 moves 1.10 times that, for 5 % fewer
#: copies.
_WORTH = 10


def place(state: Assignment) -> None:
    """Place all keys of the pool on lanes.

    Keys that fit are placed whole. The largest of the others goes to the lane with the most room.
    Where little has to leave that lane in return, it is put there whole and other keys go back to
    the pool, at most once for this key and lane; else the key is cut. There is always room: if no
    lane were below the mean, the pool would be empty.
    """
    overfilled: set[tuple[int, int]] = set()
    while len(left := _place_fitting(state)) or state.pieces:
        load = state.loads.load[left]
        amount, key = max(((a, k) for k, a in state.pieces.items()), default=(0, -1))
        if len(left) and load.max() > amount:
            at = int(np.argmax(load))
            amount, key = state.loosen_pooled(int(left[at]))
            left = np.delete(left, at)
        state.pool.append(left)
        parts = state.parts[key]
        room, lane = max(state.rooms(), key=lambda each: each[0] + parts.get(each[1], 0))
        put = min(amount, state.limit - parts.get(lane, 0))
        leaves = state.load[lane] + put - state.limit
        if (key, lane) not in overfilled and leaves * _WORTH <= put:
            overfilled.add((key, lane))
            state.put_piece(key, lane, put)
            unload(state, lane, keep=key)
        else:
            state.put_piece(key, lane, min(room, amount))


def _place_fitting(state: Assignment) -> np.ndarray:
    """Place keys whole where they fit below the limit; returns the rows that do not fit.

    Pieces that can merge come first, then keys that can return home, then all others. Of each, the
    larger come first, and go where they leave the least room.
    """
    _merge_pieces(state)
    loads = state.loads.load
    rows = np.concatenate([*state.pool, np.zeros(0, np.int64)])
    state.pool = []
    rows = _return(state, rows[np.argsort(-loads[rows], kind="stable")])
    large, small = rows[:_ONE_BY_ONE], rows[_ONE_BY_ONE:]
    waiting = [(int(loads[row]), row, -1) for row in large.tolist()]
    waiting += [(amount, -1, key) for key, amount in state.pieces.items()]
    left = _one_by_one(state, sorted(waiting, reverse=True))
    unplaced = _in_bulk(state, small)
    left += _one_by_one(state, ((int(loads[row]), row, -1) for row in unplaced.tolist()))
    return np.array(left, np.int64)


def _merge_pieces(state: Assignment) -> None:
    """Put pieces where their key has a part, and pieces without load home."""
    for key, amount in sorted(state.pieces.items(), key=lambda each: (-each[1], each[0])):
        home = state.home(key)
        fits = [
            (lane != home, state.limit - state.load[lane], lane)
            for lane in state.parts[key]
            if state.below_mean(lane) and state.load[lane] + amount <= state.limit
        ]
        if fits or not amount:
            state.put_piece(key, min(fits)[2] if amount else home, amount)


def _return(state: Assignment, rows: np.ndarray) -> np.ndarray:
    """Return whole keys home that were elsewhere, where they fit; gives back the other rows."""
    homes = state.loads.homes[state.loads.key[rows]]
    loads = state.loads.load[rows]
    came = (state.loads.lane[rows] != homes) & (loads > 0)
    left = np.ones(len(rows), bool)
    for lane in np.unique(homes).tolist():
        at = np.flatnonzero((homes == lane) & (loads == 0))
        if state.below_mean(lane):
            mine = np.flatnonzero(came & (homes == lane))
            fits = largest_that_fit(loads[mine], state.limit - state.load[lane])
            at = np.concatenate([at, mine[fits]])
        if len(at):
            state.put_rows(rows[at], lane)
            left[at] = False
    return rows[left]


def _one_by_one(state: Assignment, waiting: Iterable[tuple[int, int, int]]) -> list[int]:
    """Put each (load, row, key) where it fits most tightly; returns the rows that do not fit."""
    rooms = state.rooms()
    left = []
    for amount, row, key in waiting:
        at = bisect_left(rooms, (amount, -1))
        if at == len(rooms):
            left += [row] if row >= 0 else []
            continue
        room, lane = rooms.pop(at)
        if row >= 0:
            state.put_rows(np.array([row]), lane)
        else:
            state.put_piece(key, lane, amount)
        if state.below_mean(lane):
            insort(rooms, (room - amount, lane))
    return left


def _in_bulk(state: Assignment, rows: np.ndarray) -> np.ndarray:
    """Lay whole keys end to end over the room of all lanes.

    Returns the rows of keys that would lie on two lanes, which are not placed.
    """
    rooms = state.rooms()[::-1]
    if not rooms or not len(rows):
        return rows
    ends = np.cumsum([room for room, _ in rooms])
    load = state.loads.load[rows]
    stop = np.cumsum(load)
    at = np.searchsorted(ends, stop - load, "right")
    fits = (at < len(rooms)) & (at == np.searchsorted(ends, stop, "left"))
    # What lies beyond the end of the last room comes last.
    bounds = np.searchsorted(at, np.arange(len(rooms) + 1))
    for place, (_, lane) in enumerate(rooms):
        mine = slice(bounds[place], bounds[place + 1])
        state.put_rows(rows[mine][fits[mine]], lane)
    return rows[~fits]
