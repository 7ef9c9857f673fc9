"""Keeps the blocks of one query, in this process and on devices that keep windows."""

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
        The cache of this process.
    device_stays : bool
        Whether the device stays open after this join, so that later joins find its windows.
    """

    def __init__(self, scope: str, cache: BlockCache, *, device_stays: bool = True) -> None:
        self.scope = scope
        self.cache = cache
        self.device_stays = device_stays

    def keep(self, device: Device, blocks: Collection[str]) -> None:
        """Keep the blocks that the query may still read, here and on the device; drop the rest."""
        self.cache.keep(self.scope, blocks)
        if device.keeps_windows:
            device.keep_windows(self.scope, blocks)

    @contextmanager
    def prepared(self, devices: Sequence[Device], *options: Any) -> Iterator[PreparedBlocks]:
        """Lend the query's prepared blocks; options as for :class:`.Prepared`."""

        def make() -> PreparedBlocks:
            return PreparedBlocks(self.scope, devices, *options)

        if not self.device_stays:
            with closing(make()) as prepared_blocks:
                yield prepared_blocks
            return
        # The prepared blocks keep the devices alive, so no other object gets their ids.
        key: Hashable = (*map(id, devices), *options[1:])
        with self.cache.prepared(self.scope, key, make) as prepared_blocks:
            yield prepared_blocks
