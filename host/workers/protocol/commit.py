"""What a checkpoint consists of: a part of each worker, and the record that names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WorkerPart:
    """What one worker puts into a checkpoint.

    Parameters
    ----------
    number : int
        Of the checkpoint.
    rank, size, incarnation : int
        Whose part it is.
    state : sequence of buffer or int
        What the worker leads, its texts among it, as of the marks: what its state has saved.
    rows : sequence of rows
        All that was computed since the checkpoint before: those under this number.
    promises : mapping of feed to time
        The clock's, as of the marks.
    """

    number: int
    rank: int
    size: int
    incarnation: int
    state: tuple[Any, ...]
    rows: tuple[Any, ...]
    promises: dict[int, int]


@dataclass(frozen=True)
class Commit:
    """What a record says: all that a stream needs to go on from there.

    Files that a record does not name may be removed once it is committed, and not before.

    Parameters
    ----------
    number : int
        From 1 on.
    size : int
        Workers that wrote it.
    incarnation : int
        In which it was written.
    promises : mapping of feed to time
        What workers had been promised at the cut.
    admission : object
        State of the intake at the cut, as the caller gave it.
    acknowledged : int
        Rows up to this number were taken by the caller.
    states : tuple of bytes
        Descriptions of the state of each worker at the cut, by rank.
    rows : mapping of number to tuple of bytes
        Descriptions of rows not acknowledged, by number, those of older records among them.
    """

    number: int
    size: int
    incarnation: int
    promises: dict[int, int]
    admission: Any
    acknowledged: int
    states: tuple[bytes, ...]
    rows: dict[int, tuple[bytes, ...]]
