"""Frames through a channel: their bytes lie in slots of rings that both processes map.

The connection over which it was agreed on stays. It wakes whoever sleeps, and it ends when a
process does, so that a channel needs no other descriptor.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from penstock.errors import DeviceError

from ....channel.atomics import announce, store_release, take_announced
from ....channel.consumer import Consumer
from ....channel.message import MOST_MESSAGE_BYTES, Message, MessageKind
from ....channel.producer import Producer
from ....channel.shm import SLOT_BYTES
from ....device.fields import MalformedError
from ....wire.transport import STALL_S, FrameError, GoneError, Transport, Waiting, be_patient
from .rings import Rings

#: Words of a doorbell that say whether its process sleeps until something arrives, or until there
#: is a credit, in lines of their own: to ring for the other would wake it in vain.
ARRIVALS, CREDITS = 0, 64 // 8
_RING = b"\1"
#: Bytes of rings that are taken at once, since they heap up.
_TAKEN_BYTES = 4096
#: Bytes of a message that are sent as one buffer, which is faster than several.
_SHORT_BYTES = 1 << 14
#: Seconds between two looks for credits once the connection is ended for what is received.
_PAUSE_S = 1e-3


class ConnectionBell:
    """A doorbell whose event is a connection: who rings sends a byte through it.

    It is what :class:`~penstock.host.channel.Doorbell` is to processes with many channels, for the
    one thread of a connection.

    Parameters
    ----------
    connection : socket
    here, there : array of uint64
        Words of both sides, in memory that both map.
    stall_s : float
        Seconds of a wait, at most.

    Raises
    ------
    DeviceError
        There is no descriptor left.
    """

    def __init__(
        self, connection: socket.socket, ours: np.ndarray, theirs: np.ndarray, stall_s: float
    ) -> None:
        self._connection = connection
        self._ours, self._theirs = ours, theirs
        self._stall_s = stall_s
        # Whether the last wait was so short that spinning may do: who waits for a task, or is idle,
        # need not keep a core busy before.
        self._spins = True
        # To sleep in recv() would do. But who is woken from there is put on the core of the process
        # that rings, and both then wait for each other's spinning.
        try:
            self._poll = select.epoll()
        except OSError as cause:
            raise DeviceError(
                f"no channel: {cause.strerror}; raise ulimit -n, or use transport socket"
            ) from cause
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def ring(self, reason: int) -> None:
        """Wake the other side if it sleeps for this reason; call it once the reason is gone."""
        if take_announced(self._theirs, reason):
            # Where no ring fits any more, it wakes anyway; who has gone is found by who waits.
            with suppress(OSError):
                self._connection.send(_RING, socket.MSG_DONTWAIT)

    def wait(self, reason: int, ready: Callable[[], bool], spin_s: float) -> None:
        """Wait until something is ready, the other side has rung, or it took too long.

        Parameters
        ----------
        reason : int
            What it waits for: :data:`ARRIVALS` or :data:`CREDITS`.
        ready : callable
            Looks at the channel; must not wait.
        spin_s : float
            Seconds of asking again and again before it sleeps; not at all behind a wait that took
            twice as long.

        Raises
        ------
        GoneError
            The connection has ended, and nothing is ready.
        """
        began = time.perf_counter()
        until = began + (spin_s if self._spins else 0.0)
        while time.perf_counter() < until:
            if ready():
                return
            # Whoever was just woken may be on this core.
            os.sched_yield()
        announce(self._ours, reason)
        try:
            # Who published before it could see the announcement did not ring, but is seen here.
            if ready():
                return
            rung = bool(self._poll.poll(self._stall_s))
            self._spins = time.perf_counter() - began < 2 * spin_s
        finally:
            store_release(self._ours, reason, 0)
        if rung and not self._take_rings() and not ready():
            raise GoneError("the connection was closed")

    def close(self) -> None:
        """Wait no more."""
        self._poll.close()

    def _take_rings(self) -> bool:
        """Read the rings that came through the connection; False if it has ended."""
        try:
            return bool(self._connection.recv(_TAKEN_BYTES, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False


class ChannelTransport(Transport):
    """One end of a channel each way. One thread at a time sends or receives.

    What has arrived is copied out of the slots before anybody looks at it, since the other side can
    change it at any time.

    Parameters
    ----------
    connection : socket
        Between both processes. Nothing else is sent through it from now on.
    rings : Rings
    is_server : bool
    spin_s : callable
        Seconds that the next wait may spin.
    stall_s : float

    Raises
    ------
    MalformedError
        They are no rings.
    """

    def __init__(
        self,
        connection: socket.socket,
        rings: Rings,
        *,
        is_server: bool,
        spin_s: Callable[[], float],
        stall_s: float = STALL_S,
    ) -> None:
        super().__init__(connection, stall_s)
        ours, theirs = int(is_server), int(not is_server)
        arriving, leaving = rings.ring(ours), rings.ring(theirs)
        bells = rings.bell(ours), rings.bell(theirs)
        self._bell = bell = ConnectionBell(connection, *bells, stall_s)
        self._producer = Producer(leaving, ring=partial(bell.ring, ARRIVALS))
        self._consumer = Consumer(arriving, ring=partial(bell.ring, CREDITS))
        self._spin_s = spin_s
        # The slot that is read, and what is left of it.
        self._message: Message | None = None
        self._part = memoryview(b"")

    def begin(self) -> None:
        be_patient(self.connection, self.stall_s)

    def send(self, buffers: list[memoryview], waiting: Waiting) -> None:
        size = sum(map(len, buffers))
        whole: Any = b"".join(buffers) if size <= _SHORT_BYTES else buffers
        try:
            for message in [whole] if size <= MOST_MESSAGE_BYTES else buffers:
                if not self._producer.send(MessageKind.ROWS, message):
                    self._pump(waiting)
        except MalformedError as cause:
            raise GoneError(str(cause)) from cause

    def offer(self, data: bytes) -> None:
        if not self._producer.pending and len(data) <= self._producer.capacity:
            try:
                if self._producer.credits:
                    self._producer.send(MessageKind.ROWS, data)
            except MalformedError as cause:
                raise GoneError(str(cause)) from cause

    def fill(self, memory: memoryview, waiting: Waiting, *, patient: bool = False) -> None:
        while len(memory):
            if not self._part:
                read = 0
                if len(memory) >= SLOT_BYTES:
                    read = self._consumer.read_into(np.frombuffer(memory, np.uint8))
                if read:
                    memory, patient = memory[read:], False
                    continue
                self._take(waiting, patient)
            count = min(len(memory), len(self._part))
            memory[:count] = self._part[:count]
            memory, self._part, patient = memory[count:], self._part[count:], False
            if not self._part and self._message is not None:
                self._consumer.done(self._message)

    def close(self) -> None:
        self._bell.close()
        super().close()

    def _take(self, waiting: Waiting, patient: bool) -> None:
        """Wait for the next slot."""
        consumer, deadline = self._consumer, time.monotonic() + self.stall_s
        try:
            while (message := consumer.receive(whole=False)) is None:
                if patient and self.over:
                    raise GoneError("the connection was ended")
                with waiting():
                    self._bell.wait(ARRIVALS, lambda: consumer.has_arrived, self._spin_s())
                # This process may have been stopped itself meanwhile: then there is something.
                if time.monotonic() > deadline and not consumer.has_arrived:
                    consumer.check()
                    if not patient:
                        raise GoneError("it stopped within a message")
        except MalformedError as cause:
            raise FrameError(str(cause)) from cause
        if message.kind is not MessageKind.ROWS or not message.payload:
            raise FrameError(f"frames are rows of bytes, and {message!r} has come")
        self._message, self._part = message, message.payload

    def _pump(self, waiting: Waiting) -> None:
        """Send what waits for credits."""
        producer = self._producer
        deadline, sent = time.monotonic() + self.stall_s, producer.sent
        while not producer.pump():
            if producer.sent != sent:
                deadline, sent = time.monotonic() + self.stall_s, producer.sent
            elif time.monotonic() > deadline:
                raise GoneError("it takes nothing")
            with waiting():
                try:
                    self._bell.wait(CREDITS, lambda: producer.credits > 0, self._spin_s())
                except GoneError:
                    if self.cut or not self.over:
                        raise
                    # Ended for what is received, so that the bell says nothing any more.
                    time.sleep(_PAUSE_S)
