"""Keeps blocks of rows between joins, in this process and on devices that keep windows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from penstock.expr.columns import Vector

from ..device.base import Device
from ..rows.stretches import NamedBlock
from .prepared import PreparedBlocks

#: (scope, name of a block)
_Name = tuple[str, str]


class BlockCache:
    """Keeps blocks in memory, and the prepared blocks that joins made from blocks.

    Prepared blocks are taken out while they are used, so that no two threads share them.

    Parameters
    ----------
    most_bytes : int
        Limit of memory. Beyond it blocks are dropped, least recently used first, with their
        prepared blocks.

    Attributes
    ----------
    hits, misses : int
        How often a block was found, and was not.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._blocks: OrderedDict[_Name, tuple[NamedBlock, Any]] = OrderedDict()
        self._prepared: dict[tuple[str, Hashable], PreparedBlocks] = {}

    def block(
        self, scope: str, name: str, make: Callable[[], tuple[NamedBlock, Any]]
    ) -> tuple[NamedBlock, Any]:
        """Return a block and its maker's second value; call ``make`` if they are not cached."""
        with self._lock:
            cached = self._blocks.get((scope, name))
            if cached is not None:
                self.hits += 1
                self._blocks.move_to_end((scope, name))
                return cached
            self.misses += 1
        new = make()
        with self._lock:
            return self._blocks.setdefault((scope, name), new)

    @contextmanager
    def prepared(
        self, scope: str, key: Hashable, make: Callable[[], PreparedBlocks]
    ) -> Iterator[PreparedBlocks]:
        """Lend prepared blocks to one caller; after a failure they are closed, not kept.

        Parameters
        ----------
        key : hashable
            Equal for prepared blocks that can replace each other.
        """
        with self._lock:
            cached = self._prepared.pop((scope, key), None)
        lent = make() if cached is None else cached
        try:
            yield lent
        except BaseException:
            lent.close()
            raise
        with self._lock:
            lent.keep([name for block_scope, name in self._blocks if block_scope == scope])
            other, self._prepared[scope, key] = self._prepared.get((scope, key)), lent
            self._shrink()
        if other is not None:
            other.close()

    def keep(self, scope: str, names: Collection[str]) -> None:
        """Forget all other blocks of a scope."""
        wanted = set(names)
        with self._lock:
            for name in [n for n in self._blocks if n[0] == scope and n[1] not in wanted]:
                del self._blocks[name]
            self._settle(scope)
            self._shrink()

    @property
    def nbytes(self) -> int:
        """Approximate bytes of main memory."""
        blocks = sum(_nbytes(block) for block, _ in self._blocks.values())
        return blocks + sum(one.nbytes for one in self._prepared.values())

    def close(self) -> None:
        """Close all prepared blocks, and forget all blocks."""
        with self._lock:
            self._blocks.clear()
            for one in self._prepared.values():
                one.close()
            self._prepared.clear()

    def _settle(self, scope: str) -> None:
        names = [name for other, name in self._blocks if other == scope]
        for (other, _), one in self._prepared.items():
            if other == scope:
                one.keep(names)

    def _shrink(self) -> None:
        while self._blocks and self.nbytes > self.most_bytes:
            (scope, _), _ = self._blocks.popitem(last=False)
            self._settle(scope)
        used = {scope for scope, _ in self._blocks}
        for key in [key for key in self._prepared if key[0] not in used]:
            self._prepared.pop(key).close()


def _nbytes(block: NamedBlock) -> int:
    rows = block.rows
    vectors: list[Vector] = list(rows.columns.values())
    valid = sum(v.valid.nbytes for v in vectors if v.valid is not None)
    return rows.time.nbytes + rows.row.nbytes + valid + sum(v.values.nbytes for v in vectors)


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
