"""What a lane reads of each file: parts that stay prepared from micro-batch to micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .cell_index import counts_of
from .commit import Commit, Part, StoredFile
from .routing import Routing


@dataclass(frozen=True)
class LaneParts:
    """What a lane reads of each file: its home cells together, whatever the table, and the others.

    So a part stays prepared while cells leave the lane and come back; what a plan brings to it is
    a part of its own.

    Parameters
    ----------
    routing : Routing
    lane : int
    """

    routing: Routing
    lane: int

    def of(self, side: str, file: StoredFile) -> list[Part] | None:
        """The parts of a file of a side; None if it has no such cells, and is read whole."""
        if side not in self.routing.cell_of.sides:
            return None
        counts = counts_of(file, self.routing.cell_of.identity)
        if counts is None:
            return None
        starts = np.concatenate([[0], np.cumsum(counts)])
        found = []
        for name, cells in self.names[side]:
            own = [(int(starts[a]), int(starts[b])) for a, b in cells]
            own = [(a, b) for a, b in own if b > a]
            if own:
                found.append(Part(f"{file.name}/{name}", own))
        return found

    @cached_property
    def names(self) -> dict[str, list[tuple[str, list[tuple[int, int]]]]]:
        """Names of parts and their stretches of cells, by side that has cells."""
        is_home = self.routing.homes == self.lane
        found = {}
        for side in self.routing.cell_of.sides:
            reads = self.routing.reads[side][self.lane]
            parts = []
            if (reads & is_home).any():
                parts.append((f"{self.lane} of {self.routing.lanes}", _stretches(is_home)))
            if (extra := reads & ~is_home).any():
                parts.append((np.packbits(extra).tobytes().hex(), _stretches(extra)))
            found[side] = parts
        return found


def _stretches(cells: np.ndarray) -> list[tuple[int, int]]:
    """Neighbouring cells of a set: first, and the one after the last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], cells, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def part_names(routing: Routing, commit: Commit) -> list[str]:
    """Names of the parts of a commit's files, of all lanes."""
    identity, found = routing.cell_of.identity, []
    lanes = [LaneParts(routing, lane) for lane in range(routing.lanes)]
    for side in routing.cell_of.sides:
        files = commit.blocks()[side]
        names = {name for lane in lanes for name, _ in lane.names[side]}
        celled = [file for file in files if file.cells and file.cells["of"] == identity]
        found += [f"{file.name}/{name}" for file in celled for name in names]
    return found
