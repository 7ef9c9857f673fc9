"""The workers that a stream has started on this machine, from its side."""

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
from ..upstream import Status, status_from
from .child import START_S
from .spawning import WorkerProcess
from .wiring import Wiring

#: Seconds in which children end by themselves once their channel is closed.
_GRACE_S = 20.0


class StartError(ProcessError):
    """A worker has ended while it began; it may come up another time."""


class Crew:
    """The processes of one incarnation and the channels to them.

    Parameters
    ----------
    starts : sequence of WorkerStart
        By rank.
    facts : mapping
        What must be the same on all members, as the stream has it.
    schema : pyarrow.Schema
        Of output rows.
    bell : Doorbell
        Of this process.
    lock : int or None
        Descriptor of the checkpoint's lock, which children hold, too.
    armed : bool
        As for :class:`~.spawning.WorkerProcess`.

    Raises
    ------
    ProcessError
        A worker did not come up, or does not run the same.
    PenstockError
        A worker cannot work: what it says.
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
        #: When each worker last took something, or had nothing to take.
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
        """Pass on what members say of themselves, and compare it with what this process has."""
        said = [what for _, what in self._await("exchange")]
        for process in self._processes:
            process.line.send(said, START_S)
        require_equal(said, mine)

    def _await(self, wanted: str) -> list[tuple[str, bytes]]:
        """Wait until each worker has said something of a kind; returns what, by rank."""
        deadline = time.monotonic() + START_S
        said: list[tuple[str, bytes] | None] = [None] * self.size
        while None in said:
            waiting = [p for p in self._processes if said[p.rank] is None]
            files = [p.line for p in waiting if not p.line.has_more]
            ready = select.select(files, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready and len(files) == len(waiting):
                raise ProcessError(
                    f"worker {waiting[0].rank} did not come up within {START_S:g} s; the machine "
                    "is too busy, or has too little memory: use fewer workers"
                )
            for process in waiting:
                if process.line in ready or process.line.has_more:
                    said[process.rank] = self._said(process, wanted)
        return [one for one in said if one is not None]

    def _said(self, process: WorkerProcess, wanted: str) -> tuple[str, bytes]:
        try:
            kind, what = process.line.receive(START_S)[0]
        except ProcessError:
            process.end(_GRACE_S)
            raise StartError(
                f"worker {process.rank} {process.how_it_ended()} while it began, perhaps for want "
                "of memory; use fewer workers"
            ) from None
        if kind == "failed":
            raise error_from(what, f"worker {process.rank}")
        assert kind == wanted
        return kind, what

    # Messages.

    def credits(self, rank: int) -> int:
        """Return the slots that can be filled of a worker's channel."""
        return self._wiring.producers[rank].credits

    def may_send(self, rank: int) -> bool:
        """Whether a message can be sent, since all of the last one was."""
        return not self._wiring.producers[rank].pending

    def send(self, rank: int, message: Message) -> None:
        """Send a message; what there are no credits for goes on by :meth:`pump`."""
        self._wiring.producers[rank].send(MessageKind[message.kind], encode(message))

    def pump(self) -> bool:
        """Go on with messages that wait for credits; whether anything has moved."""
        moved = False
        for producer in self._wiring.producers:
            if producer.pending and producer.credits:
                producer.pump()
                moved = True
        return moved

    def has_arrived(self, rank: int) -> bool:
        """Whether a worker has sent something."""
        return self._wiring.consumers[rank].has_arrived

    def can_pump(self) -> bool:
        """Whether credits have come for a message that waits for them."""
        return any(p.pending and p.credits for p in self._wiring.producers)

    def receive(self, rank: int) -> Message | Status | None:
        """Return the next message of a worker, in memory of its own; None if there is none.

        Raises
        ------
        MalformedError
        """
        consumer = self._wiring.consumers[rank]
        found = consumer.receive()
        if found is None:
            return None
        payload = bytes(found.payload)
        consumer.done(found)
        if found.kind is MessageKind.HELLO:
            return status_from(json.loads(payload))
        message = decode(found.kind.name, payload)
        if isinstance(message, OutputRows):
            return replace(message, body=unpacked(message.body, self._schema))
        return message

    # Lives and ends.

    def stalled(self, now: float) -> list[tuple[int, float]]:
        """Return ranks of workers that have not taken what they were sent, and for how long."""
        found = []
        for rank, producer in enumerate(self._wiring.producers):
            credits = producer.credits
            if credits == producer.slots or credits != self._credits[rank]:
                self._moved[rank] = now
            elif now > self._moved[rank]:
                found.append((rank, now - self._moved[rank]))
            self._credits[rank] = credits
        return found

    def ended(self) -> list[int]:
        """Return the ranks of workers that have ended."""
        return [p.rank for p in self._processes if p.has_ended]

    def error_of(self, rank: int) -> PenstockError | None:
        """Return the error that a worker ended with; None if it was killed."""
        line = self._processes[rank].line
        try:
            while line.has_more or select.select([line], [], [], 0)[0]:
                kind, what = line.receive(_GRACE_S)[0]
                if kind == "failed":
                    return error_from(what, f"worker {rank}")
        except ProcessError:
            return None
        return None

    def how_it_ended(self, rank: int) -> str:
        """Return what became of a worker."""
        process = self._processes[rank]
        return f"worker {rank} (process {process.pid}) {process.how_it_ended()}"

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes, by rank."""
        return [process.pid for process in self._processes]

    def close(self) -> None:
        """Let workers end by themselves, and kill those that do not."""
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
