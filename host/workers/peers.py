"""Channels between a worker and the other workers (paper 2, section 6)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..channel import Consumer, MessageKind, Producer
from .points import reached
from .protocol.coding import decode, encode
from .protocol.messages import DeltaBlock, Note
from .protocol.worker import Worker

#: Messages taken from one worker before others get their turn.
_TURN = 8


@dataclass(frozen=True)
class PeerChannels:
    """The channels to and from another worker."""

    producer: Producer
    consumer: Consumer


class PeerLinks:
    """Links of a worker to all others: sends its messages, delivers theirs; never waits.

    Parameters
    ----------
    channels : sequence of PeerChannels or None
        By rank; None for the worker's own.
    on_note : callable, optional
        Called with each note, and the rank that it comes from.

    Attributes
    ----------
    delta_bytes : int
        Sent to leaders.
    credit_waits : int
        How often there was a message to send and no credit.
    """

    def __init__(
        self,
        channels: Sequence[PeerChannels | None],
        on_note: Callable[[int, Note], None] | None = None,
    ) -> None:
        self._on_note = on_note
        self._channels = [(rank, one) for rank, one in enumerate(channels) if one is not None]
        self.delta_bytes = self.credit_waits = 0

    def send(self, worker: Worker) -> bool:
        """Send messages while there are credits; returns whether anything was sent."""
        moved = False
        for rank, channels in self._channels:
            moved |= self._send_to(worker, rank, channels.producer)
        return moved

    def _send_to(self, worker: Worker, rank: int, producer: Producer) -> bool:
        queue, moved = worker.outgoing[rank], False
        if producer.pending:
            moved = producer.credits > 0
            if not producer.pump():
                return moved
            queue.popleft()
        while queue:
            message = queue[0]
            parts = encode(message)
            if isinstance(message, DeltaBlock):
                self.delta_bytes += sum(memoryview(part).nbytes for part in parts)
            moved = True
            # It stays in the queue until all of it is sent: blocks are the memory of logs.
            if not producer.send(MessageKind[message.kind], parts):
                reached("between slots")
                self.credit_waits += 1
                break
            queue.popleft()
        return moved

    def serve(self, worker: Worker, merged: Callable[[float, int], None]) -> bool:
        """Deliver arrived messages that the worker may read; returns whether there was any.

        Parameters
        ----------
        merged : callable
            Called after each merge, with the time it began and its number of entries.
        """
        moved = False
        for rank, channels in self._channels:
            for _ in range(_TURN):
                message = channels.consumer.receive() if worker.may_read(rank) else None
                if message is None:
                    break
                began, before = time.monotonic(), worker.merged
                content = decode(message.kind.name, message.payload)
                if isinstance(content, Note) and self._on_note is not None:
                    self._on_note(rank, content)
                else:
                    worker.arrived(rank, content)
                channels.consumer.done(message)
                reached("merge")
                if worker.merged > before:
                    merged(began, worker.merged - before)
                moved = True
        return moved

    def can_send(self) -> bool:
        """Whether credits have come for a message that waits."""
        return any(one.producer.pending and one.producer.credits for _, one in self._channels)

    def is_ready(self, worker: Worker) -> bool:
        """Whether a message has arrived, or credits for a message that waits."""
        return any(
            (worker.may_read(rank) and one.consumer.has_arrived)
            or (one.producer.pending and one.producer.credits)
            for rank, one in self._channels
        )
