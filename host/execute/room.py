"""Room for results: how many pairs a result may hold, and whether a task may start.

A task takes room when it starts, and gives it back when its rows wait to be polled and are counted
there. Half of the results' share is for tasks in flight, the rest for waiting rows. If no room is
left, tasks wait as long as there are rows to poll.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import OverloadError

from .bells import Bells
from .budget import RESULTS, RESULTS_SHARE, TASKS, Budget

#: Pairs of one device result: 32 MiB of indices, many times more than an efficient task needs.
MOST = 1 << 22
#: Pairs of the first results of a join in this process, and their growth factor: 4 MiB of memory
#: are ready much sooner than 32. Results that need more are continued, in more room.
FIRST, WIDENED = 1 << 19, 8
#: Pairs that a task can always hold.
LEAST = 64
#: Most tuples of the first batch, if the rows of a batch wait for each other.
FEW = 64
#: Share of the memory for results that tasks in flight may use.
SHARE = 0.5
#: Bytes of a pair: as devices give it, two indices of 32 bits; and while a row is made of it,
#: tuple, position, and two arrival numbers in two orders, all of 64 bits.
_PAIR_BYTES, _WORK_BYTES = 8, 72
#: Assumed bytes of a value whose type has no fixed size, until some have been seen.
_UNKNOWN_BYTES = 256


@dataclass(frozen=True)
class TaskRoom:
    """Room of one task: most pairs of its result, and the bytes counted for it."""

    pairs: int
    nbytes: int


#: Room of a task that gives no pairs.
NO_ROOM = TaskRoom(1, 0)


class Room:
    """Shares out the room for results among all lanes of a join.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the output rows.
    lanes, depth : int
        Lanes, and tasks in flight on each.
    left : callable
        Returns the number of rows that can be polled; must need no lock.
    """

    def __init__(
        self, budget: Budget, schema: pa.Schema, lanes: int, depth: int, left: Callable[[], int]
    ) -> None:
        self.budget = budget
        self._lanes, self._depth = lanes, depth
        self._left = left
        self._row_bytes = sum(_width(field.type) for field in schema)
        self._most = MOST
        self._is_known = all(_is_fixed(field.type) for field in schema)
        self._largest = 0.0
        self.first_batch: Callable[[], int | None] = lambda: None
        self._lock = threading.Lock()
        self._waiting: set[str] = set()

    @staticmethod
    def unlimited(*, begins_small: bool = False) -> Room:
        """Make room without limit, for a caller that takes results as they come.

        ``begins_small`` says whether the first results get less, until :meth:`widen` is called.
        """
        room = Room(Budget(None), pa.schema([]), 1, 1, lambda: 0)
        room._most = FIRST if begins_small else MOST
        return room

    def widen(self) -> None:
        """Give later results more room, since one was too long."""
        self._most = min(self._most * WIDENED, MOST)

    @property
    def waits(self) -> bool:
        """Whether tasks wait until results are polled."""
        return self.budget.tasks_wait and not self.budget.lifted

    @property
    def bells(self) -> Bells:
        """Bells that ring when :attr:`waits` has changed."""
        return self.budget.bells

    def refusal(self, waited_s: float) -> OverloadError:
        """Make the error for results that nobody has polled for ``waited_s`` seconds."""
        return OverloadError(
            f"results take the {RESULTS_SHARE:.0%} of the memory budget of {self.budget.limit:,} "
            f"bytes that are kept for them, and nobody has polled any for {waited_s:g} s; poll "
            "while you wait, or raise memory_bytes"
        )

    def noted(self, rows: int, nbytes: int) -> None:
        """Note that ``rows`` output rows took ``nbytes`` bytes."""
        if not self._is_known and rows:
            self._largest = max(self._largest, nbytes / rows)
            self._row_bytes = round(1.25 * self._largest)

    def tuples(self, bytes_each: float, before: int) -> int | None:
        """Return the most tuples of a batch whose rows wait for each other; None for no limit.

        Parameters
        ----------
        bytes_each : float
            Estimated bytes of output rows per tuple.
        before : int
            Tuples of the batch before: the estimate may be wrong, so batches grow step by step.
        """
        if self.budget.limit is None or self.budget.lifted:
            return None
        fits = SHARE * RESULTS_SHARE * self.budget.limit / max(bytes_each, 1.0)
        return max(1, int(min(fits, max(2 * before, FEW))))

    def take(self, lane: str, batch: int, *, waits: bool = True) -> TaskRoom | None:
        """Take room for a task of a batch; None if there is none.

        ``waits`` says whether the lane then waits, and asks again from time to time.
        """
        if self.budget.limit is None:
            return TaskRoom(self._most, 0)
        share = RESULTS_SHARE * self.budget.limit
        waiting = _PAIR_BYTES + self._row_bytes
        working = _WORK_BYTES + 2 * self._row_bytes
        each = waiting + working / self._depth
        pairs = int(SHARE * share / (self._lanes * self._depth * each))
        task_room = TaskRoom(min(max(pairs, LEAST), self._most), round(max(pairs, LEAST) * each))
        with self._lock:
            parts = self.budget.parts()
            fits = parts[RESULTS] + parts[TASKS] + task_room.nbytes <= share
            if not fits and not self._must(batch, parts[TASKS]):
                if waits:
                    self._wait(lane)
                return None
            self.budget.add(TASKS, task_room.nbytes)
            if waits:
                self._go(lane)
            return task_room

    def give_back(self, task_room: TaskRoom) -> None:
        """Give back the room of a task that is over; its rows are counted elsewhere."""
        if task_room.nbytes:
            self.budget.add(TASKS, -task_room.nbytes)

    def _must(self, batch: int, task_bytes: int) -> bool:
        """Whether a task may start without room, because it would wait forever."""
        if self.budget.lifted:
            return True
        # If there is nothing to poll, rows wait for those of the batch that leaves next.
        return not self._left() and (batch == self.first_batch() or not task_bytes)

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
    """Return the least bytes of a value and its validity."""
    return 1 + (-(-dtype.bit_width // 8) if _is_fixed(dtype) else _UNKNOWN_BYTES)
