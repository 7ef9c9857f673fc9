"""Channels between processes that no common parent has started.

Each makes an offer for the other, something else carries the offers to and fro, and each connects
to what it was offered.
"""

from __future__ import annotations

import json
import os
import select
from abc import ABC, abstractmethod

from penstock.errors import ProcessError

from .consumer import Consumer
from .doorbell import Doorbell, Ringer
from .producer import Producer
from .shm import attach_consumer, attach_producer, create


class Link(ABC):
    """A channel each way between this process and another one, before both have an end of it."""

    @abstractmethod
    def offer(self) -> bytes:
        """Return what the other process needs to connect."""

    @abstractmethod
    def connect(self, offered: bytes) -> tuple[Producer, Consumer]:
        """Return this process' ends of both channels.

        Parameters
        ----------
        offered : bytes
            The other process' offer to this one.

        Raises
        ------
        ProcessError
            The other process cannot be reached in this way.
        """

    def connected(self) -> None:  # noqa: B027
        """Free the resources of connecting, once the other process has connected, too."""

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the other process has ended, or cannot be reached any more.

        What it sent before may still be there to be received.
        """

    @abstractmethod
    def unwatch(self) -> None:
        """Stop watching the other process: its end no longer ends waits."""

    def is_flushed(self) -> bool:
        """Whether all that was sent has arrived at the other process; does not wait.

        Call it again and again once nothing more is sent, or not at all.
        """
        return True

    @abstractmethod
    def close(self) -> None:
        """Close everything but the memory of the channels."""


class RemoteLinks(ABC):
    """Links of one thread to processes at other places, over one network.

    A package offers such a class, called with the thread's doorbell, by an entry point in the group
    ``penstock.networks``.
    """

    @abstractmethod
    def __init__(self, bell: Doorbell) -> None: ...

    @abstractmethod
    def link(self, name: str) -> Link:
        """Make a link to another process, which has this name in errors."""

    @abstractmethod
    def close(self) -> None:
        """End the use of the network, after all links are closed."""


def place() -> str:
    """Return a text that is equal in processes that see each other's descriptors in ``/proc``."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


class ShmLink(Link):
    """A link in shared memory: each process makes the ring that it reads, and offers that.

    The ring and the doorbell have no names. The other process, of the same user, opens them as
    files of this one in ``/proc``.

    Parameters
    ----------
    bell : Doorbell
        This process', made with ``is_offered``.
    name : str
        Name of the other process in errors.
    spins : bool
        As for :func:`~.shm.attach_producer`.
    """

    def __init__(self, bell: Doorbell, name: str, *, spins: bool = True) -> None:
        self._bell, self._name = bell, name
        self._spins = spins
        self._ring = create()
        self._ringer: Ringer | None = None
        #: Descriptor of the other process, which becomes readable when it ends.
        self._pidfd = -1

    def offer(self) -> bytes:
        files = [self._ring.file, *self._bell.files]
        return json.dumps({"process": os.getpid(), "files": files}).encode()

    def connect(self, offered: bytes) -> tuple[Producer, Consumer]:
        about = json.loads(offered)
        process = about["process"]
        ring, *bell = (opened(process, file) for file in about["files"])
        try:
            self._ringer = ringer = Ringer((bell[0], bell[1]))
            producer = attach_producer(ring, ringer.ring, spins=self._spins)
            consumer = attach_consumer(self._ring.file, ringer.ring, spins=self._spins)
        finally:
            os.close(ring)
            os.close(bell[1])
        self._pidfd = os.pidfd_open(process)
        self._bell.watch(self._pidfd, self._name)
        return producer, consumer

    def connected(self) -> None:
        self._ring.close()

    @property
    def has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def unwatch(self) -> None:
        self._bell.unwatch(self._pidfd)

    def close(self) -> None:
        self._ring.close()
        if self._pidfd >= 0:
            self.unwatch()
            os.close(self._pidfd)
            self._pidfd = -1
        if self._ringer is not None:
            self._ringer.close()
            self._ringer = None


def opened(process: int, file: int) -> int:
    """Open a file of another process of this place; returns its descriptor here.

    Raises
    ------
    ProcessError
        The process has ended, or is another user's.
    """
    try:
        return os.open(f"/proc/{process}/fd/{file}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as cause:
        raise ProcessError(
            f"process {process} belongs to another user, or may not be looked into; start all "
            "ranks of one host as the same user"
        ) from cause
    except OSError as cause:
        raise ProcessError(
            f"process {process} cannot be reached: {cause.strerror}; it may have ended, so look "
            "at what it said and start all ranks again"
        ) from cause
