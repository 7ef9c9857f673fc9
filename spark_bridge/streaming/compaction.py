"""Merges neighbouring small files, without the rows that no later batch needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from penstock.host.join.step import Frontier, needed, oldest
from penstock.plan.query import LEFT, TimeWindow
from penstock.plan.window import FOREVER, NEVER

from .commit import BatchRecord, StoredFile
from .ingest import write
from .probe import load
from .routing import cells_to_write, known_cells
from .spec import JoinSpec
from .store import Store

#: Number of files of one side from which on files are merged.
MOST_FILES = 24

#: For ROWS windows: files may be merged up to this many rows, however small the window.
LEAST_ROWS = 1 << 16


@dataclass(frozen=True)
class FileMerge:
    """Neighbouring files that become one.

    Parameters
    ----------
    side : str
    files : list of StoredFile
    low : int
        Rows before this time are left out.
    """

    side: str
    files: list[StoredFile]
    low: int

    @property
    def rows(self) -> int:
        """Rows of the files."""
        return sum(file.rows for file in self.files)


def needed_files(frontier: Frontier, commit: BatchRecord) -> dict[str, list[StoredFile]]:
    """Files of a commit that a batch after these watermarks may read."""
    files = commit.blocks()
    keep = needed(frontier, files)
    return {side: list(compress(stored, keep[side])) for side, stored in files.items()}


def choose_merges(frontier: Frontier, commit: BatchRecord) -> list[FileMerge]:
    """Choose merges after which each file is at most half as large as the one before it.

    Each row is then rewritten a logarithmic number of times.
    """
    merges = []
    for side, files in commit.old.items():
        if len(files) < MOST_FILES:
            continue
        low, most = NEVER, FOREVER
        window = frontier.query.window
        if isinstance(window, TimeWindow):
            low = oldest(frontier, commit.old, side)
        else:  # a file is dropped as a whole, so it must not grow without end
            most = max(LEAST_ROWS, window.left if side == LEFT else window.right)
        merges += merges_of(side, files, low, most)
    return merges


def merges_of(side: str, files: Sequence[StoredFile], low: int, most: int) -> list[FileMerge]:
    """The merges of some files of one side, to at most so many rows each."""
    if len(files) < MOST_FILES:
        return []
    stack: list[FileMerge] = []
    for file in files:
        stack.append(FileMerge(side, [file], low))
        while len(stack) > 1 and stack[-2].rows < 2 * stack[-1].rows:
            both = FileMerge(side, [*stack[-2].files, *stack[-1].files], low)
            if both.rows > most:
                break
            stack[-2:] = [both]
    return [merge for merge in stack if len(merge.files) > 1]


def merge_files(
    spec: JoinSpec, store: Store, commit: BatchRecord, merge: FileMerge
) -> StoredFile | None:
    """Merge files; None if no row is left.

    Raises
    ------
    FileError
    """
    read = [file for file in merge.files if file.high >= merge.low]
    tables = [store.between(file, merge.low, FOREVER) for file in read]
    loaded = load(spec, merge.side, tables)
    frontier = Frontier(spec.query(), commit.before)
    if frontier.grouping is not None and merge.side in frontier.plan.decided_once:
        loaded = loaded.pick(np.flatnonzero(~frontier.complete(loaded.rows)))
    if not len(loaded.rows):
        return None
    cell_of = cells_to_write(spec, known_cells(spec, commit), merge.side, len(loaded.rows))
    return write(store, commit.batch, frontier, merge.side, loaded, cell_of)


def replace_merged(
    files: Mapping[str, Sequence[StoredFile]], done: Sequence[tuple[FileMerge, StoredFile | None]]
) -> dict[str, list[StoredFile]]:
    """The lists of files, with each merged file in place of its parts."""
    lists = {side: list(stored) for side, stored in files.items()}
    for merge, file in done:
        first = lists[merge.side].index(merge.files[0])
        lists[merge.side][first : first + len(merge.files)] = [] if file is None else [file]
    return lists
