"""What a process keeps of blocks between joins: only a cache, bounded by bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.expr.columns import Vector

from ..rows.stretches import NamedBlock
from .resident_prober import ResidentProber

#: (scope, name of a block)
_Name = tuple[str, str]


class BlockCache:
    """Blocks in memory, and probers that have prepared them.

    A prober is taken out while it is used, so that no two threads have the same one.

    Parameters
    ----------
    most_bytes : int
        What is kept beyond that goes: the block that was used longest ago first, with what was
        made of it.

    Attributes
    ----------
    hits, misses : int
        How often a block was there, and was not.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._blocks: OrderedDict[_Name, tuple[NamedBlock, Any]] = OrderedDict()
        self._probers: dict[tuple[str, Hashable], ResidentProber] = {}

    def block(
        self, scope: str, name: str, make: Callable[[], tuple[NamedBlock, Any]]
    ) -> tuple[NamedBlock, Any]:
        """A block, and what its maker gave with it."""
        with self._lock:
            found = self._blocks.get((scope, name))
            if found is not None:
                self.hits += 1
                self._blocks.move_to_end((scope, name))
                return found
            self.misses += 1
        made = make()
        with self._lock:
            return self._blocks.setdefault((scope, name), made)

    @contextmanager
    def prober(
        self, scope: str, key: Hashable, make: Callable[[], ResidentProber]
    ) -> Iterator[ResidentProber]:
        """A prober that is the caller's until the end; one that failed is not kept.

        Parameters
        ----------
        scope : str
        key : hashable
            Everything in which probers differ.
        make : callable
        """
        with self._lock:
            found = self._probers.pop((scope, key), None)
        prober = make() if found is None else found
        try:
            yield prober
        except BaseException:
            prober.close()
            raise
        with self._lock:
            prober.keep([name for own, name in self._blocks if own == scope])
            other, self._probers[scope, key] = self._probers.get((scope, key)), prober
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
        """Bytes of main memory, about."""
        blocks = sum(_nbytes(block) for block, _ in self._blocks.values())
        return blocks + sum(prober.nbytes for prober in self._probers.values())

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._blocks.clear()
            for prober in self._probers.values():
                prober.close()
            self._probers.clear()

    def _settle(self, scope: str) -> None:
        names = [name for own, name in self._blocks if own == scope]
        for (own, _), prober in self._probers.items():
            if own == scope:
                prober.keep(names)

    def _shrink(self) -> None:
        while self._blocks and self.nbytes > self.most_bytes:
            (scope, _), _ = self._blocks.popitem(last=False)
            self._settle(scope)
        used = {scope for scope, _ in self._blocks}
        for key in [key for key in self._probers if key[0] not in used]:
            self._probers.pop(key).close()


def _nbytes(block: NamedBlock) -> int:
    rows = block.rows
    vectors: list[Vector] = list(rows.columns.values())
    valid = sum(v.valid.nbytes for v in vectors if v.valid is not None)
    return rows.time.nbytes + rows.row.nbytes + valid + sum(v.values.nbytes for v in vectors)
