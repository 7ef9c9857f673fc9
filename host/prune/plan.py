"""One probe on its way through the slabs of a run: the ranges that are left for a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.program import Mode

from ..device.cut import Piece, concat, nonempty
from ..kept_code import kept
from ..windows.run import Snapshot
from .boxes import Tester, cut
from .clustering import TupleGroups, cluster
from .entries import WIDTHS, entries
from .sizes import Pruning
from .slabs import Level, Rearranged, RunSlabs, Slab

#: The time to begin a range, for which a device loads its tuple, in evaluations of blocks.
RANGE_COST = 1
#: Most ranges of one probe; beyond it nothing is pruned, so that memory stays bounded.
MOST_RANGES = 1 << 23


@dataclass(frozen=True)
class PrunedRanges:
    """Ranges of stream tuples in one order of a run's rows.

    Parameters
    ----------
    source : Snapshot or Rearranged
    pieces : tuple of Piece
        At least one; positions are those of the source.
    inside : bool
        Whether all ranges lie within their tuples' own ranges.
    """

    source: Snapshot | Rearranged
    pieces: tuple[Piece, ...]
    inside: bool = True

    def matches(
        self, rows: np.ndarray, places: np.ndarray, start: np.ndarray, end: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The matches within their tuples' own ranges: tuples, and positions in the run.

        Parameters
        ----------
        rows, places : ndarray of int, shape (m,)
            Tuples, and places of their matches in the source.
        start, end : ndarray of int64
            Ranges of all tuples.
        """
        if not isinstance(self.source, Rearranged):
            return rows, places
        if self.inside:
            return rows, self.source.positions(places)
        found = np.empty(len(rows), rows.dtype), np.empty(len(rows), np.int64)
        count = _keep(rows, places, self.source.first, self.source.order, start, end, *found)
        return found[0][:count], found[1][:count]

    @property
    def low(self) -> int:
        return min(piece.low for piece in self.pieces)

    @property
    def high(self) -> int:
        return max(piece.high for piece in self.pieces)

    @property
    def evaluations(self) -> int:
        return sum(piece.evaluations for piece in self.pieces)


@dataclass
class Plan:
    """One probe on its way through the slabs of a run."""

    sizes: Pruning
    slabs: RunSlabs
    window: Snapshot
    stream: Sequence[np.ndarray]
    ranges: Piece
    mode: Mode
    ranged: int = 0
    in_time: list[Piece] = field(default_factory=list)
    rearranged: dict[tuple[int, bool], list[list[Piece]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.slabs.tester is not None
        self.tester: Tester = self.slabs.tester
        self.groups = self._grouped()
        members = self.groups.members
        rows = self.ranges.rows[members]
        self.boxes = self.tester.boxes("s", [c[rows] for c in self.stream], self.groups.edges)
        self.start, self.end = self.ranges.start[members], self.ranges.end[members]

    def _grouped(self) -> TupleGroups:
        """Stream tuples in groups: indices into the probe, and the start of each group."""
        rows, size = self.ranges.rows, self.sizes.chunk_rows
        axes = self.tester.axes("s", self.stream)
        members, edges, at = [], [np.zeros(1, np.int64)], 0
        for low in range(0, len(rows), size):
            part = rows[low : low + size]
            keys = [axes[k][part] for k in self.slabs.keys["s"] if k in axes]
            groups = cluster(keys, len(part), self.sizes.group_rows)
            members.append(groups.members + low)
            edges.append(groups.edges[1:] + at)
            at += len(part)
        return TupleGroups(np.concatenate(members), np.concatenate(edges))

    def parts(self) -> list[PrunedRanges]:
        low, high = self.ranges.low, self.ranges.high
        top = len(self.slabs.levels) - 1
        self._walk(low, high, top, np.ones(len(self.start), bool))
        found = []
        if self.in_time:
            found.append(PrunedRanges(self.window, (concat(self.in_time),)))
        sources: dict[int, Snapshot | Rearranged] = {}
        for (k, inside), widths in self.rearranged.items():
            pieces = tuple(concat(width) for width in widths if width)
            if pieces:
                if k not in sources:
                    sources[k] = self.window
                    if self.slabs.clustered:
                        sources[k] = self.slabs.levels[k].rearranged(self.window)
                found.append(PrunedRanges(sources[k], pieces, inside))
        return found

    def _walk(self, low: int, high: int, top: int, active: np.ndarray) -> None:
        """Plan the positions ``[low, high)`` of active members, by slabs up to a level."""
        for slab, level, start, end in self._stretches(low, high, top):
            remaining = active
            if slab is not None:
                remaining = self._prune(slab, level, active)
                if level and remaining.any():
                    self._walk(start, end, level - 1, remaining)
                    continue
            self._in_time(start, end, remaining)

    def _stretches(
        self, low: int, high: int, top: int
    ) -> Iterator[tuple[Slab | None, int, int, int]]:
        """Split ``[low, high)`` into the largest available slabs, and stretches between them."""
        levels: list[Level] = self.slabs.levels
        while low < high:
            for level in range(top, -1, -1):
                slab = levels[level].at(low)
                if slab is not None:
                    yield slab, level, low, min(high, slab.high)
                    low = slab.high
                    break
            else:
                stop = min(high, (low // levels[0].rows + 1) * levels[0].rows)
                yield None, 0, low, stop
                low = stop

    def _prune(self, slab: Slab, level: int, active: np.ndarray) -> np.ndarray:
        """Plan a slab for members for which pruning pays; returns the other members."""
        overlap = np.minimum(self.end, slab.high) - np.maximum(self.start, slab.low)
        overlap = np.where(active, np.maximum(overlap, 0), 0)
        meeting = np.flatnonzero(np.maximum.reduceat(overlap, self.groups.edges[:-1]))
        if not len(meeting):
            return np.zeros(len(active), bool)
        first, last = int(meeting[0]), int(meeting[-1]) + 1
        groups = self.groups.between(first, last)
        members = slice(int(self.groups.edges[first]), int(self.groups.edges[last]))
        blocks = (slab.high - slab.low) // self.sizes.block_rows
        may = self.tester.may_match(cut(self.boxes, first, last), slab.boxes)
        may = np.broadcast_to(may, (len(groups.sizes), blocks))
        stretches = may[:, 0] + (may[:, 1:] & ~may[:, :-1]).sum(axis=1)
        cost = (may.sum(axis=1) + RANGE_COST * stretches) * self.sizes.block_rows
        cost = np.repeat(cost, groups.sizes)
        overlap = overlap[members]
        used = overlap > cost
        covered = overlap == slab.high - slab.low
        if self.mode is not Mode.PAIRS or not self.slabs.clustered:
            used &= covered | (cost == 0)
        rest = overlap > 0
        if self.ranged < MOST_RANGES and used.any():
            rest &= ~used
            for inside, chosen in ((True, used & covered), (False, used & ~covered)):
                pieces = entries(may, groups, chosen, slab.low, self.sizes.block_rows)
                self.ranged += sum(len(piece.rows) for piece in pieces)
                widths = self.rearranged.setdefault((level, inside), [[] for _ in range(WIDTHS)])
                for width, piece in zip(widths, pieces, strict=True):
                    if len(piece.rows):
                        width.append(Piece(self.ranges.rows[piece.rows], piece.start, piece.end))
        remaining = np.zeros(len(active), bool)
        remaining[members] = rest
        return remaining

    def _in_time(self, low: int, high: int, active: np.ndarray) -> None:
        """Leave the positions ``[low, high)`` of active members to the device unpruned."""
        chosen = np.sort(self.groups.members[active])
        piece = nonempty(
            self.ranges.rows[chosen],
            np.maximum(self.ranges.start[chosen], low),
            np.minimum(self.ranges.end[chosen], high),
        )
        if len(piece.rows):
            self.in_time.append(piece)


@kept()
def _keep(rows, places, first, order, start, end, own, positions):
    """Write the matches that lie in their tuples' ranges; returns their number."""
    count = 0
    for k in range(len(rows)):
        row = rows[k]
        position = order[places[k] - first]
        # Always written, which saves a branch that would be mispredicted.
        own[count] = row
        positions[count] = position
        count += (start[row] <= position) & (position < end[row])
    return count
