"""Runs the orders of a join on all lanes of its devices, also after failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from ..device.base import Device
from ..metrics.report import LaneReport
from .chunk import Chunk
from .dispatcher import Dispatcher, GiveUp, Instruction
from .lane import LaneRunner
from .memory import DeviceMemory
from .order import Order
from .policy import POLICIES
from .room import Room
from .running import Running
from .trace import Trace

#: Evaluations beyond which no device's task is small.
HERE_EVALUATIONS = 1 << 22


class Receiver(Protocol):
    """The owner of the orders, to which their chunks are given."""

    def receive(self, lane: str, chunk: Chunk) -> None:
        """Take the chunk of an order: once per order, from any thread, without the lock.

        The receiver adds the chunk's ``remaining`` orders.
        """

    def moved(self) -> None:
        """Note that a task has ended or failed; called with the lock held."""

    def fail(self, error: Exception) -> None:
        """Note that the join cannot go on."""


class Executor:
    """Runs orders on all lanes of some devices.

    Parameters
    ----------
    memories : sequence of DeviceMemory
        One per device, at least one; each brings ``device.lanes`` lanes.
    room : Room
        For the results of tasks.
    driver : callable, optional
        As for :class:`~penstock.host.execute.lane.LaneRunner`.

    Attributes
    ----------
    lock : threading.RLock
        Guards the dispatcher and the receiver's own state. Lanes run without it.
    """

    def __init__(
        self,
        memories: Sequence[DeviceMemory],
        running: Running,
        receiver: Receiver,
        *,
        trace: Trace,
        room: Room,
        driver: Callable[[], None] | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self._receiver = receiver
        places = [memory for memory in memories for _ in range(memory.device.lanes)]
        names = lane_names([memory.device for memory in memories])
        self.dispatcher = Dispatcher(
            names,
            POLICIES[running.policy](),
            depth=running.depth,
            most_failures=running.most_failures,
        )
        self.lanes = [
            LaneRunner(
                name,
                memory,
                self._done(n),
                self._failed(n),
                trace=trace,
                timeout_s=running.timeout_s,
                room=room,
                driver=driver,
            )
            for n, (name, memory) in enumerate(zip(names, places, strict=True))
        ]
        self._local_lane = next((lane for lane in self.lanes if lane.memory.device.runs_here), None)

    def add(self, orders: Sequence[Order]) -> None:
        """Begin orders; return at once."""
        with self.lock:
            self._do(self.dispatcher.add(orders))

    def run_here(self, order: Order, *, loads: bool = False, times: int = 1) -> bool:
        """Run a small order in this thread, without a lane's delay; return whether it was run.

        ``loads`` says whether this thread waits for the result, so that the program may be loaded
        first, which can take long; ``times`` by how much the order may be larger than a small one.
        """
        if self._local_lane is None or order.evaluations > times * HERE_EVALUATIONS:
            return False
        chunk = self._local_lane.run_here(order, loads=loads, times=times)
        if chunk is not None:
            self._receiver.receive(self._local_lane.name, chunk)
        return chunk is not None

    def lane_reports(self) -> tuple[LaneReport, ...]:
        """Return the state of each lane."""
        with self.lock:
            waiting, parked = self.dispatcher.waiting(), self.dispatcher.parked
            return tuple(
                LaneReport(
                    lane.name,
                    waiting[lane.name],
                    lane.busy_s,
                    self.dispatcher.failures[lane.name],
                    lane.name in parked,
                )
                for lane in self.lanes
            )

    def close(self) -> None:
        """End the lanes; device memory is its owner's to free."""
        for lane in self.lanes:
            lane.close()

    def _do(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, GiveUp):
                self._receiver.fail(instruction.error)
            else:
                self.lanes[instruction.lane].start(instruction.order)

    def _done(self, lane: int) -> Callable[[Chunk], None]:
        def done(chunk: Chunk) -> None:
            with self.lock:
                first, instructions = self.dispatcher.done(lane, chunk.order)
                self._do(instructions)
                if not first:
                    self._receiver.moved()  # the lane is free again
                    return
            try:
                self._receiver.receive(self.dispatcher.names[lane], chunk)
            except Exception as error:  # must reach the caller, not end the lane's thread
                self._receiver.fail(error)

        return done

    def _failed(self, lane: int) -> Callable[[Order, Exception, bool], None]:
        def failed(order: Order, error: Exception, hung: bool) -> None:
            with self.lock:
                self._do(self.dispatcher.failed(lane, order, error, hung=hung))
                self._receiver.moved()

        return failed


def lane_names(devices: Sequence[Device]) -> list[str]:
    """Return the names of all lanes, in the order of the devices."""
    names = [device.name for device in devices for _ in range(device.lanes)]
    return [f"{name}-{n}" for n, name in enumerate(names)]
