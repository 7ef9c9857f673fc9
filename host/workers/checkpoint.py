"""Options of checkpoints, from which a stream goes on after a crash."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock import arguments
from penstock.errors import UsageError

from ..store.location import local_path

#: Times at which rows leave: once the checkpoint that covers them is committed, or at once.
RELEASES = ("commit", "now")


@dataclass(frozen=True)
class Checkpoint:
    """Folder and interval of a stream's checkpoints.

    Parameters
    ----------
    path : path
        A folder on a local disk, of this stream alone; it is made if it is missing. A stream with
        the same query that is opened on it later goes on from its last record.
    every_s : float
        Seconds from one checkpoint to the next. Rows that are released by commits wait so long.

    Examples
    --------
    >>> state = penstock.Checkpoint("counts.checkpoint", every_s=60)
    >>> stream = penstock.stream(counts, schemas, time={"o": "t"}, checkpoint=state)
    >>> stream.push("o", orders)
    >>> number, rows = stream.close()
    >>> number, rows.num_rows
    (1, 2)
    """

    path: str | os.PathLike[str]
    every_s: float = 10.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path):
            raise arguments.refuse("path", "the path of a folder", self.path)
        _ = self.folder
        arguments.seconds("every_s", self.every_s, above=0)

    @property
    def folder(self) -> Path:
        return local_path(self.path, "a checkpoint of workers is on a local disk")


def checkpoint_of(option: str | os.PathLike[str] | Checkpoint | None) -> Checkpoint | None:
    """Return a caller's checkpoint, which may be given as its path.

    Raises
    ------
    UsageError
    """
    if option is None or isinstance(option, Checkpoint):
        return option
    if isinstance(option, str | os.PathLike):
        return Checkpoint(option)
    raise arguments.refuse("checkpoint", "a path, or a penstock.Checkpoint", option)


def release_of(option: str) -> str:
    """Check a caller's option ``release``; returns it.

    Raises
    ------
    UsageError
    """
    if option not in RELEASES:
        known = " or ".join(map(repr, RELEASES))
        raise UsageError(f"release must be {known}, not {option!r}")
    return option
