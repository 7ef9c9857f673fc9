"""Flights: orders whose tasks run on a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from ..device.base import Result
from .memory import Lease
from .order import Order
from .room import TaskRoom
from .task_part import TaskPart


@dataclass(eq=False)
class Flight:
    """The tasks of an order in flight, and the memory held for them."""

    order: Order
    number: int
    lease: Lease | None
    task_room: TaskRoom
    parts: list[TaskPart]
    deadline: float
    submitted: float
    ended: list[float] = field(default_factory=list)

    def over(self) -> bool:
        return all(part.future.done() for part in self.parts)


def when_over(futures: Sequence[Future[Result]], then: Callable[[], None]) -> None:
    """Call ``then`` once, when all futures are done."""
    left = set(futures)
    guard = threading.Lock()

    def ended(future: Future[Result]) -> None:
        with guard:
            left.discard(future)
            if left:
                return
        then()

    for future in futures:
        future.add_done_callback(ended)
