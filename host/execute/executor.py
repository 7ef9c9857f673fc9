"""The lanes of some devices, which run the orders of a join whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from ..device.base import Device
from ..metrics.report import LaneReport
from .chunk import Chunk
from .dispatcher import Dispatcher, GiveUp, Instruction
from .lane import Lane
from .memory import DeviceMemory
from .order import Order
from .policy import POLICIES
from .room import Room
from .running import Running
from .trace import Trace

#: Evaluations beyond which no device's task is small.
HERE_EVALUATIONS = 1 << 22


class Receiver(Protocol):
    """Whose orders they are."""

    def given(self, lane: str, chunk: Chunk) -> None:
        """What an order gave: once for each, from any thread, without the lock.

        What the order left over is the receiver's to add.
        """

    def moved(self) -> None:
        """A task has ended or failed; the lock is held."""

    def fail(self, error: Exception) -> None:
        """The join cannot go on."""


class Executor:
    """Runs orders on all lanes of some devices.

    Parameters
    ----------
    devices : sequence of Device
        At least one; each brings ``device.lanes`` lanes.
    running : Running
    receiver : Receiver
    trace : Trace
    room : Room
        For what tasks give.
    memories : sequence of DeviceMemory, optional
        Of the devices, if they outlive the executor; by default its own.
    driver : callable, optional
        As for :class:`~penstock.host.execute.lane.Lane`.

    Attributes
    ----------
    lock : threading.RLock
        Guards the dispatcher, and whatever the receiver keeps beside it. Lanes run without it.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        running: Running,
        receiver: Receiver,
        *,
        trace: Trace,
        room: Room,
        memories: Sequence[DeviceMemory] | None = None,
        driver: Callable[[], None] | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self._receiver = receiver
        self._own = [DeviceMemory(device) for device in devices] if memories is None else []
        self.memories = memories or self._own
        places = [memory for memory in self.memories for _ in range(memory.device.lanes)]
        names = lane_names(devices)
        self.dispatcher = Dispatcher(
            names,
            POLICIES[running.policy](),
            depth=running.depth,
            most_failures=running.most_failures,
        )
        self.lanes = [
            Lane(
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
        self._here = next((lane for lane in self.lanes if lane.memory.device.runs_here), None)

    def add(self, orders: Sequence[Order]) -> None:
        """Begin orders; returns at once."""
        with self.lock:
            self._do(self.dispatcher.add(orders))

    def run_here(self, order: Order, *, loads: bool = False) -> bool:
        """Run a small order in this thread, sooner than another could begin; whether it was.

        ``loads`` says whether a program may be loaded for it, which takes long.
        """
        if self._here is None or order.evaluations > HERE_EVALUATIONS:
            return False
        chunk = self._here.run_here(order, loads=loads)
        if chunk is not None:
            self._receiver.given(self._here.name, chunk)
        return chunk is not None

    def lane_reports(self) -> tuple[LaneReport, ...]:
        """What each lane does."""
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
        """End the lanes, and free the device memory that is the executor's own."""
        for lane in self.lanes:
            lane.close()
        for memory in self._own:
            memory.close()

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
                self._receiver.given(self.dispatcher.names[lane], chunk)
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
    """Names of the lanes of some devices, in their order."""
    names = [device.name for device in devices for _ in range(device.lanes)]
    return [f"{name}-{n}" for n, name in enumerate(names)]
