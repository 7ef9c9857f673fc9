"""A channel each way between two processes that may be on two machines."""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Callable

from penstock.errors import ProcessError, UsageError

from ...device.fields import MalformedError
from ..consumer import Consumer
from ..doorbell import Doorbell
from ..links import Link, RemoteLinks
from ..producer import Producer
from ..shm import SLOT_BYTES, SLOTS, check_sizes
from .end import End
from .network import Network
from .remote_rings import RingShape, UcxConsumerMemory, UcxProducerMemory

_MAGIC = b"penstuc2"
#: Magic, slots, bytes of a slot, whether they have checksums, channel, where the ring and the word
#: for counts begin, and bytes of the address and of the two keys behind.
_OFFER = struct.Struct("<8sIIIQQQIII")
#: Bytes of the memory of a count: a page, so that nothing else is in it.
_COUNT_BYTES = 4096
#: Seconds that an end may take to be closed by force.
_CLOSE_S = 5.0


class UcxLink(Link):
    """A channel each way to one other process.

    Parameters
    ----------
    network : Network
        Belongs to the thread that sends and receives.
    bell : Doorbell
        The same thread's.
    name : str
        Name of the other process in errors.
    slots, slot_bytes : int
        Size of the ring towards this process.
    crc : bool
        Whether slots towards this process have checksums.

    Raises
    ------
    UsageError
        A size is out of range.
    DeviceError
        There is no memory for the ring.
    """

    def __init__(
        self,
        network: Network,
        bell: Doorbell,
        name: str,
        *,
        slots: int = SLOTS,
        slot_bytes: int = SLOT_BYTES,
        crc: bool = False,
    ) -> None:
        check_sizes(slots, slot_bytes)
        self._network, self._bell, self._name = network, bell, name
        self._shape = RingShape(slots, slot_bytes, crc, secrets.randbits(63))
        self._ring = network.map(slots * slot_bytes)
        self._count = network.map(_COUNT_BYTES)
        self._end: End | None = None
        self._memories: list[UcxProducerMemory | UcxConsumerMemory] = []

    @property
    def transports(self) -> tuple[str, ...]:
        """Names of the transports that UCX has chosen; none before the channels are connected."""
        return () if self._end is None else self._end.transports

    def offer(self) -> bytes:
        """Return the bytes that the other process passes to its :meth:`connect`.

        Whoever knows it can write into the rings: pass it on by ways that can be trusted.
        """
        address = self._network.address()
        ring, count = self._ring, self._count
        head = _OFFER.pack(
            _MAGIC,
            *self._shape,
            ring.address,
            count.address,
            len(address),
            len(ring.key),
            len(count.key),
        )
        return b"".join((head, address, ring.key, count.key))

    def connect(self, offered: bytes) -> tuple[Producer, Consumer]:
        """Make the channels, once; both processes call it, each with the other's offer.

        Raises
        ------
        MalformedError
            The bytes are no offer of this version.
        DeviceError
            The other cannot be reached.
        """
        if len(offered) < _OFFER.size:
            raise MalformedError(f"an offer of {len(offered)} bytes is too short")
        magic, slots, slot_bytes, crc, channel, ring_at, count_at, *sizes = _OFFER.unpack_from(
            offered
        )
        if magic != _MAGIC or len(offered) != _OFFER.size + sum(sizes):
            raise MalformedError(
                f"what {self._name} offers is no channel of this version: start all processes with "
                "one version of Penstock"
            )
        try:
            check_sizes(slots, slot_bytes)
        except UsageError as cause:
            raise MalformedError(f"{self._name} offers no ring: {cause}") from cause
        parts, at = [], _OFFER.size
        for size in sizes:
            parts.append(offered[at : at + size])
            at += size
        address, ring_key, count_key = parts
        self._end = end = self._network.connect(address, self._name)
        spin_s, shape = self._bell.spin_s, RingShape(slots, slot_bytes, bool(crc), channel)
        key = end.unpack(ring_key)
        remote = UcxProducerMemory(end, key, ring_at, shape, spin_s, self._count)
        key = end.unpack(count_key)
        local = UcxConsumerMemory(end, key, count_at, self._shape, spin_s, self._ring)
        self._memories = [remote, local]
        return Producer(remote, ring=remote.wake), Consumer(local, ring=local.wake)

    @property
    def has_ended(self) -> bool:
        return self._end is not None and self._network.has_failed(self._end)

    def unwatch(self) -> None:
        if self._end is not None:
            self._network.forget(self._end)

    def is_flushed(self) -> bool:
        return self._end is None or self._end.flushed() is not None

    def flush(self, timeout_s: float) -> None:
        """Wait until all that was sent is in the other process' memory.

        Raises
        ------
        ProcessError
            It took too long, or the other process has ended.
        """
        end = self._end
        if end is None:
            return
        has_come: bool | None = None

        def is_known() -> bool:
            nonlocal has_come
            has_come = end.flushed()
            return has_come is not None

        self._bell.wait(is_known, timeout_s)
        if not has_come:
            raise ProcessError(
                f"{self._name} has not taken what was sent within {timeout_s:g} s: look whether it "
                "runs and can be reached"
            )

    def close(self) -> None:
        """Stop at once: messages under way are lost; arrived ones can still be read."""
        for memory in self._memories:
            memory.close()
        if self._end is not None:
            self._end.close(_wait)
            self._end = None


def _wait(ready: Callable[[], bool]) -> bool:
    """Wait for an end to be closed by force, which is a matter of this process alone."""
    deadline = time.monotonic() + _CLOSE_S
    while not ready():
        if time.monotonic() > deadline:
            return False
    return True


class UcxLinks(RemoteLinks):
    """Links of one thread over UCX, which share its network."""

    def __init__(self, bell: Doorbell) -> None:
        self._bell, self._network = bell, Network(bell)

    def link(self, name: str) -> UcxLink:
        return UcxLink(self._network, self._bell, name)

    def close(self) -> None:
        self._network.close()
