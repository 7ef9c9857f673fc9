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
    """Another rank: its channels, and whether it is there.

    Parameters
    ----------
    about : str
        Its process, as errors name it.
    link : Link
    channels : PeerChannels
    has_left : bool
        Whether it has said that it ends, and nothing more comes of it.
    """

    about: str
    link: Link
    channels: PeerChannels
    has_left: bool = False
    _credits: int = 0
    #: When it last took something, or had nothing to take.
    _moved: float = field(default_factory=time.monotonic)

    def how_it_is_lost(self, now: float, lease_s: float) -> str:
        """Return what has become of a rank that is lost; empty if it is there."""
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


def named(other: Whereabouts, here: Whereabouts) -> str:
    """Return what errors call the process of another rank."""
    process = f"process {other.process}"
    return process if other.place == here.place else f"{process} on {other.host}"


def lost(rank: int, job: Job, how: str) -> LostError:
    """Return the error of a rank that is lost, which says what follows."""
    follows = (
        "start all ranks again and push everything again, or give checkpoint=FOLDER to go on "
        "from its last record"
        if job.folder is None
        else "start all ranks again, any number of them: they go on from the last record, and "
        "senders from position()"
    )
    return LostError(f"rank {rank} of {job.size} {how}; {follows}")
