"""The rings and doorbells of a crew: made by the parent, which hands each child its ends.

Every two processes have a channel each way, and each process one doorbell. All are without names,
so that the system frees them with the last process that has them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ...channel import Consumer, Doorbell, Producer, Ringer, spin_seconds
from ...channel.shm import attach_consumer, attach_producer, create
from ..joining.runs import create_board
from ..peers import PeerChannels


@dataclass(frozen=True)
class ChildEnds:
    """What a child has: its doorbell and who rings it, the parent's channels, peers by rank.

    ``board`` is the descriptor by which it finds what other workers share; it is the child's own.
    """

    bell: Doorbell
    own: Ringer
    board: int
    consumer: Consumer
    producer: Producer
    peers: list[PeerChannels | None]


class Wiring:
    """The channels of one incarnation.

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
        self._bells = [Doorbell.create() for _ in range(size)]
        self._board = create_board()
        self._parent_files = bell.files
        self._ringers = [ringer_of(one) for one in self._bells]
        #: File of the ring from one process to another; the parent is -1.
        self._rings: dict[tuple[int, int], int] = {}
        members = [-1, *range(size)]
        for sender in members:
            for receiver in members:
                if sender != receiver:
                    self._rings[sender, receiver] = create(crc=crc).file
        #: What only children need.
        self._files = [self._board, *self._rings.values()]
        spins = spin_seconds(size) > 0
        #: The parent's ends, by rank.
        self.producers = [
            attach_producer(self._rings[-1, rank], self._ringers[rank].ring, spins=spins)
            for rank in range(size)
        ]
        self.consumers = [
            attach_consumer(self._rings[rank, -1], self._ringers[rank].ring, spins=spins)
            for rank in range(size)
        ]

    def files_for(self, rank: int) -> list[int]:
        """Return the descriptors that a child needs, in the order that :func:`child_ends` reads."""
        others = [other for other in range(self.size) if other != rank]
        files = [self._board, *self._bells[rank].files, *self._parent_files]
        files += [file for other in others for file in self._bells[other].files]
        for other in (-1, *others):
            files += [self._rings[other, rank], self._rings[rank, other]]
        return files

    def sent(self) -> None:
        """Close what only children need, once they have it."""
        for file in self._files:
            os.close(file)
        self._files = []
        for bell in self._bells:
            bell.close()
        self._bells = []

    def close(self) -> None:
        """Close everything; children find nobody who rings."""
        self.sent()
        for ringer in self._ringers:
            ringer.close()


def child_ends(rank: int, size: int, files: Sequence[int]) -> ChildEnds:
    """Attach to the descriptors of :meth:`Wiring.files_for`, which are this process' own now."""
    others = [other for other in range(size) if other != rank]
    board, *files = files
    pairs = [(files[k], files[k + 1]) for k in range(0, len(files), 2)]
    spin_s = spin_seconds(size)
    spins = spin_s > 0
    bell = Doorbell.attach(pairs[0], spin_s)
    ringers = [Ringer(pair) for pair in pairs[1 : 2 + len(others)]]
    peers: list[PeerChannels | None] = [None] * size
    ends = [
        (
            attach_consumer(inward, ringer.ring, spins=spins),
            attach_producer(outward, ringer.ring, spins=spins),
        )
        for (inward, outward), ringer in zip(pairs[2 + len(others) :], ringers, strict=True)
    ]
    for other, (consumer, producer) in zip(others, ends[1:], strict=True):
        peers[other] = PeerChannels(producer, consumer)
    # Mapped memory stays; of a doorbell that is rung, the event is used.
    for file in (*(pair[1] for pair in pairs[1 : 2 + len(others)]), *files[4 + 2 * len(others) :]):
        os.close(file)
    return ChildEnds(bell, ringer_of(bell), board, *ends[0], peers)


def ringer_of(bell: Doorbell) -> Ringer:
    """Return what rings a doorbell of this process, and outlives it."""
    return Ringer((os.dup(bell.files[0]), bell.files[1]))
