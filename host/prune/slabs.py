"""Slabs of a window run: stretches of rows that never change once full, clustered, with bounds.

A slab lies between multiples of its size in logical positions. A run has slabs of several sizes:
large ones rule out more, small ones reach closer to its growing end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.expr.columns import Vector

from ..keys.prepare import Layout
from ..windows.run import Snapshot, next_number
from .boxes import Boxes, Tester, make_tester
from .clustering import BINNED, cluster, halvings, shares


@dataclass(frozen=True)
class Rearranged:
    """Rows of a run in another order: for devices, a run of its own.

    Parameters
    ----------
    run : int
        Its number.
    first : int
        Logical position of the first place.
    order : ndarray of int64, shape (n,)
        Logical position of the row at each place.
    window : Snapshot
    """

    run: int
    first: int
    order: np.ndarray
    window: Snapshot

    @property
    def end(self) -> int:
        """Logical position after the last place."""
        return self.first + len(self.order)

    def keys_between(self, low: int, high: int) -> list[Vector]:
        """Keys of the places ``[low, high)``, with the bounds of the whole run."""
        chosen = self.order[low - self.first : high - self.first]
        return self.window.keys_at(chosen)

    def positions(self, places: np.ndarray) -> np.ndarray:
        """Logical positions of the rows at some places."""
        return self.order[places - self.first]


@dataclass
class Slab:
    """Positions ``[low, high)``.

    Parameters
    ----------
    low, high : int
    order : ndarray of int32
        Row at each place, both from the slab's start.
    boxes : list
        Bounds of its blocks.
    """

    low: int
    high: int
    order: np.ndarray
    boxes: Boxes


@dataclass
class Level:
    """Slabs of one size, without gaps.

    Parameters
    ----------
    rows : int
        Size of a slab.
    number : int
        Number of the run that its rearranged rows are.
    """

    rows: int
    number: int = field(default_factory=next_number)
    slabs: dict[int, Slab] = field(default_factory=dict)

    def at(self, position: int) -> Slab | None:
        """The slab that holds a position, if there is one."""
        return self.slabs.get(position // self.rows)

    def missing(self, window: Snapshot) -> list[int]:
        """Indices of the slabs that lie in a window and are not there yet."""
        first, end = -(-window.first // self.rows), window.end // self.rows
        return [index for index in range(first, end) if index not in self.slabs]

    def rearranged(self, window: Snapshot) -> Rearranged:
        """All slabs, one after the other."""
        some = [self.slabs[k] for k in sorted(self.slabs)]
        order = np.concatenate([slab.low + slab.order.astype(np.int64) for slab in some])
        return Rearranged(self.number, some[0].low, order, window)


class RunSlabs:
    """All slabs of a run, and the clustering of its rows.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of slabs, ascending, each a multiple of the one before and of ``block_rows``.
    block_rows : int
    clustered : bool
        Whether rows may be rearranged.
    """

    def __init__(self, sizes: Sequence[int], block_rows: int, *, clustered: bool) -> None:
        self.levels = [Level(rows) for rows in sizes]
        self.block_rows = block_rows
        self.clustered = clustered
        #: Keys that stream ("s") and window tuples ("w") are clustered by, level by level of a
        #: tree.
        self.keys: dict[str, list[int]] = {"s": [], "w": []}
        self.tester: Tester | None = None
        self._layout: Layout | None = None
        #: Pairs that came, and rows that were clustered.
        self.pairs = self.rows = 0
        #: Consecutive probes with little gain, and probes still to leave unpruned.
        self.misses = self.skip = 0

    @property
    def nbytes(self) -> int:
        return sum(slab.order.nbytes for level in self.levels for slab in level.slabs.values())

    def growth(self, window: Snapshot) -> int:
        """Rows that :meth:`extend` would cluster now."""
        return sum(level.rows * len(level.missing(window)) for level in self.levels)

    def extend(self, window: Snapshot, layout: Layout, stream: Sequence[np.ndarray]) -> bool:
        """Add the slabs that the run has filled; returns whether there is anything to prune by.

        Parameters
        ----------
        window : Snapshot
        layout : Layout
            The run's layout; bounds are in its codes.
        stream : sequence of ndarray
            Keys of some stream tuples, at least one.
        """
        for level in self.levels:
            for index in [k for k in level.slabs if k * level.rows < window.first]:
                del level.slabs[index]
        if self.tester is None or layout is not self._layout:
            self.tester, self._layout = make_tester(layout.program), layout
            for level in self.levels:
                for slab in level.slabs.values():
                    columns = layout.window(window.keys_between(slab.low, slab.high))
                    slab.boxes = self._boxes(columns, slab.order)
        if not any(level.slabs for level in self.levels):
            self._choose(window, layout, stream)
            if self.clustered and not self.keys["w"]:
                return False
        for level in self.levels:
            for index in level.missing(window):
                level.slabs[index] = self._slab(window, layout, index * level.rows, level.rows)
        return any(level.slabs for level in self.levels)

    def _choose(self, window: Snapshot, layout: Layout, stream: Sequence[np.ndarray]) -> None:
        """Find the keys to cluster by."""
        assert self.tester is not None
        some = np.linspace(window.first, window.end - 1, min(window.end - window.first, BINNED))
        columns = layout.window(window.keys_at(some.astype(np.int64)))
        levels = max(self.levels[-1].rows // self.block_rows, 1).bit_length()
        for side, own, others in (("w", columns, stream), ("s", stream, columns)):
            self.keys[side] = halvings(shares(self.tester, side, own, others), levels)

    def _slab(self, window: Snapshot, layout: Layout, low: int, rows: int) -> Slab:
        assert self.tester is not None
        columns = layout.window(window.keys_between(low, low + rows))
        order = np.arange(rows)
        if self.clustered:
            axes = self.tester.axes("w", columns)
            # In another layout a key may be missing, or exceed machine integers.
            keys = [axes[k] for k in self.keys["w"] if k in axes]
            order = cluster(keys, rows, self.block_rows).members
        return Slab(low, low + rows, order.astype(np.int32), self._boxes(columns, order))

    def _boxes(self, columns: Sequence[np.ndarray], order: np.ndarray) -> Boxes:
        """Bounds of the blocks of a slab with these device columns."""
        assert self.tester is not None
        edges = np.arange(0, len(order) + 1, self.block_rows)
        return self.tester.boxes("w", [c[order] for c in columns], edges)
