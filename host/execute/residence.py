"""Where the blocks of one query are kept: in this process, and on devices that keep windows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from ..device.base import Device
from .prepared_blocks import PreparedBlocks
from .resident_cache import BlockCache


class Residence:
    """The blocks of a query, for its joins in this process.

    Parameters
    ----------
    scope : str
        One run of one query: names of blocks are unique within it.
    cache : BlockCache
        Of the process.
    device_stays : bool
        Whether the device stays open after this join, so that what is on it is of use later.
    """

    def __init__(self, scope: str, cache: BlockCache, *, device_stays: bool = True) -> None:
        self.scope = scope
        self.cache = cache
        self.device_stays = device_stays

    def keep(self, device: Device, blocks: Collection[str]) -> None:
        """Say which blocks the query may still read; others go, here and on the device."""
        self.cache.keep(self.scope, blocks)
        if device.keeps_windows:
            device.keep_windows(self.scope, blocks)

    @contextmanager
    def prepared(self, devices: Sequence[Device], *options: Any) -> Iterator[PreparedBlocks]:
        """What is prepared of the query's blocks; options as for :class:`.Prepared`."""

        def make() -> PreparedBlocks:
            return PreparedBlocks(self.scope, devices, *options)

        if not self.device_stays:
            with closing(make()) as found:
                yield found
            return
        # The devices are part of what is kept, so they live, and their numbers are nobody else's.
        key: Hashable = (*map(id, devices), *options[1:])
        with self.cache.prepared(self.scope, key, make) as found:
            yield found
