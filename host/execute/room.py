"""Room for what tasks give: how many pairs a result may hold, and whether a task may start.

A task takes room when it starts and gives it back when its rows are where they wait to be polled:
they are counted there. Half of what is kept for results is for tasks on their way, the rest for
rows that wait. Where no room is left tasks wait, as long as there are rows that can be polled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import OverloadError

from .bells import Bells
from .budget import RESULTS, RESULTS_SHARE, TASKS, Budget

#: Pairs of one device result: 32 MiB of indices, many times what a task needs to be efficient.
MOST = 1 << 22
#: Pairs that a task can always hold.
LEAST = 64
#: Tuples of the first batch whose rows have to wait for each other.
FEW = 64
#: Share of the results' part that is for tasks on their way.
SHARE = 0.5
#: Bytes of a pair as devices give it, two indices of 32 bits; and while a row is made of it:
#: tuple, position, and two arrival numbers in two orders, all of 64 bits.
_PAIR_BYTES, _WORK_BYTES = 8, 72
#: Bytes of a value of which the type does not say it, until some have been seen.
_UNKNOWN_BYTES = 256


@dataclass(frozen=True)
class Taken:
    """Room of one task: pairs of its result, and bytes that are counted for it."""

    pairs: int
    nbytes: int


#: Of a task that gives no pairs.
NONE = Taken(1, 0)


class Room:
    """What results may take, for all lanes of a join.

    Parameters
    ----------
    budget : Budget
    schema : pyarrow.Schema
        Of the rows.
    lanes, depth : int
        Lanes, and tasks that are on their way on each.
    left : callable
        Rows that can be polled; must need no lock.
    """

    def __init__(
        self, budget: Budget, schema: pa.Schema, lanes: int, depth: int, left: Callable[[], int]
    ) -> None:
        self.budget = budget
        self._lanes, self._depth = lanes, depth
        self._left = left
        self._row_bytes = sum(_width(field.type) for field in schema)
        self._is_known = all(_is_fixed(field.type) for field in schema)
        self._largest = 0.0
        self.first_batch: Callable[[], int | None] = lambda: None
        self._lock = threading.Lock()
        self._waiting: set[str] = set()

    @staticmethod
    def unlimited() -> Room:
        """For results that are taken as fast as they are asked for."""
        return Room(Budget(None), pa.schema([]), 1, 1, lambda: 0)

    @property
    def waits(self) -> bool:
        """Whether tasks wait until results are polled."""
        return self.budget.tasks_wait and not self.budget.lifted

    @property
    def bells(self) -> Bells:
        """Ring when that has changed."""
        return self.budget.bells

    def refusal(self, waited_s: float) -> OverloadError:
        """That nobody has polled results for so long."""
        return OverloadError(
            f"results take the {RESULTS_SHARE:.0%} of the memory budget of {self.budget.limit:,} "
            f"bytes that are kept for them, and nobody has polled any for {waited_s:g} s; poll "
            "while you wait, or raise memory_bytes"
        )

    def noted(self, rows: int, nbytes: int) -> None:
        """So many rows took so many bytes."""
        if not self._is_known and rows:
            self._largest = max(self._largest, nbytes / rows)
            self._row_bytes = round(1.25 * self._largest)

    def tuples(self, bytes_each: float, before: int) -> int | None:
        """Tuples of a batch whose rows have to wait for each other, at most; None for any.

        Parameters
        ----------
        bytes_each : float
            Bytes of rows that a tuple gives, as far as is known.
        before : int
            Tuples of the batch before: what is known may be wrong, so batches grow step by step.
        """
        if self.budget.limit is None or self.budget.lifted:
            return None
        fits = SHARE * RESULTS_SHARE * self.budget.limit / max(bytes_each, 1.0)
        return max(1, int(min(fits, max(2 * before, FEW))))

    def take(self, lane: str, batch: int, *, waits: bool = True) -> Taken | None:
        """Room for a task of a batch; None if there is none.

        ``waits`` says whether the lane has to wait then, and asks again every now and then.
        """
        if self.budget.limit is None:
            return Taken(MOST, 0)
        share = RESULTS_SHARE * self.budget.limit
        waiting = _PAIR_BYTES + self._row_bytes
        working = _WORK_BYTES + 2 * self._row_bytes
        each = waiting + working / self._depth
        pairs = int(SHARE * share / (self._lanes * self._depth * each))
        taken = Taken(min(max(pairs, LEAST), MOST), round(max(pairs, LEAST) * each))
        with self._lock:
            parts = self.budget.parts()
            fits = parts[RESULTS] + parts[TASKS] + taken.nbytes <= share
            if not fits and not self._must(batch, parts[TASKS]):
                if waits:
                    self._wait(lane)
                return None
            self.budget.add(TASKS, taken.nbytes)
            if waits:
                self._go(lane)
            return taken

    def give_back(self, taken: Taken) -> None:
        """A task is over, and what became of its result is counted elsewhere."""
        if taken.nbytes:
            self.budget.add(TASKS, -taken.nbytes)

    def _must(self, batch: int, of_tasks: int) -> bool:
        """Whether a task may start without room: it would wait for ever."""
        if self.budget.lifted:
            return True
        # If there is nothing to poll, rows wait for their order: of the batch that leaves next.
        return not self._left() and (batch == self.first_batch() or not of_tasks)

    def _wait(self, lane: str) -> None:
        self._waiting.add(lane)
        self.budget.tasks_wait = True
        self.budget.bells.ring()

    def _go(self, lane: str) -> None:
        self._waiting.discard(lane)
        if self.budget.tasks_wait and not self._waiting:
            self.budget.tasks_wait = False
            self.budget.bells.ring()


def _is_fixed(dtype: pa.DataType) -> bool:
    try:
        return dtype.bit_width > 0
    except ValueError:
        return False


def _width(dtype: pa.DataType) -> int:
    """Bytes of a value and its validity, at least."""
    return 1 + (-(-dtype.bit_width // 8) if _is_fixed(dtype) else _UNKNOWN_BYTES)
