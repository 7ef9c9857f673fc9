"""Step of MNRT that is ours: smaller keys move or are split, to make room for a split key."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .assignment import Assignment
from .bring_together import lanes_of

#: Split keys that room is made for, the largest, and keys that leave for one of them at most.
_KEYS, _LEAVE = 256, 64
#: Whole keys of a lane among which a swap is looked for.
_SWAP_AMONG = 4096


class _Exchange(NamedTuple):
    """Moves that make room: whole keys as (row, from, to), and one cut as (key, load, to).

    In a cut, a key that is still whole is named by the complement of its row.
    """

    moves: list[tuple[int, int, int]]
    cut: tuple[int, int, int] | None = None


def make_room(state: Assignment) -> None:
    """Merge parts of split keys where whole keys, or smaller cuts, can make room for that.

    It ends, since each change lowers O4, the tuples that are sent more than once.
    """
    changed = True
    while changed:
        changed = False
        for total, key in state.split_keys()[: -_KEYS - 1 : -1]:
            while _join_parts(state, key, total):
                changed = True


def _join_parts(state: Assignment, key: int, total: int) -> bool:
    """Merge two parts of a key, if other keys can leave one of their lanes for that."""
    parts = state.parts.get(key, {})
    for lane in lanes_of(state, key) if len(parts) > 1 else ():
        for source in sorted(parts, key=lambda each: (parts[each], each)):
            if source != lane and _join(state, key, total, source, lane):
                return True
    return False


def _join(state: Assignment, key: int, total: int, source: int, lane: int) -> bool:
    comes = state.parts[key][source]
    if state.parts[key][lane] + comes > state.limit:
        return False
    need = state.load[lane] + comes - state.limit
    room = {
        other: state.limit - state.load[other] + comes * (other == source)
        for other in range(state.loads.lanes)
        if other != lane and state.is_open[other]
    }
    exchange: _Exchange | None = _Exchange([])
    if need > 0:
        exchange = (
            _one_leaves(state, lane, need, room)
            or _swap(state, lane, need, room)
            or _split_one_leaves(state, key, lane, need, room)
            or _some_leave(state, lane, need, room, total)
        )
    if exchange is None:
        return False
    state.shift(key, source, lane, comes)
    for row, begin, end in exchange.moves:
        state.move_row(row, begin, end)
    if exchange.cut:
        other, amount, target = exchange.cut
        state.shift(other if other >= 0 else state.loosen(~other, lane), lane, target, amount)
    return True


def _one_leaves(state: Assignment, lane: int, need: int, room: dict[int, int]) -> _Exchange | None:
    """Find the least whole key whose leaving makes enough room."""
    rows = state.rows_of(lane)
    loads = state.loads.load[rows]
    at = int(np.searchsorted(-loads, -need, "right")) - 1
    if at < 0:
        return None
    fits = [(free, other) for other, free in room.items() if free >= loads[at]]
    return _Exchange([(int(rows[at]), lane, min(fits)[1])]) if fits else None


def _swap(state: Assignment, lane: int, need: int, room: dict[int, int]) -> _Exchange | None:
    """Find the least whole key that makes enough room in exchange for a smaller one."""
    rows = state.rows_of(lane)
    if len(rows) > _SWAP_AMONG:
        return None
    loads = state.loads.load[rows]
    swaps = []
    for other, free in room.items():
        theirs = state.rows_of(other)
        if free < need or not 0 < len(theirs) <= _SWAP_AMONG:
            continue
        back = state.loads.load[theirs]
        at = np.searchsorted(-back, need - loads)
        fits = at < len(back)
        fits[fits] &= (loads[fits] - back[at[fits]]) <= free
        if fits.any():
            best = int(np.flatnonzero(fits)[-1])
            swaps.append((int(loads[best]), int(rows[best]), int(theirs[at[best]]), other))
    if not swaps:
        return None
    _, row, back_row, other = min(swaps)
    return _Exchange([(row, lane, other), (back_row, other, lane)])


def _split_one_leaves(
    state: Assignment, key: int, lane: int, need: int, room: dict[int, int]
) -> _Exchange | None:
    """Find another split key with a part elsewhere that can take enough of its load."""
    choices = [
        (state.parts[other][lane], other, target)
        for other in state.on[lane]
        if other != key and state.parts[other][lane] >= need
        for target in state.parts[other]
        if room.get(target, 0) >= need
    ]
    if not choices:
        return None
    _, other, target = min(choices)
    return _Exchange([], (other, need, target))


def _some_leave(
    state: Assignment, lane: int, need: int, room: dict[int, int], saves: int
) -> _Exchange | None:
    """Find several whole keys to move, and one to split that costs less O4 than the merge saves."""
    rows = state.rows_of(lane)
    loads = state.loads.load[rows]
    room = dict(room)
    stays = np.ones(len(rows), bool)
    moves: list[tuple[int, int, int]] = []
    at = 0
    while need > 0 and room and len(moves) < _LEAVE:
        at = max(at, int(np.searchsorted(-loads, -min(max(room.values()), need))))
        if at >= len(rows) or not loads[at]:
            break
        amount = int(loads[at])
        _, other = min((free, other) for other, free in room.items() if free >= amount)
        moves.append((int(rows[at]), lane, other))
        room[other] -= amount
        need -= amount
        stays[at] = False
        at += 1
    if need <= 0:
        return _Exchange(moves)
    free, other = max(((free, other) for other, free in room.items()), default=(0, -1))
    enough = np.flatnonzero(stays & (loads > need) & (loads < saves))
    if free < need or not len(enough):
        return None
    return _Exchange(moves, (~int(rows[enough[-1]]), need, other))
