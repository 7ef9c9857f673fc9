"""Step of MNRT that unloads an overloaded lane (UNLOADSELECT of Algorithm 4)."""

from __future__ import annotations

import numpy as np

from .assignment import Assignment

#: Order of unloading: parts that can merge (return, transfer, leave), whole keys that return or
#: are transferred, all others.
_RANKS = range(6)
_WHOLE = 3


def unload(state: Assignment, lane: int, keep: int | None = None) -> None:
    """Move keys from a lane into the pool until it has no more than the limit.

    Keys that may merge elsewhere go first, then keys that are not at home, then all others; of
    each kind the largest that are not more than the excess. Load that is still above the limit is
    cut from the key that is cheapest to send twice. A key larger than the limit fills the lane
    alone.

    Parameters
    ----------
    state : Assignment
    lane : int
        If it is closed, all it has is taken.
    keep : int, optional
        A split key that was just put on the lane, and stays.
    """
    if not state.is_open[lane]:
        for key in list(state.on[lane]):
            state.take_part(key, lane, state.parts[key][lane])
        state.take_rows(lane, np.arange(len(state.rows_of(lane))))
        return
    if keep is None:
        keep = _hot_key(state, lane)
        if keep is not None:
            state.take_part(keep, lane, state.parts[keep][lane] - state.limit)
    split = sorted(
        (_rank(state, key, lane), -state.parts[key][lane], key)
        for key in state.on[lane]
        if key != keep
    )
    for rank in _RANKS:
        for _, negative, key in (each for each in split if each[0] == rank):
            if 0 < -negative <= state.load[lane] - state.limit:
                state.take_part(key, lane, -negative)
        if rank >= _WHOLE and state.load[lane] > state.limit:
            _take_whole(state, lane, rank)
    if state.load[lane] > state.limit:
        _cut(state, lane, keep)


def _hot_key(state: Assignment, lane: int) -> int | None:
    """Return the largest key on a lane if it is above the limit, else None."""
    largest = max(((state.parts[key][lane], key) for key in state.on[lane]), default=(0, -1))
    rows = state.rows_of(lane)
    if len(rows) and state.loads.load[rows[0]] > max(state.limit, largest[0]):
        return state.loosen(int(rows[0]), lane)
    return largest[1] if largest[0] > state.limit else None


def _rank(state: Assignment, key: int, lane: int) -> int:
    home = state.home(key)
    mergeable = [each for each in state.parts[key] if each != lane and state.below_mean(each)]
    if mergeable:
        return 2 if home == lane else 0 if home in mergeable else 1
    return 5 if home == lane else 3 if state.below_mean(home) else 4


def _take_whole(state: Assignment, lane: int, rank: int) -> None:
    rows = state.rows_of(lane)
    homes = state.loads.homes[state.loads.key[rows]]
    below = np.array([state.below_mean(each) for each in range(state.loads.lanes)])
    ranks = np.where(homes == lane, 5, np.where(below[homes], 3, 4))
    places = np.flatnonzero(ranks == rank)
    fits = largest_that_fit(state.loads.load[rows[places]], state.load[lane] - state.limit)
    if len(fits):
        state.take_rows(lane, places[fits])


def _cut(state: Assignment, lane: int, keep: int | None) -> None:
    """Cut the excess off one key, since every key left is larger than it."""
    excess = state.load[lane] - state.limit
    choice = [
        (sum(state.parts[key].values()) + state.pieces.get(key, 0), key, -1)
        for key in state.on[lane]
        if key != keep and state.parts[key][lane] > excess
    ]
    rows = state.rows_of(lane)
    load = state.loads.load[rows]
    last = int(np.searchsorted(-load, -excess, "left")) - 1
    if last >= 0:
        choice.append((int(load[last]), -1, int(rows[last])))
    _, key, row = min(choice)
    state.take_part(state.loosen(row, lane) if row >= 0 else key, lane, excess)


def largest_that_fit(amounts: np.ndarray, most: int) -> np.ndarray:
    """Choose amounts from the largest on, each that fits into the room left; returns their places.

    It works run by run: neighbours that fit together, then the next one that fits.

    Parameters
    ----------
    amounts : ndarray of int64
        The largest first.
    most : int
        Room for all of them.
    """
    sums, falling = np.cumsum(amounts), -amounts
    runs, at = [], 0
    while most > 0:
        at = max(at, int(np.searchsorted(falling, -most, "left")))
        if at >= len(amounts):
            break
        before = int(sums[at - 1]) if at else 0
        stop = int(np.searchsorted(sums, before + most, "right"))
        runs.append(np.arange(at, stop))
        most -= int(sums[stop - 1]) - before
        at = stop
    return np.concatenate(runs) if runs else np.zeros(0, np.int64)
