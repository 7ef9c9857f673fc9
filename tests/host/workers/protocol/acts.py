"""What is done to one machine at a time, besides its own methods."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from penstock.host.device.fields import MalformedError
from penstock.host.workers.protocol.commit import WorkerPart
from penstock.host.workers.protocol.messages import DeltaBlock, Message, PartWritten
from penstock.host.workers.protocol.parent import Parent
from penstock.host.workers.protocol.worker import Worker


def pop(machine: Any, receiver: int) -> Message:
    return machine.outgoing[receiver].popleft()


def arrived_twice(worker: Worker, sender: int, message: Message) -> None:
    worker.arrived(sender, message)
    if isinstance(message, DeltaBlock):
        with suppress(MalformedError):
            worker.arrived(sender, message)


def commit(parent: Parent) -> None:
    record = parent.ready
    assert record is not None
    parent.commit(record)


def take_results(worker: Worker) -> tuple[Message, ...]:
    results = tuple(worker.results)
    worker.results.clear()
    return results


def take_part(worker: Worker) -> WorkerPart:
    return worker.parts.popleft()


def written(part: WorkerPart) -> PartWritten:
    """What a worker tells the parent once its part is written."""
    name = f"{part.number}.{part.rank}.{part.incarnation}"
    state = f"{name}.state".encode() if part.state else b""
    rows = f"{name}.rows".encode() if part.rows else b""
    return PartWritten(part.incarnation, part.number, state, rows)


def replaced(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])
