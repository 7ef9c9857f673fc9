"""Content of a checkpoint: a part of each worker, and the commit that names the parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WorkerPart:
    """Part of one worker in a checkpoint, before it is written.

    Parameters
    ----------
    number : int
        Of the checkpoint.
    rank, size, incarnation : int
        Of the worker.
    state : sequence of buffer or int
        Saved groups that the worker leads, with their texts, as of the marks.
    rows : sequence of rows
        All output since the checkpoint before, which has this number.
    promises : mapping of feed to time
        Of the vector clock, as of the marks.
    """

    number: int
    rank: int
    size: int
    incarnation: int
    state: tuple[Any, ...]
    rows: tuple[Any, ...]
    promises: dict[int, int]


@dataclass(frozen=True)
class CheckpointCommit:
    """Content of a checkpoint's record: everything that a stream needs to go on from there.

    Files that a record does not name may be removed once it is committed, and not before.

    Parameters
    ----------
    number : int
        From 1 on.
    size : int
        Number of workers that wrote it.
    incarnation : int
        In which it was written.
    promises : mapping of feed to time
        Promises that workers had got at the cut.
    admission : object
        State of the intake at the cut.
    acknowledged : int
        The caller has taken all rows up to this number.
    states : tuple of bytes
        Descriptions of the files with each worker's state at the cut, by rank.
    rows : mapping of number to tuple of bytes
        Descriptions of the files with unacknowledged rows, by number, older ones included.
    """

    number: int
    size: int
    incarnation: int
    promises: dict[int, int]
    admission: Any
    acknowledged: int
    states: tuple[bytes, ...]
    rows: dict[int, tuple[bytes, ...]]
