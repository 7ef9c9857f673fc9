"""Counts of one join."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..device.base import Device
    from .chunk import Chunk

#: Counters that are sizes of the device or of its windows: equal in each result, not summed.
SIZES = frozenset({"units", "banks", "depth", "rows_a", "rows_b", "narrow_bits"})


@dataclass
class Stats:
    """Counts of a join's work; ``penstock sql --stats`` writes them as JSON.

    Parameters
    ----------
    device : str
        Name of the device.
    rows : int
        Rows delivered.
    pairs_in_window : int
        Pairs that the window admits, before the predicate.
    pairs_evaluated : int
        Predicate tests executed.
    pairs_pruned : int
        Predicate tests that were not needed: an order of the window, or an empty range, ruled out
        a match.
    seconds : float
        Time since the join began.
    busy_s : float
        Sum of the seconds of all tasks on the device.
    rows_s : float
        Sum of the seconds in which output rows of tables were made.
    late : dict of str to int
        Late rows per side.
    counters : dict of str to int
        Further counts of the device, such as cycles.
    """

    device: str
    rows: int = 0
    pairs_in_window: int = 0
    pairs_evaluated: int = 0
    pairs_pruned: int = 0
    seconds: float = 0.0
    busy_s: float = 0.0
    rows_s: float = 0.0
    late: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter, repr=False)
    #: Held to add to ``pairs_pruned`` and ``rows_s``: several threads do.
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @staticmethod
    def for_devices(devices: Sequence[Device]) -> Stats:
        """Make the counts of a join on some devices, which share the work."""
        return Stats("+".join(one.name for one in devices))

    def add(self, counters: Mapping[str, int]) -> None:
        """Add the counters of one result."""
        for name, value in counters.items():
            if name == "evaluations":
                self.pairs_evaluated += int(value)
            elif name in SIZES:
                self.counters[name] = int(value)
            else:
                self.counters[name] = self.counters.get(name, 0) + int(value)

    def note_chunk(self, chunk: Chunk) -> None:
        """Add the work of an order."""
        before = self.pairs_evaluated
        for result in chunk.results:
            self.add(result.counters)
            if result.ran is not None:
                self.busy_s += result.ran[1] - result.ran[0]
        admitted = chunk.order.admitted
        if admitted is not None:
            self.prune(admitted - (self.pairs_evaluated - before))

    def prune(self, pairs: int) -> None:
        """Add predicate tests that were not needed; from any thread."""
        with self._lock:
            self.pairs_pruned += pairs

    def note_rows(self, seconds: float) -> None:
        """Add seconds in which output rows were made; from any thread."""
        with self._lock:
            self.rows_s += seconds

    def count(self, other: Stats) -> None:
        """Add the work of another join; its rows are counted elsewhere."""
        self.pairs_in_window += other.pairs_in_window
        self.pairs_pruned += other.pairs_pruned
        self.pairs_evaluated += other.pairs_evaluated
        self.busy_s += other.busy_s

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self.began

    def as_dict(self) -> dict:
        return {
            "device": self.device,
            "rows": self.rows,
            "pairs_in_window": self.pairs_in_window,
            "pairs_evaluated": self.pairs_evaluated,
            "pairs_pruned": self.pairs_pruned,
            "seconds": round(self.seconds, 6),
            "late": self.late,
            **self.counters,
        }
