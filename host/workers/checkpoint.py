"""Where and how often a stream keeps what it needs to go on after a crash."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock import arguments
from penstock.errors import UsageError

from ..rows.location import local_path

#: When rows leave: once the checkpoint that covers them is committed, or at once.
RELEASES = ("commit", "now")


@dataclass(frozen=True)
class Checkpoint:
    """A folder of checkpoints.

    Parameters
    ----------
    path : path
        A folder on a local disk, of this stream alone; it is made if it is missing. A stream with
        the same query that is opened on it later goes on from its last record.
    every_s : float
        Seconds from one checkpoint to the next. Rows that are released by commits wait so long.
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


def checkpoint_of(given: str | os.PathLike[str] | Checkpoint | None) -> Checkpoint | None:
    """Return the checkpoint that a caller gave as such, or as its path.

    Raises
    ------
    UsageError
    """
    if given is None or isinstance(given, Checkpoint):
        return given
    if isinstance(given, str | os.PathLike):
        return Checkpoint(given)
    raise arguments.refuse("checkpoint", "a path, or a penstock.Checkpoint", given)


def release_of(given: str) -> str:
    """Check when rows leave.

    Raises
    ------
    UsageError
    """
    if given not in RELEASES:
        known = " or ".join(map(repr, RELEASES))
        raise UsageError(f"release must be {known}, not {given!r}")
    return given
