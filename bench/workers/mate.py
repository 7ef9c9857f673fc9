"""One of several workers that make their own input: no parent deals rows to them.

As the paper has its executors: each has rows of its own in memory and folds them, and ships changes
of groups to the leaders of their keys. What workers are made of is Penstock's: their state, their
protocol and their channels; here is only the loop that a process of an engine would run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bench.peers.turns import Answer
from bench.workers.jobs import answer
from bench.workers.tasks import Inputs, Task
from penstock.errors import PenstockError
from penstock.host.channel import Consumer, Doorbell, MessageKind, Producer
from penstock.host.workers.protocol.coding import decode, encode
from penstock.host.workers.protocol.messages import DealtRows, Promise
from penstock.host.workers.protocol.worker import Worker
from penstock.host.workers.work import Work
from penstock.plan.window import FOREVER

#: Bytes of input after which an epoch ends (§7.1.2).
EPOCH_BYTES = 64 << 20

#: Batches after which it is looked whether a window can close: some 10 ms at the rates of here.
_LOOK_BATCHES = 4

#: Seconds without a message of another worker, after which something is wrong.
_QUIET_S = 120.0


@dataclass
class Counts:
    """What a worker did with its channels.

    Parameters
    ----------
    messages : int
        Sent.
    credit_waits : int
        Times that a message found less room than it needed.
    waits : int
        Times that there was nothing to do.
    """

    messages: int = 0
    credit_waits: int = 0
    waits: int = 0


@dataclass(frozen=True)
class Stint:
    """What a worker did of one job.

    Parameters
    ----------
    began, ended : float
        Of the clock that all processes of a machine share, in seconds.
    cpu : float
        Seconds of this process.
    answer : Answer
        Of the groups that it leads.
    epochs : int
    sent_bytes : int
        Of changes, or rows, to other workers.
    rows : int
        That were folded here.
    counts : Counts
    """

    began: float
    ended: float
    cpu: float
    answer: Answer
    epochs: int
    sent_bytes: int
    rows: int
    counts: Counts


@dataclass(frozen=True)
class Ends:
    """A worker's ends of all channels.

    Parameters
    ----------
    rank, size : int
    producers, consumers : sequence
        Channels to and from each worker, by rank; None for itself.
    bell : Doorbell
    """

    rank: int
    size: int
    producers: Sequence[Producer | None]
    consumers: Sequence[Consumer | None]
    bell: Doorbell

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait for other workers.

        Raises
        ------
        PenstockError
            They do nothing.
        """
        if not self.bell.wait(ready, _QUIET_S):
            raise PenstockError(f"no worker sent or took anything for {_QUIET_S:g} s")


class Mate:
    """A worker of several."""

    def __init__(self, ends: Ends) -> None:
        self.rank, self.size = ends.rank, ends.size
        self._ends = ends
        self._producers = ends.producers
        self._consumers = ends.consumers
        self._incarnation = 0
        self._sent_bytes = 0
        self._counts = Counts()
        # When the last epoch ended, and how long it took to let rows go.
        self._ended = self._took_s = 0.0
        # Whether a message of each channel is sent in part.
        self._is_cut = [False] * ends.size

    def run(self, job: Task, inputs: Inputs) -> Stint:
        """Take in rows, and give all that this worker leads."""
        work = job.work(self.size)
        self._incarnation += 1
        self._sent_bytes = 0
        self._counts = Counts()
        self._ended, self._took_s = time.perf_counter(), 0.0
        began, cpu = time.perf_counter(), time.process_time()
        worker = Worker(
            self.rank,
            self.size,
            work.state(self.rank),
            work.limit,
            incarnation=self._incarnation,
            shares_steps=work.shares_steps,
        )
        self._fold(worker, work, inputs)
        self._end(worker, len(work.sides))
        rows = [output.body for output in worker.results]
        ended, cpu = time.perf_counter(), time.process_time() - cpu
        found = pa.Table.from_batches(rows, work.hidden).select(work.output.names)
        work.close()
        return Stint(
            began,
            ended,
            cpu,
            answer(found),
            worker.epoch,
            self._sent_bytes,
            sum(batch.num_rows for _, batch in inputs),
            self._counts,
        )

    def _fold(self, worker: Worker, work: Work, inputs: Inputs) -> None:
        sides = len(work.sides)
        dealt = [
            (source, batch.select(work.dealt_schemas[source].names)) for source, batch in inputs
        ]
        first, waiting = [0] * sides, 0
        for number, (source, batch) in enumerate(dealt, start=1):
            feed = sides * self.rank + source
            worker.take_dealt(DealtRows(self._incarnation, number, feed, first[source], batch))
            first[source] += batch.num_rows
            waiting += batch.nbytes
            self._step(worker)
            is_long = waiting >= EPOCH_BYTES
            if (is_long or number % _LOOK_BATCHES == 0) and "t" in batch.schema.names:
                # Rows are in order of time, so none is below the last one's.
                last = batch["t"][-1].cast(pa.int64()).as_py()
                worker.take_dealt(Promise(self._incarnation, feed, last))
            if is_long or (number % _LOOK_BATCHES == 0 and self._may_close(worker)):
                self._until(worker, lambda: worker.may_end)
                worker.end_epoch()
                self._ended = time.perf_counter()
                waiting = 0

    def _may_close(self, worker: Worker) -> bool:
        """Whether a window can close, and steps take half of the time at most, as they do there."""
        waited_s = time.perf_counter() - self._ended
        return waited_s >= 2 * self._took_s and worker.can_close

    def _end(self, worker: Worker, sides: int) -> None:
        for source in range(sides):
            worker.take_dealt(Promise(self._incarnation, sides * self.rank + source, FOREVER))
        self._until(worker, lambda: worker.may_end)
        worker.end_epoch()
        self._until(
            worker,
            lambda: worker.may_end and worker.clock.time == FOREVER and not worker.can_release,
        )

    def _until(self, worker: Worker, is_so: Callable[[], bool]) -> None:
        """Send and serve until something is so; waits while neither can go on."""
        while not is_so():
            if not self._step(worker):
                self._counts.waits += 1
                self._ends.wait(lambda: self._can_step(worker))

    def _step(self, worker: Worker) -> bool:
        """Send what credits allow, and merge what has arrived; whether there was any.

        Complete groups leave when there was none: other workers wait for the rest.
        """
        has_moved = False
        for receiver, producer in enumerate(self._producers):
            has_moved |= producer is not None and self._send(worker, receiver, producer)
        for sender, consumer in enumerate(self._consumers):
            while consumer is not None and (message := consumer.receive()) is not None:
                worker.arrived(sender, decode(message.kind.name, message.payload))
                consumer.done(message)
                has_moved = True
        if worker.should_release(is_idle=not has_moved):
            began = time.perf_counter()
            worker.release()
            self._took_s = time.perf_counter() - began
            has_moved = True
        return has_moved

    def _send(self, worker: Worker, receiver: int, producer: Producer) -> bool:
        """Send the messages of a channel as far as its credits go; whether it took any."""
        queue, before = worker.outgoing[receiver], producer.sent
        while queue:
            if self._is_cut[receiver]:
                is_sent = producer.pump()
            else:
                parts = encode(queue[0])
                self._sent_bytes += sum(memoryview(part).nbytes for part in parts)
                is_sent = producer.send(MessageKind[queue[0].kind], parts)
                self._counts.messages += 1
            self._is_cut[receiver] = not is_sent
            if not is_sent:
                self._counts.credit_waits += 1
                break
            # Not before: what is sent is the memory of the state's logs.
            queue.popleft()
        return producer.sent != before

    def _can_step(self, worker: Worker) -> bool:
        """Whether there is something to merge, or credit for something to send."""
        if any(own is not None and own.has_arrived for own in self._consumers):
            return True
        return any(
            producer is not None and queue and producer.credits > 0
            for producer, queue in zip(self._producers, worker.outgoing, strict=True)
        )
