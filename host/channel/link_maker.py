"""Links to processes wherever they are: by shared memory within a place, else over a network."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from penstock.providers import load_provider

from .doorbell import Doorbell
from .links import Link, RemoteLinks, ShmLink

#: Entry point of the network between places: its group, its name.
NETWORK = ("penstock.networks", "ucx")


@dataclass(frozen=True)
class Whereabouts:
    """Location of a process: its place, machine and number.

    Parameters
    ----------
    place : str
        Processes of one place reach each other's memory; see :func:`~.links.place`.
    host : str
        Name of its machine in errors.
    process : int
    """

    place: str
    host: str
    process: int

    @classmethod
    def of_this_process(cls, place: str) -> Whereabouts:
        """Return the location of this process, which runs at ``place``."""
        return cls(place, socket.gethostname(), os.getpid())


class LinkMaker:
    """Makes the links of one thread to processes at this place or elsewhere.

    Parameters
    ----------
    bell : Doorbell
        The thread's, made with ``is_offered``.
    whereabouts : Whereabouts
        Of this process.
    spins : bool
        As for :class:`~.links.ShmLink`.
    """

    def __init__(self, bell: Doorbell, whereabouts: Whereabouts, *, spins: bool = True) -> None:
        self._bell, self._whereabouts, self._spins = bell, whereabouts, spins
        self._links: list[Link] = []
        self._network: RemoteLinks | None = None

    def link(self, peer: Whereabouts, name: str) -> Link:
        """Make the link to another process, which makes one to this.

        Parameters
        ----------
        name : str
            Name of the other process in errors.

        Raises
        ------
        MissingToolError
            The process is at another place, and UCX is not installed.
        DeviceError
            There are no descriptors or no memory for it, or the network does not begin.
        """
        is_here = peer.place == self._whereabouts.place
        link = ShmLink(self._bell, name, spins=self._spins) if is_here else self._remote(name)
        self._links.append(link)
        return link

    def _remote(self, name: str) -> Link:
        # Only who has processes elsewhere needs the extra, and pays for loading it.
        if self._network is None:
            network: type[RemoteLinks] = load_provider(*NETWORK, "channels between machines")
            self._network = network(self._bell)
        return self._network.link(name)

    def close(self) -> None:
        """Close all links at once: messages under way are lost."""
        for link in self._links:
            link.close()
        if self._network is not None:
            self._network.close()
