"""Another rank, as this one sees it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from penstock.errors import LostError

from ...channel.link_maker import Whereabouts
from ...channel.links import Link
from ..job import Job
from ..peers import PeerChannels


@dataclass
class OtherRank:
    """Another rank: its channels, and its signs of life.

    Parameters
    ----------
    about : str
        Name of its process, for errors.
    link : Link
    channels : PeerChannels
    has_left : bool
        Whether it has said that it ends, so that it sends nothing more.
    """

    about: str
    link: Link
    channels: PeerChannels
    has_left: bool = False
    _credits: int = 0
    #: Last time at which it took a message, or had none to take.
    _moved: float = field(default_factory=time.monotonic)

    def how_it_is_lost(self, now: float, lease_s: float) -> str:
        """Return how the rank was lost, as errors say it; empty if it is alive."""
        if self.link.has_ended:
            return f"({self.about}) has ended"
        producer = self.channels.producer
        credits = producer.credits
        if credits == producer.slots or credits != self._credits:
            self._moved = now
        self._credits = credits
        silent_s = now - self._moved
        if silent_s <= lease_s:
            return ""
        return (
            f"({self.about}) has taken nothing for {silent_s:.3g} s, longer than its "
            f"lease of {lease_s:g} s: it is stopped, or hangs; end it"
        )


def named(other: Whereabouts, ours: Whereabouts) -> str:
    """Return the name of another rank's process, for errors."""
    process = f"process {other.process}"
    return process if other.place == ours.place else f"{process} on {other.host}"


def lost(rank: int, job: Job, how: str) -> LostError:
    """Return the error for a lost rank, with the remedy."""
    follows = (
        "start all ranks again and push everything again, or give checkpoint=FOLDER to go on "
        "from its last record"
        if job.folder is None
        else "start all ranks again, any number of them: they go on from the last record, and "
        "senders from position()"
    )
    return LostError(f"rank {rank} of {job.size} {how}; {follows}")
