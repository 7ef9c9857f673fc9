"""Coordinator of cuts: says when all members cut, and makes the record of a cut.

Members are the workers of one process, whose :class:`~.parent.Parent` coordinates them, or the
ranks of an engine, which rank 0 coordinates. Paper 2 has no recovery; docs/decisions/0039.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .commit import CheckpointCommit


class Phase(Enum):
    """Phase of a coordinator. A cut passes all four, in this order."""

    #: No cut is under way.
    RUNNING = "running"
    #: Members have been told to cut, and parts of some are missing.
    CUTTING = "cutting"
    #: All parts are written, and the record is not.
    SAVED = "saved"
    #: The record is written, and members have yet to hear of it.
    SEALED = "sealed"


@dataclass(frozen=True)
class MemberPart:
    """Part of one member in a cut.

    Parameters
    ----------
    state, rows : bytes
        Descriptions of the files with its state and its output; empty if there are none.
    admission : object
        State of its intake, if the member is a rank, which has its own.
    acknowledged : int
        Number up to which a rank's caller has taken all rows.
    counts : mapping of str to int
        A rank's counts for the record.
    """

    state: bytes = b""
    rows: bytes = b""
    admission: Any = None
    acknowledged: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


class Coordinator:
    """Pure state machine of the cuts of all members.

    Parameters
    ----------
    size : int
        Members.
    last : CheckpointCommit, optional
        Record to go on from.

    Attributes
    ----------
    phase : Phase
    number : int
        Number of the last sealed cut; 0 before the first.
    is_last : bool
        Whether the cut that is under way, or was sealed last, is behind all input.
    """

    def __init__(self, size: int, last: CheckpointCommit | None = None) -> None:
        self.size = size
        self.phase = Phase.RUNNING
        self.number = 0 if last is None else last.number
        self.is_last = self._is_wanted = False
        self._ended: set[int] = set()
        self._parts: dict[int, MemberPart] = {}
        #: Descriptions of files with unacknowledged rows, by number.
        self._rows = {} if last is None else dict(last.rows)

    def want(self) -> None:
        """Note that a member wants a cut; one that is under way does not count for it."""
        self._is_wanted = True

    def end(self, member: int) -> None:
        """Note that a member takes no more input."""
        self._ended.add(member)

    @property
    def is_due(self) -> bool:
        """Whether a cut is to begin: a member wants it, or all have ended."""
        is_wanted = self._is_wanted or len(self._ended) == self.size
        return self.phase is Phase.RUNNING and is_wanted

    def begin(self) -> int:
        """Begin a cut; returns its number, under which each member is to give its part."""
        assert self.phase is Phase.RUNNING
        self.phase, self._is_wanted = Phase.CUTTING, False
        self.is_last = len(self._ended) == self.size
        return self.number + 1

    def awaits(self, member: int, number: int) -> bool:
        """Whether a member's part of a cut is missing."""
        is_next = self.phase is Phase.CUTTING and number == self.number + 1
        return is_next and member not in self._parts

    def add(self, member: int, part: MemberPart) -> None:
        """Add a part that :meth:`awaits` says is missing; with the last one the cut is saved."""
        assert self.phase is Phase.CUTTING
        self._parts[member] = part
        if len(self._parts) == self.size:
            self.phase = Phase.SAVED

    def has_part(self, member: int) -> bool:
        """Whether a member's part is written; results that follow are of the next number."""
        return member in self._parts

    @property
    def parts(self) -> list[MemberPart]:
        """Parts of all members, in order, of a cut that is saved."""
        assert self.phase is Phase.SAVED
        return [self._parts[member] for member in range(self.size)]

    def record(
        self, incarnation: int, promises: Mapping[int, int], admission: Any, acknowledged: int
    ) -> CheckpointCommit:
        """Return the content of the record of a cut that is saved; :meth:`seal` once it is written.

        Parameters
        ----------
        incarnation, promises, admission, acknowledged
            As in :class:`~.commit.CheckpointCommit`.
        """
        parts, number = self.parts, self.number + 1
        rows = {**self._rows, number: tuple(part.rows for part in parts if part.rows)}
        return CheckpointCommit(
            number,
            self.size,
            incarnation,
            dict(promises),
            admission,
            acknowledged,
            tuple(part.state for part in parts),
            {n: files for n, files in rows.items() if files and self._needs(n, acknowledged)},
        )

    def _needs(self, number: int, acknowledged: int) -> bool:
        """Whether rows of a number must stay in files, since they may be given again."""
        return number > acknowledged

    def seal(self, commit: CheckpointCommit | None = None) -> None:
        """Note that the record of a saved cut is on the disk, under its name.

        Parameters
        ----------
        commit : CheckpointCommit, optional
            None where cuts are not checkpoints.
        """
        assert self.phase is Phase.SAVED
        self.phase, self._parts = Phase.SEALED, {}
        self.number += 1
        if commit is not None:
            assert commit.number == self.number
            self._rows = commit.rows

    def go_on(self) -> None:
        """Note that members have been told of the sealed cut: unless it is the last, run again."""
        assert self.phase is Phase.SEALED
        if not self.is_last:
            self.phase = Phase.RUNNING

    def recut(self) -> None:
        """Forget all parts of a cut, since its members begin again from the record before."""
        self._parts = {}
        if self.phase is Phase.SAVED:
            self.phase = Phase.CUTTING
