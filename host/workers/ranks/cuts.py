"""Cuts that all ranks make together, on the side of one rank."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from ..protocol.commit import CheckpointCommit
from ..protocol.messages import OutputRows, PartWritten
from ..protocol.parent import Parent
from .chair import Begin, Chair, Over


class Cuts:
    """Pure state machine of a rank's cuts: takes notes and results, and emits notes.

    The driver sends the ``notes``, and hands in notes of all ranks, this one included
    (:meth:`heard`), and results of this rank's worker (:meth:`arrived`). At rank 0 it also asks the
    chair (:meth:`turn`), and has the decision sent once it is carried out (:meth:`announce`).

    Parameters
    ----------
    rank, size : int
    parent : Parent
        Of one worker, the rank's own.

    Attributes
    ----------
    notes : deque of (rank, note)
        Notes to send, in order; the rank may be this one.
    has_part : bool
        Whether this rank's part is written and the cut not over: further results of its worker are
        of the next number, and wait.
    is_over : bool
        Whether the last cut is over, so that only output rows are left.
    """

    def __init__(self, rank: int, size: int, parent: Parent) -> None:
        self.rank, self.size = rank, size
        self.notes: deque[tuple[int, dict[str, Any]]] = deque()
        self.has_part = self.is_over = False
        self.parent = parent
        self._chair = Chair(size, parent.committed) if rank == 0 else None
        #: Number of the last cut that rank 0 was asked for, and of the last part it was sent.
        self._requested = self._reported = parent.committed

    # Notes to send.

    def ask(self) -> None:
        """Ask rank 0 for a cut behind all batches pushed so far."""
        self._requested = self.parent.committed + 1
        self.notes.append((0, {"say": "want"}))

    @property
    def has_asked(self) -> bool:
        """Whether rank 0 is asked for the next cut."""
        return self._requested > self.parent.committed

    def end(self) -> None:
        """Tell rank 0 that this rank takes no more input."""
        self.notes.append((0, {"say": "ended"}))

    # Notes that come.

    def heard(self, rank: int, note: Mapping[str, Any]) -> bool:
        """Take a note, unless it is not about cuts; returns whether this rank is to cut now."""
        chair = self._chair
        match note["say"]:
            case "want" if chair is not None:
                chair.want()
            case "ended" if chair is not None:
                chair.end(rank)
            case "part" if chair is not None:
                chair.part(rank, note["number"], note)
            case "over":
                self._over(note["number"], is_last=note["is_last"])
        return note["say"] == "begin"

    def _over(self, number: int, *, is_last: bool) -> None:
        commit = self.parent.ready
        if commit is not None and self.parent.committed < number:
            self.parent.commit(commit)
        self.has_part, self.is_over = False, is_last

    # This rank's part.

    def arrived(self, message: OutputRows | PartWritten) -> None:
        """Take a result of this rank's worker, while :attr:`has_part` is false."""
        self.parent.arrived(0, message)
        self.has_part = isinstance(message, PartWritten)

    def give_part(self, acknowledged: int, counts: Mapping[str, int]) -> bool:
        """Report this rank's part of a cut to rank 0; returns whether there was one to report.

        Parameters
        ----------
        acknowledged : int
            Number up to which the caller has taken all rows of this rank.
        counts : mapping of str to int
            Counts for the record.
        """
        parent = self.parent
        if not self.has_part or self._reported > parent.committed:
            return False
        commit = parent.ready
        if commit is None:  # without a checkpoint the cut is over here
            self._reported = parent.committed
            self.has_part = False
            self.notes.append((0, {"say": "part", "number": self._reported}))
        else:
            self._reported = commit.number
            self.notes.append((0, _part_note(commit, acknowledged, counts)))
        return True

    # The chair, at rank 0.

    def turn(self) -> Begin | Over | None:
        """Return the chair's next decision, which :meth:`announce` sends once it is carried out.

        None if there is none, and in all ranks but 0. For a cut that is over, write the record.
        """
        return None if self._chair is None else self._chair.turn()

    def announce(self, turn: Begin | Over) -> None:
        """Send a decision of the chair to all ranks."""
        note: dict[str, Any] = {"say": "begin"}
        if isinstance(turn, Over):
            note = {"say": "over", "number": turn.number, "is_last": turn.is_last}
        self.notes.extend((rank, note) for rank in range(self.size))


def _part_note(
    commit: CheckpointCommit, acknowledged: int, counts: Mapping[str, int]
) -> dict[str, Any]:
    """Return the note for rank 0 about a rank's part, which its parent sees as a whole commit."""
    return {
        "say": "part",
        "number": commit.number,
        "state": commit.states[0].decode(),
        "rows": b"".join(commit.rows.get(commit.number, ())).decode(),
        "admission": commit.admission,
        "acknowledged": acknowledged,
        "counts": dict(counts),
    }
