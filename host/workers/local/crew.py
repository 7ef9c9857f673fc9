"""Worker processes of a stream on this machine, as the stream's process sees them."""

from __future__ import annotations

import json
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from penstock.errors import PenstockError, ProcessError

from ...channel import Doorbell, MessageKind
from ...wire.errors import error_from
from ..dealt import unpacked
from ..job import WorkerStart
from ..members import as_bytes, require_equal
from ..protocol.coding import decode, encode
from ..protocol.messages import Message, OutputRows
from ..upstream import WorkerStatus, status_from
from .child import START_S
from .spawning import WorkerProcess
from .wiring import Wiring

#: Seconds that children may take to end by themselves once their channel is closed.
_GRACE_S = 20.0


class StartError(ProcessError):
    """A worker has ended while it began; another attempt may succeed."""


class Crew:
    """Worker processes of one incarnation, and the channels to them.

    Parameters
    ----------
    starts : sequence of WorkerStart
        By rank.
    facts : mapping
        Facts that must be the same on all members, as the stream has them.
    schema : pyarrow.Schema
        Of output rows.
    bell : Doorbell
        Of this process.
    lock : int or None
        Descriptor of the checkpoint's lock, which children also hold.
    armed : bool
        As for :class:`~.spawning.WorkerProcess`.

    Raises
    ------
    ProcessError
        A worker did not come up, or does not run the same.
    PenstockError
        A worker cannot work; the error is its own.
    """

    def __init__(
        self,
        starts: Sequence[WorkerStart],
        facts: dict[str, str],
        schema: pa.Schema,
        bell: Doorbell,
        lock: int | None,
        armed: bool = True,
    ) -> None:
        self.size = len(starts)
        self._schema = schema
        self._bell = bell
        self._wiring = Wiring(self.size, bell)
        self._processes: list[WorkerProcess] = []
        #: Last time at which each worker took a message, or had none to take.
        self._moved = [time.monotonic()] * self.size
        self._credits = [0] * self.size
        try:
            for rank in range(self.size):
                self._processes.append(WorkerProcess(rank, armed))
            for rank, (start, process) in enumerate(zip(starts, self._processes, strict=True)):
                files = self._wiring.files_for(rank) + ([] if lock is None else [lock])
                process.line.send(start, START_S, files)
            self._wiring.sent()
            self._compare(as_bytes(facts))
            self._await("ready")
        except BaseException:
            self.kill()
            raise
        for rank, process in enumerate(self._processes):
            bell.watch(process.pidfd, f"worker {rank}")

    # The start.

    def _compare(self, mine: bytes) -> None:
        """Pass on the facts of all members, and compare them with this process's."""
        facts = [answer for _, answer in self._await("exchange")]
        for process in self._processes:
            process.line.send(facts, START_S)
        require_equal(facts, mine)

    def _await(self, wanted: str) -> list[tuple[str, bytes]]:
        """Wait for a message of a kind from each worker; returns them by rank."""
        deadline = time.monotonic() + START_S
        answers: list[tuple[str, bytes] | None] = [None] * self.size
        while None in answers:
            waiting = [p for p in self._processes if answers[p.rank] is None]
            files = [p.line for p in waiting if not p.line.has_more]
            ready = select.select(files, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready and len(files) == len(waiting):
                raise ProcessError(
                    f"worker {waiting[0].rank} did not come up within {START_S:g} s; the machine "
                    "is too busy, or has too little memory: use fewer workers"
                )
            for process in waiting:
                if process.line in ready or process.line.has_more:
                    answers[process.rank] = self._answer(process, wanted)
        return [one for one in answers if one is not None]

    def _answer(self, process: WorkerProcess, wanted: str) -> tuple[str, bytes]:
        try:
            kind, body = process.line.receive(START_S)[0]
        except ProcessError:
            process.end(_GRACE_S)
            raise StartError(
                f"worker {process.rank} {process.how_it_ended()} while it began, perhaps for want "
                "of memory; use fewer workers"
            ) from None
        if kind == "failed":
            raise error_from(body, f"worker {process.rank}")
        assert kind == wanted
        return kind, body

    # Messages.

    def credits(self, rank: int) -> int:
        """Return the credits of a worker's channel: how many slots can be filled."""
        return self._wiring.producers[rank].credits

    def may_send(self, rank: int) -> bool:
        """Whether a message can be sent, since the last one was sent as a whole."""
        return not self._wiring.producers[rank].pending

    def send(self, rank: int, message: Message) -> None:
        """Begin to send a message; :meth:`pump` goes on with it if credits run out."""
        self._wiring.producers[rank].send(MessageKind[message.kind], encode(message))

    def pump(self) -> bool:
        """Go on with messages that wait for credits; returns whether anything was sent."""
        moved = False
        for producer in self._wiring.producers:
            if producer.pending and producer.credits:
                producer.pump()
                moved = True
        return moved

    def has_arrived(self, rank: int) -> bool:
        """Whether a message of a worker has arrived."""
        return self._wiring.consumers[rank].has_arrived

    def can_pump(self) -> bool:
        """Whether credits have come for a message that waits for them."""
        return any(p.pending and p.credits for p in self._wiring.producers)

    def receive(self, rank: int) -> Message | WorkerStatus | None:
        """Return a copy of the next message of a worker; None if there is none.

        Raises
        ------
        MalformedError
        """
        consumer = self._wiring.consumers[rank]
        received = consumer.receive()
        if received is None:
            return None
        payload = bytes(received.payload)
        consumer.done(received)
        if received.kind is MessageKind.HELLO:
            return status_from(json.loads(payload))
        message = decode(received.kind.name, payload)
        if isinstance(message, OutputRows):
            return replace(message, body=unpacked(message.body, self._schema))
        return message

    # Lives and ends.

    def stalled(self, now: float) -> list[tuple[int, float]]:
        """Return ranks of workers that take no messages though some wait, and for how long."""
        stalled = []
        for rank, producer in enumerate(self._wiring.producers):
            credits = producer.credits
            if credits == producer.slots or credits != self._credits[rank]:
                self._moved[rank] = now
            elif now > self._moved[rank]:
                stalled.append((rank, now - self._moved[rank]))
            self._credits[rank] = credits
        return stalled

    def ended(self) -> list[int]:
        """Return the ranks of workers that have ended."""
        return [p.rank for p in self._processes if p.has_ended]

    def error_of(self, rank: int) -> PenstockError | None:
        """Return the error that a worker ended with; None if it was killed."""
        line = self._processes[rank].line
        try:
            while line.has_more or select.select([line], [], [], 0)[0]:
                kind, body = line.receive(_GRACE_S)[0]
                if kind == "failed":
                    return error_from(body, f"worker {rank}")
        except ProcessError:
            return None
        return None

    def how_it_ended(self, rank: int) -> str:
        """Return how a worker's process has ended, as errors say it."""
        process = self._processes[rank]
        return f"worker {rank} (process {process.pid}) {process.how_it_ended()}"

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes, by rank."""
        return [process.pid for process in self._processes]

    def close(self) -> None:
        """Let workers end by themselves, and kill any that do not."""
        for producer in self._wiring.producers:
            with suppress(PenstockError):
                if not producer.pending and not producer.closed:
                    producer.send(MessageKind.CLOSE)
        self._end(_GRACE_S)

    def kill(self) -> None:
        """Kill all workers."""
        self._end(0.0)

    def _end(self, grace_s: float) -> None:
        deadline = time.monotonic() + grace_s
        if not grace_s:
            for process in self._processes:  # all at once: none sees another's end
                process.kill()
        for process in self._processes:
            self._bell.unwatch(process.pidfd)
            process.end(max(0.0, deadline - time.monotonic()))
        self._processes = []
        self._wiring.close()
