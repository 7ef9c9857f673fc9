"""A running join on several lanes: probes become orders, orders run, rows come back.

The state machines (windows, dispatcher, gatherer) are pure and guarded by one lock, which only the
join's own threads take; lanes run outside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from penstock import arguments
from penstock.errors import DeviceError, UsageError
from penstock.plan.plan import JoinPlan

from ..device.base import Device
from ..device.cut import TASK_EVALUATIONS
from ..emit.delivery import Delivery
from ..emit.output import Gatherer, Rows
from ..execute.budget import RESULTS
from ..execute.chunk import Chunk
from ..execute.dispatcher import Dispatcher, GiveUp, Instruction
from ..execute.lane import Lane
from ..execute.memory import DeviceMemory
from ..execute.order import Bound, Order, orders_of
from ..execute.policy import POLICIES
from ..execute.probe import refuse
from ..execute.room import Room
from ..execute.run import TIMEOUT_S
from ..execute.stats import Stats
from ..execute.trace import Trace
from ..keys.binding import Binder
from ..metrics.report import LaneReport
from ..prune.pruner import Pruner
from ..prune.sizes import Pruning, pruning_sizes
from ..rows.sides import Arrival
from ..windows.engine import Engine, Probe, Promises, Step

#: Evaluations beyond which no device's task is small.
HERE_EVALUATIONS = 1 << 22
#: Batches in the lanes at a time: while they are busy, tuples gather to larger batches.
MOST_BATCHES = 4


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a join runs; none of it changes its result, except for the order of rows.

    Parameters
    ----------
    ordered : bool
        Rows leave by the arrival of their later tuple, then of their earlier one.
    policy : str
        "round-robin" or "least-work", see :mod:`penstock.host.execute.policy`.
    task_evaluations : int, optional
        Evaluations of one task, at most; by default what the slowest device asks for.
    timeout_s : float
        Seconds after which a task counts as hung.
    depth : int
        Tasks started on a lane at a time.
    most_failures : int
        Failures in a row after which a lane is parked.
    pruning : bool or Pruning
        Whether pairs are left out that bounds of many tuples rule out, and by which sizes.
    """

    ordered: bool = False
    policy: str = "round-robin"
    task_evaluations: int | None = None
    timeout_s: float = TIMEOUT_S
    depth: int = 2
    most_failures: int = 3
    pruning: bool | Pruning = True

    def __post_init__(self) -> None:
        if arguments.text("policy", self.policy) not in POLICIES:
            raise UsageError(f"policy is one of {', '.join(POLICIES)}, not {self.policy!r}")
        arguments.flag("ordered", self.ordered)
        arguments.seconds("timeout_s", self.timeout_s, above=0)
        for name in ("task_evaluations", "depth", "most_failures"):
            value = getattr(self, name)
            if value is not None:
                arguments.whole(name, value, least=1)
        pruning_sizes(self.pruning)

    @property
    def sizes(self) -> Pruning | None:
        """Sizes of pruning; None if it is off."""
        return pruning_sizes(self.pruning)


class Session:
    """Runs the steps of an engine on the lanes of some devices.

    Parameters
    ----------
    plan : JoinPlan
    engine : Engine
    delivery : Delivery
        What leaves, and when.
    devices : sequence of Device
        At least one; each brings ``device.lanes`` lanes.
    stats : Stats
    on_rows : callable
        Called with output rows, one call at a time, from any thread.
    on_progress : callable
        Called when an order has ended, or the join has failed. It must not wait.
    running : Running
    trace : Trace
    room : Room
        For what tasks give.
    """

    def __init__(
        self,
        plan: JoinPlan,
        engine: Engine,
        delivery: Delivery,
        devices: Sequence[Device],
        stats: Stats,
        on_rows: Callable[[Rows], None],
        on_progress: Callable[[], None],
        running: Running,
        trace: Trace,
        room: Room,
    ) -> None:
        self.plan = plan
        self.engine = engine
        self.delivery = delivery
        self.stats = stats
        self.running = running
        self._trace = trace
        self._room = room
        self._on_rows = on_rows
        self._on_progress = on_progress
        self._binders = {
            key: Binder(form, _common_widths(devices), growing=True)
            for key, form in engine.forms.items()
        }
        self._memories = [DeviceMemory(device) for device in devices]
        places = [(m, k) for m in self._memories for k in range(m.device.lanes)]
        names_of = [f"{m.device.name}-{n}" for n, (m, _) in enumerate(places)]
        self.dispatcher = Dispatcher(
            names_of,
            POLICIES[running.policy](),
            depth=running.depth,
            most_failures=running.most_failures,
        )
        given = [d.task_evaluations for d in devices if d.task_evaluations is not None]
        self._most = running.task_evaluations or min(given, default=TASK_EVALUATIONS)
        self._pruners = {w: Pruner(running.sizes, self._most) for w in engine.forms}
        self._units = max(d.units for d in devices)
        self._gatherer = Gatherer(ordered=running.ordered)
        room.first_batch = lambda: self._gatherer.first
        room.budget.watch(RESULTS, lambda: self._gatherer.nbytes)
        self._lock = threading.RLock()
        self._bells = room.bells
        self._batch = 0
        self._events = 0
        self._error: Exception | None = None
        self.lanes = [
            Lane(
                name,
                memory,
                self._done(n),
                self._failed(n),
                trace=trace,
                timeout_s=running.timeout_s,
                room=room,
            )
            for n, (name, (memory, _)) in enumerate(zip(names_of, places, strict=True))
        ]
        here = (lane for lane in self.lanes if lane.memory.device.runs_here)
        self._lane_here = next(here, None)

    def step(
        self,
        arrivals: Sequence[Arrival],
        promises: Promises,
        timeless: Sequence[Arrival] = (),
    ) -> None:
        """Let new tuples, or only promises, into the windows; the work goes on in the lanes.

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
        # The lanes need the lock to hand over what they have done: not while keys are bound.
        step = replace(self.engine.step(arrivals, promises), timeless=tuple(timeless))
        try:  # from here on the tuples are in their windows
            self._begin(step, promises)
        except Exception as error:
            self.fail(error)
            raise

    def _begin(self, step: Step, promises: Promises) -> None:
        orders = [order for probe in step.probes for order in self._orders(probe)]
        with self._lock:
            closing = self.delivery.begin(self._batch, step, promises)
            alive = {run.number for run in self.engine.runs()}
            for binder in self._binders.values():
                binder.keep(alive)
            alive = alive.union(*(pruner.keep(alive) for pruner in self._pruners.values()))
            for memory in self._memories:
                memory.keep(alive)
            tuples = sum(len(arrival.rows) for arrival in step.entered)
            self._let_out(self._gatherer.begin(self._batch, len(orders), closing, tuples))
            self._batch += 1
        left = [order for order in orders if not self._run_here(order)]
        with self._lock:
            self._do(self.dispatcher.add(left))
        self._bells.ring()

    def check(self) -> None:
        """Raise what made the join fail, if it has failed."""
        if self._error is not None:
            raise self._error

    def drain(self, room_s: float | None = None) -> None:
        """Wait until all rows of the steps so far have been given.

        Parameters
        ----------
        room_s : float, optional
            Seconds that tasks may wait for results to be polled; None ends without an error as soon
            as one does.

        Raises
        ------
        DeviceError
            The join failed, or no task ended for long.
        OverloadError
            Nobody polled results.
        """
        # A hanging task is given up and tried elsewhere, once per lane at most.
        patience = self.running.timeout_s * (len(self.lanes) + 1)
        while self._gatherer.open and self._error is None:
            seen, waits = self._events, self._room.waits
            if waits and room_s is None:
                break
            wait_s = room_s if waits and room_s is not None else patience
            if self._bells.wait_for(partial(self._moved, seen, waits), wait_s):
                continue
            if waits:
                raise self._room.refusal(wait_s)
            raise DeviceError(
                f"{self.dispatcher.outstanding} tasks made no progress for "
                f"{patience:g} s on {', '.join(self.dispatcher.names)}"
            )
        self.check()

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition that the join's progress can change is true; whether it is."""
        self._bells.wait_for(lambda: condition() or self._error is not None, timeout_s)
        self.check()
        return condition()

    def _moved(self, seen: int, waits: bool) -> bool:
        changed = self._events != seen or self._room.waits != waits
        return changed or not self._gatherer.open or self._error is not None

    @property
    def nbytes(self) -> int:
        """Bytes of main memory that windows and preserved rows take, about."""
        pruning = sum(pruner.nbytes for pruner in self._pruners.values())
        return self.engine.nbytes + self.delivery.nbytes + pruning

    @property
    def device_nbytes(self) -> int:
        """Bytes of main memory that the devices' windows take; none of a board's."""
        return sum(memory.nbytes for memory in self._memories)

    @property
    def most_tuples(self) -> int | None:
        """Tuples of a batch, at most, if its rows are kept until all of them are there."""
        if not self.running.ordered:
            return None
        return self._room.tuples(self._gatherer.bytes_per_tuple, self._gatherer.tuples)

    @property
    def outstanding(self) -> int:
        """Batches that are not complete."""
        with self._lock:
            return self._gatherer.open

    @property
    def has_room(self) -> bool:
        """Whether another batch would keep lanes busy, and not just wait for them."""
        with self._lock:
            return self._gatherer.open < MOST_BATCHES and self.dispatcher.has_room

    def lane_reports(self) -> tuple[LaneReport, ...]:
        """What each lane does."""
        with self._lock:
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
        """End the lanes and free all device memory."""
        for lane in self.lanes:
            lane.close()
        for memory in self._memories:
            memory.close()

    def _orders(self, probe: Probe) -> list[Order]:
        if not probe.fold:  # each pair once, however many folds test it
            self.stats.pairs_in_window += probe.pairs
        arrival = probe.stream
        binder, evaluation = self._binders[probe.form], self.plan.evaluations[probe.form]
        modes = frozenset(evaluation.modes)
        made, keys = binder.bind(probe.window, arrival.rows.columns, len(arrival.rows))
        for memory in self._memories:
            refuse(memory.device, made.program, evaluation, self.plan.query.names)
        kept = np.flatnonzero(keys.possible)
        arrays, lanes = [a[kept] for a in keys.arrays], len(self.dispatcher.names)
        start, end = probe.start[kept], probe.end[kept]
        orders: list[Order] = []
        for mode in evaluation.modes:
            pruned = probe.pairs
            pruner = self._pruners[probe.form]
            for part in pruner.parts(probe.window, made, arrays, start, end, mode):
                pruned -= part.evaluations
                bound = Bound(probe, part, made, arrays, kept, mode, modes)
                orders += orders_of(self._batch, bound, lanes, self._most, self._units)
            self.stats.pairs_pruned += pruned
        return orders

    def _do(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, GiveUp):
                self.fail(instruction.error)
            else:
                self.lanes[instruction.lane].start(instruction.order)

    def fail(self, error: Exception) -> None:
        """The join cannot go on; every later call raises this."""
        with self._lock:
            if self._error is None:
                self._error = error
            self._noted()

    def _noted(self) -> None:
        self._events += 1
        self._bells.ring()
        self._on_progress()

    def _run_here(self, order: Order) -> bool:
        """Run a small order in this thread, sooner than another could begin; whether it was."""
        if order.evaluations > HERE_EVALUATIONS:
            return False
        lane = self._lane_here
        if lane is None or (chunk := lane.run_here(order)) is None:
            return False
        if chunk.rest:
            with self._lock:
                self._gatherer.more(order.batch, len(chunk.rest))
                self._do(self.dispatcher.add(chunk.rest))
        self._publish(lane.name, chunk)
        return True

    def _done(self, lane: int) -> Callable[[Chunk], None]:
        def done(chunk: Chunk) -> None:
            order = chunk.order
            with self._lock:
                first, instructions = self.dispatcher.done(lane, order)
                if first and chunk.rest:
                    self._gatherer.more(order.batch, len(chunk.rest))
                    instructions = [*instructions, *self.dispatcher.add(chunk.rest)]
                self._do(instructions)
                if not first:
                    self._noted()  # the lane is free again
                    return
            try:
                self._publish(self.dispatcher.names[lane], chunk)
            except Exception as error:  # must reach the caller, not end the lane's thread
                self.fail(error)

        return done

    def _publish(self, lane: str, chunk: Chunk) -> None:
        """Make rows of a chunk, and let out what can leave."""
        began = time.monotonic()
        rows = self.delivery.rows(chunk)
        self._trace.add(lane, "rows", began, time.monotonic())
        with self._lock:
            self.delivery.note(chunk)
            for result in chunk.results:
                self.stats.add(result.counters)
            self._let_out(self._gatherer.add(chunk.order.batch, rows))
            self._noted()

    def _failed(self, lane: int) -> Callable[[Order, Exception, bool], None]:
        def failed(order: Order, error: Exception, hung: bool) -> None:
            with self._lock:
                self._do(self.dispatcher.failed(lane, order, error, hung=hung))
                self._noted()

        return failed

    def _let_out(self, rows: Sequence[Rows]) -> None:
        for part in rows:
            self.stats.rows += part.batch.num_rows
            self._room.noted(part.batch.num_rows, part.batch.nbytes)
            self._on_rows(part)
        self.stats.stop()


def _common_widths(devices: Sequence[Device]) -> list[int]:
    """Widths of band codes that all devices offer.

    Raises
    ------
    DeviceError
    """
    widths = sorted(set.intersection(*(set(d.key_widths) for d in devices)))
    if not widths:
        offered = "; ".join(f"{d.name}: {', '.join(map(str, d.key_widths))}" for d in devices)
        raise DeviceError(
            f"the devices have no key width in common ({offered}); give them one, or use fewer"
        )
    return widths
