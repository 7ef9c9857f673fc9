"""Decides which lane runs which order, also after failures: a pure state machine.

Events are calls; they return instructions to be carried out. An order is published once, when it is
first completed. A lane that fails hands its order to another lane and is parked after some failures
in a row; a lane whose task hangs is parked at once, until the task turns out to have ended.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import DeviceError

from .order import Order
from .running import Policy


@dataclass(frozen=True)
class Start:
    """Run an order on a lane."""

    lane: int
    order: Order


@dataclass(frozen=True)
class GiveUp:
    """No lane can run an order; the join cannot go on."""

    order: Order
    error: Exception


Instruction = Start | GiveUp


@dataclass
class _Lane:
    queue: deque[Order] = field(default_factory=deque)
    started: list[Order] = field(default_factory=list)
    in_a_row: int = 0
    parked: bool = False
    hung: set[Order] = field(default_factory=set)


class Dispatcher:
    """Keeps lanes busy.

    Parameters
    ----------
    lanes : sequence of str
        Names, for reports; a lane is known by its place.
    depth : int
        Orders in flight on a lane, so that transfers of one hide behind another.
    most_failures : int
        Failures in a row that park a lane.
    """

    def __init__(
        self, lanes: Sequence[str], policy: Policy, *, depth: int = 2, most_failures: int = 3
    ) -> None:
        self.names = tuple(lanes)
        self.policy = policy
        self.depth = depth
        self.most_failures = most_failures
        self.failures: Counter[str] = Counter()
        self._lanes = [_Lane() for _ in lanes]
        self._open: dict[Order, set[int]] = {}
        self._error: Exception = DeviceError("there is no lane to run a task on")

    @property
    def outstanding(self) -> int:
        """Orders that have not been published."""
        return len(self._open)

    @property
    def has_room(self) -> bool:
        """Whether no order waits for a lane, or some lane could take another one at once."""
        lanes = [lane for lane in self._lanes if not lane.parked]
        return not any(lane.queue for lane in lanes) or any(
            len(lane.started) < self.depth for lane in lanes
        )

    @property
    def parked(self) -> list[str]:
        """Names of the lanes that are out of service."""
        return [name for name, lane in zip(self.names, self._lanes, strict=True) if lane.parked]

    def waiting(self) -> Mapping[str, int]:
        """Orders per lane that are queued or started."""
        return {
            name: len(lane.queue) + len(lane.started)
            for name, lane in zip(self.names, self._lanes, strict=True)
        }

    def add(self, orders: Sequence[Order]) -> list[Instruction]:
        """Add new orders."""
        lost = []
        for order in orders:
            self._open[order] = set()
            if not self._assign(order):
                lost.append(order)
        return self._given_up(lost) + self._starts()

    def done(self, lane: int, order: Order) -> tuple[bool, list[Instruction]]:
        """Note that an order succeeded; return whether to publish it, and instructions."""
        state = self._lanes[lane]
        if order in state.hung:
            # The task that hung has ended: the lane may serve again.
            self._recovered(lane, order)
        else:
            state.started.remove(order)
        state.in_a_row = 0
        first = self._open.pop(order, None) is not None
        if first:
            self._withdraw(order)
        return first, self._starts()

    def failed(
        self, lane: int, order: Order, error: Exception, *, hung: bool = False
    ) -> list[Instruction]:
        """Note that an order failed; if it ``hung`` (did not end in time), park its lane."""
        state = self._lanes[lane]
        self.failures[self.names[lane]] += 1
        if order in state.hung:
            self._recovered(lane, order)
            return self._starts()
        state.started.remove(order)
        state.in_a_row += 1
        if hung:
            state.hung.add(order)
        if hung or state.in_a_row >= self.most_failures:
            state.parked = True
        moved = list(state.queue) if state.parked else []
        if state.parked:
            state.queue.clear()
        tried = self._open.get(order)
        if tried is not None:
            tried.add(lane)
            moved.insert(0, order)
        self._error = error
        lost = [one for one in moved if not self._assign(one)]
        return self._given_up(lost) + self._starts()

    def _given_up(self, lost: Sequence[Order]) -> list[Instruction]:
        return [GiveUp(order, self._error) for order in lost]

    def _recovered(self, lane: int, order: Order) -> None:
        state = self._lanes[lane]
        state.hung.discard(order)
        if not state.hung and state.in_a_row < self.most_failures:
            state.parked = False

    def _assign(self, order: Order) -> bool:
        """Queue an order; return whether there is a lane for it."""
        tried = self._open[order]
        serving = {
            k: sum(o.evaluations for o in (*lane.queue, *lane.started))
            for k, lane in enumerate(self._lanes)
            if not lane.parked
        }
        # Prefer a lane that has not tried this order; otherwise the same one, while it is in
        # service.
        fresh = {k: work for k, work in serving.items() if k not in tried}
        choice = fresh or serving
        if not choice:
            return False
        self._lanes[self.policy.choose(choice)].queue.append(order)
        return True

    def _withdraw(self, order: Order) -> None:
        """Drop a published order from the queues."""
        for lane in self._lanes:
            if order in lane.queue:
                lane.queue.remove(order)

    def _starts(self) -> list[Instruction]:
        starts: list[Instruction] = []
        for k, lane in enumerate(self._lanes):
            while lane.queue and not lane.parked and len(lane.started) < self.depth:
                order = lane.queue.popleft()
                lane.started.append(order)
                starts.append(Start(k, order))
        return starts
