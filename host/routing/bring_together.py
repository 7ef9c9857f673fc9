"""Last pass of MNRT: merges split keys, and returns keys home, wherever that fits."""

from __future__ import annotations

import numpy as np

from .assignment import Assignment


def merge(state: Assignment) -> None:
    """Merge each split key onto one of its lanes, the least first, until none fits."""
    merged = True
    while merged:
        merged = False
        for total, key in state.split_keys():
            for lane in lanes_of(state, key):
                if state.load[lane] + total - state.parts[key][lane] <= state.limit:
                    state.gather(key, lane)
                    merged = True
                    break


def lanes_of(state: Assignment, key: int) -> list[int]:
    """Return the lanes that have parts of a key: home first, then by falling size of the part."""
    parts, home = state.parts[key], state.home(key)
    lanes = filter(state.is_open.__getitem__, parts)
    return sorted(lanes, key=lambda lane: (lane != home, -parts[lane], lane))


def return_home(state: Assignment) -> bool:
    """Send whole keys home where they fit, the least first; returns whether any went."""
    loads = state.loads
    rows, lanes = state.away()
    order = np.lexsort((loads.load[rows], loads.homes[loads.key[rows]]))
    rows, lanes = rows[order], lanes[order]
    homes, load = loads.homes[loads.key[rows]], loads.load[rows]
    sums = np.cumsum(load)
    first = np.flatnonzero(np.diff(homes, prepend=-1))
    before = np.repeat((sums - load)[first], np.diff(np.append(first, len(rows))))
    fits = sums - before <= (state.limit - np.array(state.load))[homes]
    state.send_home(rows[fits], lanes[fits])
    went = bool(fits.any())
    for key, parts in state.parts.items():
        if len(parts) == 1:
            (lane, amount), home = next(iter(parts.items())), state.home(key)
            if lane != home and state.load[home] + amount <= state.limit:
                state.load[lane] -= amount
                state.load[home] += amount
                state.on[lane].discard(key)
                state.on[home].add(key)
                state.parts[key] = {home: amount}
                went = True
    return went
