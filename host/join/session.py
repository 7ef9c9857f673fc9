"""Runs a join on several lanes: makes orders of probes, runs them, delivers rows.

The state machines (windows, dispatcher, gatherer) are pure and guarded by one lock, which only the
join's own threads take; lanes run outside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from penstock.plan.plan import JoinPlan

from ..device.base import Device
from ..device.cut import Cutting
from ..emit.delivery import Delivery
from ..emit.output import Gatherer, RowsByArrival
from ..execute.budget import RESULTS
from ..execute.chunk import Chunk
from ..execute.executor import Executor, Receiver
from ..execute.maker import OrderMaker
from ..execute.memory import DeviceMemory
from ..execute.room import Room
from ..execute.running import Running
from ..execute.stats import Stats
from ..execute.trace import Trace
from ..rows.sides import Arrival
from ..windows.engine import WindowEngine
from ..windows.probe import Watermarks, WindowStep

#: Most batches in the lanes at a time: while these are busy, tuples gather into larger batches.
MOST_BATCHES = 4
#: Tasks per lane and probe of a batch. Two are in flight; more would only cost the host time, since
#: the next batch follows before these are done.
TASKS_PER_LANE = 2
#: Evaluations below which a task of a stream is not cut further: two milliseconds of a core. The
#: host needs half a millisecond of the interpreter's time to start a task and take its results;
#: with tasks a quarter as long, a stream kept a target of 20 ms only up to half the rate.
LEAST_EVALUATIONS = 1 << 26
#: By how much an order may be larger than a small one to run in the stream's own thread, if callers
#: wait for it anyway: handing it to a lane would take a millisecond of a core.
WAITED_TIMES = 32


class Session(Receiver):
    """Runs the steps of an engine on the lanes of some devices.

    Parameters
    ----------
    delivery : Delivery
        Makes the output rows.
    devices : sequence of Device
        At least one; each brings ``device.lanes`` lanes.
    on_rows : callable
        Called with output rows, one call at a time, from any thread.
    on_progress : callable
        Called when an order has ended or the join has failed; must not wait.
    room : Room
        For the results of tasks.
    is_awaited : bool
        Whether callers wait until each step is done.
    """

    def __init__(
        self,
        plan: JoinPlan,
        engine: WindowEngine,
        delivery: Delivery,
        devices: Sequence[Device],
        stats: Stats,
        on_rows: Callable[[RowsByArrival], None],
        on_progress: Callable[[], None],
        running: Running,
        trace: Trace,
        room: Room,
        *,
        is_awaited: bool = False,
    ) -> None:
        super().__init__(room.bells)
        self.plan = plan
        self.engine = engine
        self.delivery = delivery
        self.stats = stats
        self.running = running
        self._trace = trace
        self._room = room
        #: By how much an order that runs in the stream's thread may be larger than a small one.
        self._times = WAITED_TIMES if is_awaited and all(d.runs_here for d in devices) else 1
        self._on_rows = on_rows
        self._on_progress = on_progress
        self._memories = [DeviceMemory(device) for device in devices]
        self.executor = Executor(self._memories, running, self, trace=trace, room=room)
        cutting = Cutting.for_devices(
            devices,
            running.task_evaluations,
            tasks_per_lane=TASKS_PER_LANE,
            least=LEAST_EVALUATIONS,
        )
        self._makers = {
            key: OrderMaker(
                plan.evaluations[key],
                devices,
                plan.query.names,
                cutting,
                pruning=running.sizes,
                growing=True,
                appended=True,
            )
            for key in engine.forms
        }
        self._gatherer = Gatherer(ordered=running.ordered)
        room.first_batch = lambda: self._gatherer.first
        room.budget.watch(RESULTS, lambda: self._gatherer.nbytes)
        self._lock = self.executor.lock
        self._batch = 0

    def step(
        self,
        arrivals: Sequence[Arrival],
        watermarks: Watermarks,
        timeless: Sequence[Arrival] = (),
    ) -> None:
        """Let new tuples, or only watermarks, into the windows; the lanes then do the work.

        One call at a time.

        ``timeless`` are tuples without a time, which meet nothing.

        Raises
        ------
        DataError
            A prepared key cannot be computed. Nothing has changed then.
        DeviceError
            A device refuses the predicate, or the join has failed before.
        """
        self.check()
        # Made without the lock: lanes need it to hand over chunks while keys are computed.
        step = replace(self.engine.step(arrivals, watermarks), timeless=tuple(timeless))
        try:  # from here on the tuples are in their windows
            self._begin(step, watermarks)
        except Exception as error:
            self.fail(error)
            raise

    def _begin(self, step: WindowStep, watermarks: Watermarks) -> None:
        orders = [
            order
            for probe in step.probes
            for order in self._makers[probe.form].orders(self._batch, probe, self.stats)
        ]
        with self._lock:
            closing = self.delivery.begin(self._batch, step, watermarks)
            alive = {run.number for run in self.engine.runs()}
            alive = alive.union(*(maker.keep(alive) for maker in self._makers.values()))
            for memory in self._memories:
                memory.keep(alive)
            tuples = sum(len(arrival.rows) for arrival in step.entered)
            self._let_out(self._gatherer.begin(self._batch, len(orders), closing, tuples))
            self._batch += 1
        is_short = sum(one.evaluations for one in orders) <= LEAST_EVALUATIONS
        times = self._times if is_short else 1
        left = [one for one in orders if not self.executor.run_here(one, times=times)]
        if left:
            self.executor.add(left)
        self.bells.ring()

    def drain(self, room_s: float | None = None) -> None:
        """Wait until all rows of the steps so far have been given.

        Parameters
        ----------
        room_s : float, optional
            Seconds that tasks may wait for results to be polled; None returns without an error as
            soon as a task waits.

        Raises
        ------
        DeviceError
            The join failed, or no task ended for long.
        OverloadError
            Nobody polled results in time.
        """
        while self.outstanding and self.error is None:
            seen, waits = self.events, self._room.waits
            if waits and room_s is None:
                break
            wait_s = room_s if waits and room_s is not None else self.executor.patience_s
            if self.bells.wait_for(partial(self._moved, seen, waits), wait_s):
                continue
            if waits:
                raise self._room.refusal(wait_s)
            raise self.executor.stuck()
        self.check()

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition on the join's progress is true; return whether it was."""
        met = self.bells.wait_for(lambda: condition() or self.error is not None, timeout_s)
        self.check()
        return met

    def _moved(self, seen: int, waits: bool) -> bool:
        changed = self.events != seen or self._room.waits != waits
        return changed or not self._gatherer.open or self.error is not None

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory of windows and preserved rows."""
        pruning = sum(maker.nbytes for maker in self._makers.values())
        return self.engine.nbytes + self.delivery.nbytes + pruning

    @property
    def device_nbytes(self) -> int:
        """Bytes of main memory of the devices' windows, without memory of boards."""
        return sum(memory.nbytes for memory in self._memories)

    @property
    def most_tuples(self) -> int | None:
        """Most tuples of a batch whose rows wait until all are there; None for no limit."""
        if not self.running.ordered:
            return None
        return self._room.tuples(self._gatherer.bytes_per_tuple, self._gatherer.tuples)

    @property
    def outstanding(self) -> int:
        """Number of incomplete batches."""
        with self._lock:
            return self._gatherer.open

    @property
    def has_room(self) -> bool:
        """Whether another batch would keep lanes busy, not just wait for them."""
        with self._lock:
            return self._gatherer.open < MOST_BATCHES and self.executor.dispatcher.has_room

    def close(self) -> None:
        """End the lanes and free all device memory."""
        self.executor.close()
        for memory in self._memories:
            memory.close()

    def fail(self, error: Exception) -> None:
        """End the join with an error, which every later call raises."""
        with self._lock:
            super().fail(error)

    def moved(self) -> None:
        super().moved()
        self._on_progress()

    def receive(self, lane: str, chunk: Chunk) -> None:
        """Make rows of a chunk, and release rows that can leave."""
        if chunk.remaining:
            with self._lock:
                self._gatherer.more(chunk.order.batch, len(chunk.remaining))
                self.executor.add(chunk.remaining)
        began = time.monotonic()
        chunk = self.delivery.matches(chunk)
        rows = [one.make() for one in self.delivery.rows(chunk)]
        self._trace.add(lane, "rows", began, time.monotonic())
        with self._lock:
            self.delivery.note(chunk)
            self.stats.note_chunk(chunk)
            self._let_out(self._gatherer.add(chunk.order.batch, rows))
            self.moved()

    def _let_out(self, rows: Sequence[RowsByArrival]) -> None:
        for part in rows:
            self.stats.rows += part.batch.num_rows
            self._room.noted(part.batch.num_rows, part.batch.nbytes)
            self._on_rows(part)
        self.stats.stop()
