"""State of a plan that MNRT is making: keys on lanes, and the pool of keys that were unloaded."""

from __future__ import annotations

import numpy as np

from .loads import Loads
from .moves import Draft, cut_parts, together, whole_parts


class Assignment:
    """Keys on lanes, and unloaded keys in the pool (the paper's C); planning changes it.

    Whole keys, nearly all, stay in arrays: a row of the loads, and the lane it goes to. Keys that
    are split, or were once, are looked at one by one.

    Parameters
    ----------
    loads : Loads
        Before the plan.
    limit : int
        The largest load of a lane (the paper's UL).
    is_open : ndarray of bool, shape (lanes,)
        Lanes that may hold something.

    Attributes
    ----------
    load : list of int
        Of each lane.
    parts : dict
        Load by lane of each key that is split or was.
    on : list of set
        Keys in ``parts`` that have a part on each lane.
    pool : list of ndarray
        Rows of whole keys that were unloaded.
    pieces : dict
        Load of keys in ``parts`` that was unloaded.
    """

    def __init__(self, loads: Loads, limit: int, is_open: np.ndarray) -> None:
        self.loads = loads
        self.limit = limit
        self.is_open: list[bool] = is_open.tolist()
        self.open_lanes = sum(self.is_open)
        self.load: list[int] = loads.by_lane.tolist()
        self.parts: dict[int, dict[int, int]] = {}
        self.on: list[set[int]] = [set() for _ in range(loads.lanes)]
        self.pool: list[np.ndarray] = []
        self.pieces: dict[int, int] = {}
        self._target = np.full(len(loads), -1, np.int64)
        self._rows: dict[int, np.ndarray] = {}
        self._came: dict[int, list[np.ndarray]] = {}
        split = np.flatnonzero(~loads.whole)
        columns = (loads.key, loads.lane, loads.load)
        for key, lane, load in zip(*(each[split].tolist() for each in columns), strict=True):
            self.parts.setdefault(key, {})[lane] = load
            self.on[lane].add(key)
        self._split_before = set(self.parts)

    def below_mean(self, lane: int) -> bool:
        """Whether a lane is open and its load is below the mean, so that it may get keys."""
        return self.is_open[lane] and self.load[lane] * self.open_lanes < self.loads.total

    def rooms(self) -> list[tuple[int, int]]:
        """Return lanes below the mean and how much each may get: (room, lane), tightest first."""
        lanes = filter(self.below_mean, range(self.loads.lanes))
        return sorted((self.limit - self.load[lane], lane) for lane in lanes)

    def home(self, key: int) -> int:
        """Return the home lane of a key."""
        return int(self.loads.homes[key])

    def split_keys(self) -> list[tuple[int, int]]:
        """Return keys on more than one lane as (load, key), the least first; the pool is empty."""
        return sorted((sum(p.values()), key) for key, p in self.parts.items() if len(p) > 1)

    def rows_of(self, lane: int) -> np.ndarray:
        """Return the rows of the whole keys on a lane, the largest first."""
        rows, came = self._rows.get(lane), self._came.pop(lane, [])
        if rows is None:
            rows = np.flatnonzero((self.loads.lane == lane) & self.loads.whole)
        elif not came:
            return rows
        rows = np.concatenate([rows, *came])
        order = np.argsort(-self.loads.load[rows], kind="stable")
        self._rows[lane] = rows[order]
        return self._rows[lane]

    def take_rows(self, lane: int, places: np.ndarray) -> None:
        """Move whole keys from a lane into the pool, by their places in :meth:`rows_of`."""
        rows = self.rows_of(lane)
        self.pool.append(rows[places])
        self.load[lane] -= int(self.loads.load[rows[places]].sum())
        self._rows[lane] = np.delete(rows, places)

    def take_part(self, key: int, lane: int, amount: int) -> None:
        """Move some load of a split key from a lane into the pool."""
        self.parts[key][lane] -= amount
        if not self.parts[key][lane]:
            del self.parts[key][lane]
            self.on[lane].discard(key)
        self.load[lane] -= amount
        self.pieces[key] = self.pieces.get(key, 0) + amount

    def loosen(self, row: int, lane: int) -> int:
        """Track a whole key in ``parts`` from now on, so that it can be split; returns the key."""
        key = int(self.loads.key[row])
        rows = self.rows_of(lane)
        self._rows[lane] = rows[rows != row]
        self.parts[key] = {lane: int(self.loads.load[row])}
        self.on[lane].add(key)
        self._target[row] = -1
        return key

    def loosen_pooled(self, row: int) -> tuple[int, int]:
        """Turn a whole key of the pool into a piece, which can be split; returns load and key."""
        key, amount = int(self.loads.key[row]), int(self.loads.load[row])
        self.parts[key], self.pieces[key] = {}, amount
        self._target[row] = -1
        return amount, key

    def put_rows(self, rows: np.ndarray, lane: int) -> None:
        """Move whole keys from the pool onto a lane."""
        self._target[rows] = lane
        self._came.setdefault(lane, []).append(rows)
        self.load[lane] += int(self.loads.load[rows].sum())

    def move_row(self, row: int, source: int, lane: int) -> None:
        """Move a whole key."""
        rows = self.rows_of(source)
        self._rows[source] = rows[rows != row]
        self.load[source] -= int(self.loads.load[row])
        self.put_rows(np.array([row]), lane)

    def put_piece(self, key: int, lane: int, amount: int) -> None:
        """Move a piece, or some of it, from the pool onto a lane."""
        self.pieces[key] -= amount
        if not self.pieces[key]:
            del self.pieces[key]
        self.parts[key][lane] = self.parts[key].get(lane, 0) + amount
        self.on[lane].add(key)
        self.load[lane] += amount

    def shift(self, key: int, source: int, lane: int, amount: int) -> None:
        """Move some load of a split key from a lane to another."""
        self.take_part(key, source, amount)
        self.put_piece(key, lane, amount)
        self._tighten(key)

    def gather(self, key: int, lane: int) -> None:
        """Bring all parts of a key onto one lane."""
        for source in [each for each in self.parts[key] if each != lane]:
            self.take_part(key, source, self.parts[key][source])
        if key in self.pieces:
            self.put_piece(key, lane, self.pieces[key])
        self._tighten(key)

    def _tighten(self, key: int) -> None:
        """Track a key by its row again once it is whole, unless it was split before the plan."""
        if len(self.parts[key]) == 1 and key not in self._split_before:
            (lane,) = self.parts.pop(key)
            self.on[lane].discard(key)
            row = np.searchsorted(self.loads.key, [key])
            self._target[row] = lane
            self._came.setdefault(lane, []).append(row)

    def away(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of whole keys that are not at home, and the lanes they are on."""
        now = np.where(self._target >= 0, self._target, self.loads.lane)
        elsewhere = self.loads.whole & (now != self.loads.homes[self.loads.key])
        loose = np.array([key for key in self.parts if key not in self._split_before], np.int64)
        elsewhere[np.searchsorted(self.loads.key, loose)] = False
        rows = np.flatnonzero(elsewhere)
        return rows, now[rows]

    def send_home(self, rows: np.ndarray, lanes: np.ndarray) -> None:
        """Move whole keys home from their lanes; :meth:`rows_of` is out of date afterwards."""
        homes = self.loads.homes[self.loads.key[rows]]
        change = np.zeros(self.loads.lanes, np.int64)
        np.add.at(change, homes, self.loads.load[rows])
        np.subtract.at(change, lanes, self.loads.load[rows])
        self.load = [load + more for load, more in zip(self.load, change.tolist(), strict=True)]
        self._target[rows] = homes

    def draft(self) -> Draft:
        """Return the fewest moves that lead from the loads before the plan to this state."""
        row = np.flatnonzero((self._target >= 0) & (self._target != self.loads.lane))
        cuts = [cut for key, parts in self.parts.items() for cut in self._cuts(key, parts)]
        return together(
            whole_parts(self.loads, row, self._target[row]), cut_parts(self.loads, cuts)
        )

    def _cuts(self, key: int, parts: dict[int, int]) -> list[tuple[int, int, int]]:
        begin, end = np.searchsorted(self.loads.key, [key, key + 1]).tolist()
        lanes = self.loads.lane[begin:end].tolist()
        held = dict(zip(lanes, self.loads.load[begin:end].tolist(), strict=True))
        gets = [(lane, load - held.get(lane, 0)) for lane, load in parts.items()]
        gets = [(lane, more) for lane, more in gets if more > 0]
        cuts = []
        for row, lane in enumerate(lanes, begin):
            gives = held[lane] - parts.get(lane, 0)
            if lane not in parts and not gives:  # state without load
                cuts.append((row, 0, min(parts)))
            while gives > 0:
                to, more = gets.pop()
                amount = min(gives, more)
                cuts.append((row, amount, to))
                gives -= amount
                if more > amount:
                    gets.append((to, more - amount))
        return cuts
