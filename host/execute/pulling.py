"""Runs orders for one caller that takes their chunks in order: orders begin as chunks are taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import islice

from .bells import Bells
from .chunk import Chunk
from .executor import Executor, Receiver
from .memory import DeviceMemory
from .order import BoundProbe, Order
from .room import Room
from .running import Running
from .trace import Trace

#: Orders in flight per lane.
DEPTH = 4
#: Evaluations, in all, for which the caller takes the place of a lane: two milliseconds of a core.
#: A small join is over before a further thread has started.
HERE_IN_ALL = 1 << 25
#: Most pairs of a probe that the caller tests without lanes, a millisecond of work: to hand a task
#: over takes a third of one.
HERE_PAIRS = 1 << 24
#: Factor by which a task may be larger than those that a stream's thread runs.
WAITED_FOR = 2


class Pulling(Receiver):
    """Runs the orders of an iterator for its caller.

    Parameters
    ----------
    memories : sequence of DeviceMemory
        One per device, at least one; they outlive this object.
    """

    def __init__(
        self,
        memories: Sequence[DeviceMemory],
        running: Running,
        *,
        trace: Trace,
    ) -> None:
        super().__init__(Bells())
        self._finished: dict[Order, Chunk] = {}
        self._left_here = HERE_IN_ALL
        is_local = all(memory.device.runs_here for memory in memories)
        self._room = Room.unlimited(begins_small=is_local)
        self.executor = Executor(
            memories,
            running,
            self,
            trace=trace,
            room=self._room,
            driver=self.bells.ring,
        )

    def chunks(self, orders: Iterator[Order]) -> Generator[Chunk, None, None]:
        """Give the chunks of orders, in order; a chunk's remaining orders follow it.

        Raises
        ------
        DeviceError
            No lane could run an order, or none made progress.
        """
        waiting: deque[Order] = deque()
        following = _Following(orders)
        while True:
            while len(waiting) < DEPTH * len(self.executor.lanes) and following.fits(waiting):
                order = following.left.pop()
                if not self._runs_here(order, following, waiting):
                    self.executor.add([order])
                waiting.append(order)
                self._drive()
            if not waiting:
                return
            chunk = self._wait(waiting.popleft())
            following.left += chunk.remaining[::-1]
            yield chunk

    def close(self) -> None:
        """Cancel tasks that have not begun, and wait for the others."""
        self.executor.close()

    def _runs_here(self, order: Order, following: _Following, waiting: Sequence[Order]) -> bool:
        """Run a small order in this thread, if it is alone, of a small probe, or for the last lane.

        Return whether it was run.
        """
        if order.evaluations > self._left_here:
            return False
        self._drive()
        busy = sum(one not in self._finished for one in waiting)
        bound = order.bound
        is_small = isinstance(bound, BoundProbe) and bound.probe.pairs <= HERE_PAIRS
        lanes_left = not is_small and busy < len(self.executor.lanes) - 1
        if lanes_left and not (not busy and following.is_over(order)):
            return False
        if not self.executor.run_here(order, loads=True, times=WAITED_FOR):
            return False
        self._left_here -= order.evaluations
        return True

    def _wait(self, order: Order) -> Chunk:
        while True:
            seen = self.events
            if order in self._finished:
                return self._finished.pop(order)
            self.check()
            if not self.bells.wait_for(partial(self._has_moved, seen), self.executor.patience_s):
                raise self.executor.stuck()

    def _has_moved(self, seen: int) -> bool:
        self._drive()
        return self.events != seen

    def _drive(self) -> None:
        for lane in self.executor.lanes:
            lane.turn()

    def receive(self, lane: str, chunk: Chunk) -> None:
        """Keep the chunk of an order until the caller takes it."""
        self._finished[chunk.order] = chunk
        if chunk.remaining:
            self._room.widen()
        self.moved()


class _Following:
    """The orders that have not begun; remaining orders of a chunk come first."""

    def __init__(self, orders: Iterator[Order]) -> None:
        self._orders = orders
        #: Orders taken from the iterator, or remaining from a chunk; the next one is last.
        self.left: list[Order] = []

    def peek(self) -> Order | None:
        """Return the next order; None without one."""
        if not self.left:
            self.left += islice(self._orders, 1)
        return self.left[-1] if self.left else None

    def is_over(self, order: Order) -> bool:
        """Whether no order follows the one taken last; False where it takes long to tell."""
        return order.bound.is_near_end and self.peek() is None

    def fits(self, waiting: Sequence[Order]) -> bool:
        """Whether there is a next order, and it reads the window of the orders in flight.

        A second window would take further memory.
        """
        order = self.peek()
        return order is not None and (not waiting or order.bound.run == waiting[-1].bound.run)
