"""A state of a few lines behind the machines: how many rows each key has in each window."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.plan.window import FOREVER, NEVER

#: Width of the windows, in the unit of time.
WIDTH = 10
#: Keys, and so partitions: enough for a leader each.
KEYS = 3

#: Start of the window, and key.
Group = tuple[int, int]


class Rows(NamedTuple):
    """A batch: rows of key and time."""

    rows: tuple[tuple[int, int], ...]

    @property
    def num_rows(self) -> int:
        return len(self.rows)


class Groups(NamedTuple):
    """Output rows: groups and their counts."""

    groups: tuple[tuple[Group, int], ...]

    @property
    def num_rows(self) -> int:
        return len(self.groups)


def limit_of(time: int) -> float:
    """The start of the first window that is not complete."""
    if time in (NEVER, FOREVER):
        return math.inf if time == FOREVER else -math.inf
    return time // WIDTH * WIDTH


def counted(rows: Iterable[tuple[int, int]]) -> Counter[Group]:
    """Groups of rows, as a run in one place counts them."""
    return Counter((time // WIDTH * WIDTH, key) for key, time in rows)


class Tally:
    """Counts per window and key: two logs that alternate, an index into them, and what is led.

    Parameters
    ----------
    rank, size : int
    keys : int
        The key ``k`` is led by the worker ``k * size // keys``.
    """

    def __init__(self, rank: int, size: int, keys: int) -> None:
        self.rank, self.size, self.keys = rank, size, keys
        self.logs: list[dict[Group, int]] = [{}, {}]
        self.current = 0
        #: In which log the entry of a group is.
        self.index: dict[Group, int] = {}
        self.led: dict[Group, int] = {}

    def leader(self, group: Group) -> int:
        return group[1] * self.size // self.keys

    @property
    def changed(self) -> int:
        return len(self.logs[self.current])

    def fold(self, batch: Any, feed: int = 0, first: int = 0) -> None:
        for group, count in counted(batch.rows).items():
            if self.size == 1:
                add(self.led, group, count)
            else:
                add(self.logs[self.index.setdefault(group, self.current)], group, count)

    def seal(self) -> list[list[Any]]:
        blocks: list[list[Any]] = [[] for _ in range(self.size)]
        for group, count in sorted(self.logs[self.current].items()):
            leader = self.leader(group)
            if leader == self.rank:
                add(self.led, group, count)
            else:
                blocks[leader].append(((group, count),))  # an entry a block, so that they are many
        self.begin()
        return blocks

    def begin(self) -> None:
        """Go on from zero in the other log."""
        self.index = {}
        self.current = 1 - self.current
        self.logs[self.current] = {}

    def merge(self, sender: int, block: Any) -> int:
        for group, count in block:
            add(self.led, group, count)
        return len(block)

    def release(self, limit: float) -> Groups:
        gone = sorted(item for item in self.led.items() if item[0][0] < limit)
        for group, _ in gone:
            del self.led[group]
        return Groups(tuple(gone))

    def cut(self) -> None: ...

    def save(self) -> list[Any]:
        return [tuple(sorted(self.led.items()))]

    def load(self, blocks: Iterable[Any], size_then: int) -> None:
        for block in blocks:
            for group, count in block:
                if self.leader(group) == self.rank:
                    add(self.led, group, count)


class SharedTally(Tally):
    """All rows on all workers, each of which gives a share of those of a step.

    Rows are told apart by window and key, so there is one of each.
    """

    def fold(self, batch: Any, feed: int = 0, first: int = 0) -> None:
        for group in counted(batch.rows):
            self.logs[0][group] = 1

    def seal(self) -> list[list[Any]]:
        sealed = tuple(self.logs[0].items())
        self.logs[0] = {}
        self.led.update(sealed)
        blocks = [(sealed,) if sealed and rank != self.rank else () for rank in range(self.size)]
        return [list(own) for own in blocks]

    def release(self, limit: float) -> Groups:
        gone = self.order(group for group in self.led if group[0] < limit)
        for group in gone:
            del self.led[group]
        return Groups(tuple((group, 1) for group in gone[self.rank :: self.size]))

    def order(self, groups: Iterable[Group]) -> list[Group]:
        """The order of rows in which shares are cut."""
        return sorted(groups)

    def save(self) -> list[Any]:
        return [tuple(item for item in sorted(self.led.items()) if self._saves(item[0]))]

    def _saves(self, group: Group) -> bool:
        return self.leader(group) == self.rank

    def load(self, blocks: Iterable[Any], size_then: int) -> None:
        for block in blocks:
            self.led.update(block)


def add(counts: dict[Group, int], group: Group, count: int) -> None:
    counts[group] = counts.get(group, 0) + count
