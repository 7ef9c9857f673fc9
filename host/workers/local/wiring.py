"""Rings and doorbells of a crew: made by the parent, which hands each child its ends.

Every two processes have a channel each way; each process has one doorbell, and one memory with the
rings that it reads. None has a name, so the system frees each with the last process that has it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from ...channel import Consumer, Doorbell, Producer, Ringer, spin_seconds
from ...channel.shm import attach_consumer, attach_producer, create
from ...wire.sealed import memory_or_remedy
from ..joining.runs import create_board
from ..peers import PeerChannels


@dataclass(frozen=True)
class ChildEnds:
    """A child's ends: its doorbell and a ringer of it, the parent's channels, peers by rank.

    ``board`` is the descriptor of the board of shared runs, which the child owns.
    """

    bell: Doorbell
    ringer: Ringer
    board: int
    consumer: Consumer
    producer: Producer
    peers: list[PeerChannels | None]


class Wiring:
    """All channels of one incarnation, at the parent.

    Parameters
    ----------
    size : int
        Workers.
    bell : Doorbell
        Of the parent, which outlives this.
    crc : bool
        Whether slots have checksums.
    """

    def __init__(self, size: int, bell: Doorbell, crc: bool = False) -> None:
        self.size = size
        self._parent_files = bell.files
        spins = spin_seconds(size) > 0
        with ExitStack() as undo:
            #: Closes resources that only children need.
            self._to_send = undo.enter_context(ExitStack())
            self._ringers: list[Ringer] = []
            undo.callback(self._close_ringers)
            self._bells: list[Doorbell] = []
            for _ in range(size):
                self._bells.append(Doorbell.create())
                self._to_send.callback(self._bells[-1].close)
                self._ringers.append(ringer_of(self._bells[-1]))
            self._board = create_board()
            self._to_send.callback(os.close, self._board)
            #: Memory of the rings that each process reads, by rank; the last is the parent's. It
            #: has a ring from each other one, in the order of ranks, the parent last.
            self._rings: list[int] = []
            for _ in range(size + 1):
                ends = create(crc=crc, rings=size)
                self._to_send.callback(ends.close)
                self._rings.append(ends.file)
            #: The parent's ends, by rank.
            self.producers = [
                attach_producer(
                    self._rings[rank],
                    self._ringers[rank].ring,
                    spins=spins,
                    place=(size - 1, size),
                )
                for rank in range(size)
            ]
            self.consumers = [
                attach_consumer(
                    self._rings[-1], self._ringers[rank].ring, spins=spins, place=(rank, size)
                )
                for rank in range(size)
            ]
            undo.pop_all()

    def files_for(self, rank: int) -> list[int]:
        """Return the descriptors that a child needs, in the order that :func:`child_ends` reads."""
        other_ranks = [other for other in range(self.size) if other != rank]
        files = [self._board, *self._bells[rank].files, *self._parent_files]
        files += [file for other in other_ranks for file in self._bells[other].files]
        return files + self._rings

    def sent(self) -> None:
        """Close resources that only children need, once they have them."""
        self._to_send.close()

    def close(self) -> None:
        """Close everything; children notice that nobody rings."""
        self.sent()
        self._close_ringers()

    def _close_ringers(self) -> None:
        for ringer in self._ringers:
            ringer.close()


def child_ends(rank: int, size: int, files: Sequence[int]) -> ChildEnds:
    """Make a child's ends from the descriptors of :meth:`Wiring.files_for`, which it now owns."""
    other_ranks = [other for other in range(size) if other != rank]
    board, *files = files
    bells, rings = files[: 2 * size + 2], files[2 * size + 2 :]
    pairs = [(bells[k], bells[k + 1]) for k in range(0, len(bells), 2)]
    spin_s = spin_seconds(size)
    spins = spin_s > 0
    bell = Doorbell.attach(pairs[0], spin_s)
    channels: list[PeerChannels | None] = [None] * (size + 1)
    for other, pair in zip((size, *other_ranks), pairs[1:], strict=True):
        ringer = Ringer(pair)
        channels[other] = PeerChannels(
            attach_producer(
                rings[other], ringer.ring, spins=spins, place=(_place(rank, other), size)
            ),
            attach_consumer(
                rings[rank], ringer.ring, spins=spins, place=(_place(other, rank), size)
            ),
        )
    # Mapped memory stays, and ringing a doorbell needs only its event.
    for file in (*(pair[1] for pair in pairs[1:]), *rings):
        os.close(file)
    *peers, parent = channels
    assert parent is not None
    return ChildEnds(bell, ringer_of(bell), board, parent.consumer, parent.producer, peers)


def _place(sender: int, reader: int) -> int:
    """Return the index of a sender's ring in the memory of its reader."""
    return sender - (sender > reader)


def ringer_of(bell: Doorbell) -> Ringer:
    """Make a ringer of a doorbell of this process; it may outlive the doorbell.

    Raises
    ------
    DeviceError
        There is no descriptor for it.
    """
    with memory_or_remedy("doorbell"):
        event = os.dup(bell.files[0])
    try:
        return Ringer((event, bell.files[1]))
    except BaseException:
        os.close(event)
        raise
