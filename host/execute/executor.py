"""Runs the orders of a join on all lanes of its devices, also after failures."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from penstock.errors import DeviceError

from ..device.base import Device
from ..metrics.report import LaneReport
from .bells import Bells
from .chunk import Chunk
from .dispatcher import Dispatcher, GiveUp, Instruction
from .lane import LaneRunner
from .memory import DeviceMemory
from .order import Order
from .room import Room
from .running import POLICIES, Running
from .trace import Trace

_log = logging.getLogger("penstock.lanes")

#: Evaluations beyond which no device's task is small.
HERE_EVALUATIONS = 1 << 22


class Receiver(ABC):
    """The owner of orders: takes their chunks, and lets callers wait for progress.

    Parameters
    ----------
    bells : Bells
        Ring when a task has ended or failed.
    """

    def __init__(self, bells: Bells) -> None:
        self.bells = bells
        #: Number of tasks that have ended or failed.
        self.events = 0
        #: Why the join cannot go on: the first error.
        self.error: Exception | None = None

    @abstractmethod
    def receive(self, lane: str, chunk: Chunk) -> None:
        """Take the chunk of an order: once per order, from any thread, without the lock.

        The receiver adds the chunk's ``remaining`` orders.
        """

    def moved(self) -> None:
        """Note that a task has ended or failed, and wake waiting threads; the lock is held."""
        self.events += 1
        self.bells.ring()

    def fail(self, error: Exception) -> None:
        """Note that the join cannot go on."""
        self.error = self.error or error
        self.moved()

    def check(self) -> None:
        """Raise the error that made the join fail, if it has failed."""
        if self.error is not None:
            raise self.error


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
        self._timeout_s = running.timeout_s
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
                partial(self._done, n),
                partial(self._failed, n),
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

    @property
    def patience_s(self) -> float:
        """Seconds without progress after which a join is stuck.

        A hanging task is given up and run on another lane, at most once per lane.
        """
        return self._timeout_s * (len(self.lanes) + 1)

    def stuck(self) -> DeviceError:
        """Make the error of a join that is stuck."""
        return DeviceError(
            f"{self.dispatcher.outstanding} tasks made no progress for {self.patience_s:g} s on "
            f"{', '.join(self.dispatcher.names)}"
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

    def _done(self, lane: int, chunk: Chunk) -> None:
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

    def _failed(self, lane: int, order: Order, error: Exception, hung: bool) -> None:
        name, how = self.dispatcher.names[lane], "did not end in time" if hung else "failed"
        _log.info("a task on lane %s %s, and is run again if a lane is left: %s", name, how, error)
        with self.lock:
            before = self.dispatcher.parked
            self._do(self.dispatcher.failed(lane, order, error, hung=hung))
            self._receiver.moved()
            parked = set(self.dispatcher.parked) - set(before)
        if parked:
            _log.info("lane %s is parked: it gets no more tasks", name)


def lane_names(devices: Sequence[Device]) -> list[str]:
    """Return the names of all lanes, in the order of the devices."""
    names = [device.name for device in devices for _ in range(device.lanes)]
    return [f"{name}-{n}" for n, name in enumerate(names)]
