"""MNRT: a plan that splits few keys and keeps the table small (Algorithm 4)."""

from __future__ import annotations

import os
from bisect import bisect_left, insort

import numpy as np

from .loads import Loads
from .moves import Draft, cut_parts, together, whole_parts

#: Pieces that are placed one by one, the largest first; what is smaller is placed in bulk.
ONE_BY_ONE = 2048
PHI = float(os.environ.get("PHI", "0.25"))
OVER = int(os.environ.get("OVER", "0"))


class Shop:
    def __init__(self, loads: Loads, limit: int, is_open: np.ndarray) -> None:
        self.loads = loads
        self.limit = limit
        self.is_open = is_open.tolist()
        self.open = int(is_open.sum())
        self.load = loads.by_lane.tolist()
        self.target = np.full(len(loads), -1, np.int64)
        self.built: dict[int, np.ndarray] = {}
        self.added: dict[int, list[np.ndarray]] = {}
        self.pool: list[np.ndarray] = []
        self.pieces: dict[int, int] = {}
        self.overfilled: set[tuple[int, int]] = set()
        self.parts: dict[int, dict[int, int]] = {}
        self.on: list[set[int]] = [set() for _ in range(loads.lanes)]
        self.row_of: dict[int, int] = {}
        split = np.flatnonzero(~loads.whole)
        for key, lane, load in zip(
            loads.key[split].tolist(), loads.lane[split].tolist(), loads.load[split].tolist(),
            strict=True,
        ):
            self.parts.setdefault(key, {})[lane] = load
            self.on[lane].add(key)
        self.first = set(self.parts)

    # -- looking
    def below_mean(self, lane: int) -> bool:
        return self.is_open[lane] and self.load[lane] * self.open < self.loads.total

    def total_of(self, key: int) -> int:
        return sum(self.parts[key].values()) + self.pieces.get(key, 0)

    def home(self, key: int) -> int:
        return int(self.loads.homes[key])

    # -- unloading
    def rows_of(self, lane: int) -> np.ndarray:
        """Whole keys on a lane, the largest first."""
        rows = self.built.get(lane)
        more = self.added.pop(lane, [])
        if rows is None:
            rows = np.flatnonzero((self.loads.lane == lane) & self.loads.whole)
            more = [rows, *more]
        elif more:
            more = [rows, *more]
        if more:
            rows = np.concatenate(more)
            rows = rows[np.argsort(-self.loads.load[rows], kind="stable")]
        return rows

    def take_part(self, key: int, lane: int, amount: int) -> None:
        have = self.parts[key][lane] - amount
        if have:
            self.parts[key][lane] = have
        else:
            del self.parts[key][lane]
            self.on[lane].discard(key)
        self.load[lane] -= amount
        self.pieces[key] = self.pieces.get(key, 0) + amount

    def loosen(self, row: int, lane: int) -> int:
        key = int(self.loads.key[row])
        self.parts[key] = {lane: int(self.loads.load[row])}
        self.on[lane].add(key)
        self.target[row] = -1
        return key

    def unload(self, lane: int, keep: int = -1) -> None:
        rows = self.rows_of(lane)
        load = self.loads.load
        if not self.is_open[lane]:
            for key in list(self.on[lane]):
                self.take_part(key, lane, self.parts[key][lane])
            self.built[lane] = rows[:0]
            self.pool.append(rows)
            self.load[lane] = 0
            return
        # hot
        if keep < 0:
            hot = max(((self.parts[k][lane], k) for k in self.on[lane]), default=(0, -1))
            if len(rows) and load[rows[0]] > self.limit and load[rows[0]] > hot[0]:
                keep = self.loosen(int(rows[0]), lane)
                rows = rows[1:]
            elif hot[0] > self.limit:
                keep = hot[1]
            if keep >= 0:
                self.take_part(keep, lane, self.parts[keep][lane] - self.limit)
        excess = self.load[lane] - self.limit
        # merges
        loose = []
        for key in self.on[lane]:
            if key == keep:
                continue
            home = self.home(key)
            others = [d for d in self.parts[key] if d != lane and self.below_mean(d)]
            rank = 0 if home in others and home != lane else 1 if others and home != lane else 2
            if not others:
                rank = 3 if home != lane and self.below_mean(home) else 4 if home != lane else 5
            loose.append((rank, -self.parts[key][lane], key))
        loose.sort()
        away = None
        done = 0
        for rank in range(6):
            while done < len(loose) and loose[done][0] <= rank:
                _, amount, key = loose[done]
                if 0 < -amount <= excess:
                    self.take_part(key, lane, -amount)
                    excess += amount
                done += 1
            if rank < 3 or excess <= 0 or not len(rows):
                continue
            if away is None:
                homes = self.loads.homes[self.loads.key[rows]]
                away = homes != lane
                ok = np.array([self.below_mean(d) for d in range(self.loads.lanes)])
                back = away & ok[homes]
                kind = np.where(back, 3, np.where(away, 4, 5))
            some = np.flatnonzero(kind == rank)
            picked = some[greedy(load[rows[some]], excess)]
            if len(picked):
                left = np.ones(len(rows), bool)
                left[picked] = False
                moved = int(load[rows[picked]].sum())
                self.pool.append(rows[picked])
                self.load[lane] -= moved
                excess -= moved
                rows, kind = rows[left], kind[left]
        if excess > 0:
            choice = []
            if len(rows):
                k = len(rows) - 1
                r = int(rows[int(np.searchsorted(-load[rows], -excess, "right")) - 1])
                choice.append((int(load[r]), -1, r))
            for key in self.on[lane]:
                if key != keep and self.parts[key][lane] > excess:
                    choice.append((self.total_of(key), key, -1))
            total, key, row = min(choice)
            if key < 0:
                rows = rows[rows != row]
                key = self.loosen(row, lane)
            self.take_part(key, lane, excess)
        self.built[lane] = rows

    # -- loading
    def put_row(self, row: int, lane: int) -> None:
        self.target[row] = lane
        self.added.setdefault(lane, []).append(np.array([row]))
        self.load[lane] += int(self.loads.load[row])

    def put_piece(self, key: int, lane: int, amount: int) -> None:
        left = self.pieces[key] - amount
        if left:
            self.pieces[key] = left
        else:
            del self.pieces[key]
        self.parts[key][lane] = self.parts[key].get(lane, 0) + amount
        self.on[lane].add(key)
        self.load[lane] += amount

    def rooms(self) -> list[tuple[int, int]]:
        return sorted(
            (self.limit - self.load[d], d) for d in range(self.loads.lanes) if self.below_mean(d)
        )

    def fill(self) -> np.ndarray:
        """Place what fits; rows that do not are returned."""
        rows = np.concatenate(self.pool) if self.pool else np.zeros(0, np.int64)
        self.pool = []
        load = self.loads.load
        homes = self.loads.homes[self.loads.key[rows]]
        # merges
        for key in sorted(self.pieces, key=lambda k: (-self.pieces[k], k)):
            self._merge_piece(key)
        empty = load[rows] == 0
        if empty.any():
            for row in rows[empty].tolist():
                self.put_row(row, self.home(self.loads.key[row]))
            rows = rows[~empty]
        order = np.argsort(-load[rows], kind="stable")
        rows = rows[order]
        homes = homes[~empty][order]
        if (away := self.loads.lane[rows] != homes).any():
            went = np.zeros(len(rows), bool)
            for at in np.flatnonzero(away).tolist():
                d = int(homes[at])
                if self.below_mean(d) and self.load[d] + int(load[rows[at]]) <= self.limit:
                    self.put_row(int(rows[at]), d)
                    went[at] = True
            rows = rows[~went]
        rest = rows[ONE_BY_ONE:]
        rows = rows[:ONE_BY_ONE]
        entries = [(int(load[r]), 1, int(r)) for r in rows] + [
            (a, 0, k) for k, a in self.pieces.items()
        ]
        entries.sort(reverse=True)
        left: list[int] = []
        self.one_by_one(entries, left)
        if len(rest):
            rest = self.bulk(rest)
            self.one_by_one([(int(load[r]), 1, int(r)) for r in rest], left)
        return np.array(left, np.int64)

    def _merge_piece(self, key: int) -> bool:
        amount, home = self.pieces[key], self.home(key)
        fits = [
            (d != home, self.limit - self.load[d], d)
            for d in self.parts[key]
            if self.below_mean(d) and self.load[d] + amount <= self.limit
        ]
        if fits:
            self.put_piece(key, min(fits)[2], amount)
        return bool(fits)

    def one_by_one(self, entries, left) -> None:
        rooms = self.rooms()
        for amount, is_row, which in entries:
            at = bisect_left(rooms, (amount, -1))
            if at == len(rooms):
                if is_row:
                    left.append(which)
                continue
            room, lane = rooms.pop(at)
            if is_row:
                self.put_row(which, lane)
            else:
                self.put_piece(which, lane, amount)
            if self.below_mean(lane):
                insort(rooms, (room - amount, lane))

    def bulk(self, rows: np.ndarray) -> np.ndarray:
        rooms = self.rooms()[::-1]
        if not rooms:
            return rows
        lanes = np.array([d for _, d in rooms])
        ends = np.cumsum([room for room, _ in rooms])
        load = self.loads.load[rows]
        stop = np.cumsum(load)
        at = np.searchsorted(ends, stop - load, "right")
        fits = at == np.searchsorted(ends, stop, "left")
        fits &= at < len(lanes)
        put, to = rows[fits], lanes[at[fits]]
        self.target[put] = to
        for d in range(len(lanes)):
            mine = put[at[fits] == d]
            if len(mine):
                self.added.setdefault(int(lanes[d]), []).append(mine)
                self.load[int(lanes[d])] += int(self.loads.load[mine].sum())
        return rows[~fits]

    def settle(self) -> None:
        while True:
            left = self.fill()
            if not len(left) and not self.pieces:
                return
            load = self.loads.load
            best_row = int(left[np.argmax(load[left])]) if len(left) else -1
            best_piece = max(((a, k) for k, a in self.pieces.items()), default=(0, -1))
            if best_row >= 0 and load[best_row] >= best_piece[0]:
                left = left[left != best_row]
                key = int(self.loads.key[best_row])
                amount = int(load[best_row])
                self.parts[key] = {}
                self.pieces[key] = amount
                self.target[best_row] = -1
            else:
                amount, key = best_piece
            self.pool.append(left)
            self.squeeze(key, amount)

    def squeeze(self, key: int, amount: int) -> None:
        """Place a piece that fits nowhere."""
        rooms = self.rooms()
        room, lane = max(
            rooms, key=lambda each: (each[0] + self.parts[key].get(each[1], 0), -each[1])
        )
        have = self.parts[key].get(lane, 0)
        put = min(amount, self.limit - have)
        displaced = self.load[lane] + put - self.limit
        if (key, lane) not in self.overfilled and displaced <= PHI * put:
            self.overfilled.add((key, lane))
            self.put_piece(key, lane, put)
            self.unload(lane, keep=key)
        else:
            self.put_piece(key, lane, min(room, amount))

    # -- final
    def merge(self) -> bool:
        any_merged = False
        while True:
            merged = False
            loose = sorted(
                (self.total_of(k), k) for k, p in self.parts.items() if len(p) > 1
            )
            for total, key in loose:
                parts, home = self.parts[key], self.home(key)
                for lane in sorted(parts, key=lambda d: (d != home, -parts[d], d)):
                    if self.is_open[lane] and self.load[lane] + total - parts[lane] <= self.limit:
                        for d, amount in parts.items():
                            self.load[d] -= amount
                            self.on[d].discard(key)
                        self.parts[key] = {lane: total}
                        self.on[lane].add(key)
                        self.load[lane] += total
                        merged = any_merged = True
                        break
            if not merged:
                return any_merged

    def returns(self) -> bool:
        loads = self.loads
        current = np.where(self.target >= 0, self.target, loads.lane)
        single = loads.whole.copy()
        new = [k for k in self.parts if k not in self.first]
        single[np.searchsorted(loads.key, new)] = False
        homes = loads.homes[loads.key]
        row = np.flatnonzero(single & (current != homes))
        moved = False
        load = loads.load[row]
        order = np.argsort(load, kind="stable")
        row = row[order]
        if len(row):
            room = self.limit - np.array(self.load)
            home = homes[row]
            o2 = np.argsort(home, kind="stable")
            row, home = row[o2], home[o2]
            load = loads.load[row]
            c = np.cumsum(load)
            first = np.flatnonzero(np.diff(home, prepend=-1))
            base = np.repeat((c - load)[first], np.diff(np.append(first, len(row))))
            ok = c - base <= room[home]
            row, home, load = row[ok], home[ok], load[ok]
            if len(row):
                moved = True
                delta = np.zeros(loads.lanes, np.int64)
                np.add.at(delta, home, load)
                np.subtract.at(delta, current[row], load)
                self.load = (np.array(self.load) + delta).tolist()
                self.target[row] = home
        for key, parts in self.parts.items():
            if len(parts) == 1:
                (lane, amount), home = next(iter(parts.items())), self.home(key)
                if lane != home and self.load[home] + amount <= self.limit:
                    self.parts[key] = {home: amount}
                    self.load[lane] -= amount
                    self.load[home] += amount
                    moved = True
        return moved

    def draft(self) -> Draft:
        loads = self.loads
        row = np.flatnonzero((self.target >= 0) & (self.target != loads.lane))
        cuts = []
        for key, parts in self.parts.items():
            begin, end = np.searchsorted(loads.key, [key, key + 1]).tolist()
            lanes = loads.lane[begin:end].tolist()
            held = loads.load[begin:end].tolist()
            need = {
                d: a - (held[lanes.index(d)] if d in lanes else 0) for d, a in parts.items()
            }
            gets = [[d, a] for d, a in need.items() if a > 0]
            for k, d in enumerate(lanes):
                gives = held[k] - parts.get(d, 0)
                if d not in parts and held[k] == 0:
                    cuts.append((begin + k, 0, min(parts)))
                while gives > 0:
                    amount = min(gives, gets[0][1])
                    cuts.append((begin + k, amount, gets[0][0]))
                    gives -= amount
                    gets[0][1] -= amount
                    if not gets[0][1]:
                        gets.pop(0)
        return together(whole_parts(loads, row, self.target[row]), cut_parts(loads, cuts))


def greedy(amounts: np.ndarray, most: int) -> np.ndarray:
    """Places of falling amounts that add up to at most so much: each that fits, in order."""
    sums = np.cumsum(amounts)
    falling = -amounts
    runs, at = [], 0
    while True:
        at = max(at, int(np.searchsorted(falling, -most, "left")))
        if at >= len(amounts) or most <= 0:
            break
        before = int(sums[at - 1]) if at else 0
        stop = int(np.searchsorted(sums, before + most, "right"))
        runs.append(np.arange(at, stop))
        most -= int(sums[stop - 1]) - before
        at = stop
    return np.concatenate(runs) if runs else np.zeros(0, np.int64)


def plan_carefully(loads: Loads, limit: int, is_open: np.ndarray) -> Draft:
    shop = Shop(loads, limit, is_open)
    over = [d for d in range(loads.lanes) if shop.load[d] > limit or not is_open[d]]
    for lane in over:
        shop.unload(lane)
    shop.settle()
    for _ in range(8):
        shop.merge()
        if not shop.returns():
            break
    shop.merge()
    return shop.draft()
