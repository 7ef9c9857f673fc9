"""The window-join operator in a client's session: kernels and tasks of the second operation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from penstock.errors import DeviceError, OverloadError
from penstock.host.device.base import PAIRS
from penstock.host.device.window_join import WindowKernel
from penstock.host.server.checks import check_arrivals, pair_bytes
from penstock.host.server.limits import Limits
from penstock.host.server.owner import Owner
from penstock.host.server.place import Place
from penstock.host.server.traffic import Hold
from penstock.host.wire.arrivals import arrivals_from, join_from, join_result_message, rows_from
from penstock.host.wire.message import Header, field

Columns = Sequence[np.ndarray]
Reply = tuple[Header, Columns | None]
Call = Callable[[Header, Columns, Hold], Reply]


@dataclass(eq=False)
class _Join:
    kernel: WindowKernel
    #: Its tasks that wait or run.
    users: int = 0
    closed: bool = False


class JoinCalls:
    """Window-join kernels of one client.

    Parameters
    ----------
    client : str
        Key of its session.
    owner : Owner
    limits : Limits
    place : Place
        Where its calls are handled.
    """

    def __init__(self, client: str, owner: Owner, limits: Limits, place: Place) -> None:
        self._client = client
        self._owner = owner
        self._limits = limits
        self._place = place
        self._lock = threading.Lock()
        self._over = False
        self._numbers = count(1)
        self._joins: dict[int, _Join] = {}
        self.calls: dict[str, Call] = {
            "refuses join": self._refuses,
            "open join": self._open,
            "close join": self._close,
            "join room": self._room,
            "join task": self._task,
        }

    def end(self) -> None:
        """Close all kernels, each when its tasks are over."""
        with self._lock:
            self._over = True
            joins = list(self._joins.values())
            self._joins.clear()
        for join in joins:
            self._leave(join, closed=True)

    def _check(self) -> None:
        with self._lock:
            if self._over:
                raise DeviceError("the session ended while a kernel was opened")

    def _refuses(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        return {"reason": self._owner.device.refuses_window_join(*join_from(header))}, None

    def _open(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        program, rows = join_from(header)
        with self._lock:
            if len(self._joins) >= self._limits.kernels:
                raise OverloadError(
                    f"this client has {len(self._joins)} window-join kernels open, which is the "
                    "most; close some"
                )
        with self._place.left():
            kernel = self._owner.compiler.opened(
                self._client,
                [(program.a, PAIRS), (program.b, PAIRS)],
                lambda: self._owner.device.open_window_join(program, rows),
                self._check,
            )
        join = _Join(kernel)
        number = next(self._numbers)
        with self._lock:
            over = self._over
            if not over:
                self._joins[number] = join
        if over:
            self._leave(join, closed=True)
            raise DeviceError("the session ended while a kernel was opened")
        return {"join": number}, None

    def _close(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        with self._lock:
            join = self._joins.pop(field(header, "join", int), None)
        if join is not None:
            self._leave(join, closed=True)
        return {}, None

    def _room(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        rows, join = rows_from(header), self._held(header)
        try:
            return {"min_room": join.kernel.min_room(rows)}, None
        finally:
            self._leave(join)

    def _task(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        rows_from(header)
        join = self._held(header)
        try:
            task = arrivals_from(header, columns)
            check_arrivals(join.kernel.program, task, self._limits.join_evaluations)
            # A window holds no more tuples than there are, so what the task says beyond is no
            # reason for room. What the kernel may find at once needs room, whatever the limit.
            rows = min(task.rows[0], len(task.tuples)), min(task.rows[1], len(task.tuples))
            most = max(self._limits.room, join.kernel.min_room(rows))
            task = replace(task, rows=rows, room=min(task.room, most))
            hold.more(pair_bytes(task.room))
            future = self._owner.submit(self._client, lambda: join.kernel.submit(task))
        except BaseException:
            self._leave(join)
            raise
        future.add_done_callback(lambda _: self._leave(join))
        with self._place.left():
            result = self._owner.result(future)
        return join_result_message(result)

    def _held(self, header: Header) -> _Join:
        """A kernel, with one user more."""
        number = field(header, "join", int)
        with self._lock:
            join = self._joins.get(number)
            if join is None:
                raise DeviceError(f"window-join kernel {number} was closed, or never was open")
            join.users += 1
            return join

    def _leave(self, join: _Join, closed: bool = False) -> None:
        """One user less, or none to come; after the last one the kernel is closed."""
        with self._lock:
            if closed:
                join.closed = True
            else:
                join.users -= 1
            if join.users or not join.closed:
                return
        # The kernel waits for its threads, and this may be one of them.
        self._owner.later(join.kernel.close)
