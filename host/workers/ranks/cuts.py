"""A rank's side of the cuts that all ranks make together: a pure state machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from ..protocol.commit import Commit
from ..protocol.messages import OutputRows, PartWritten
from ..protocol.parent import Parent
from .chair import Begin, Chair, Over


class Cuts:
    """What one rank says and hears of cuts.

    Whoever runs it says what lies in ``notes``, and hands it what ranks say, this one included
    (:meth:`heard`), and what this rank's worker gives (:meth:`arrived`). At rank 0 there is the
    chair, too: :meth:`turn`, and :meth:`tell` once that is done.

    Parameters
    ----------
    rank, size : int
    parent : Parent
        Of one worker, the rank's own.

    Attributes
    ----------
    notes : deque of (rank, note)
        To be said to a rank, which may be this one, in order.
    has_part : bool
        Whether this rank's part is written, and the cut not over: what its worker gives next is of
        the next number, and waits.
    is_over : bool
        Whether the last cut is over, and rows are all that is left.
    """

    def __init__(self, rank: int, size: int, parent: Parent) -> None:
        self.rank, self.size = rank, size
        self.notes: deque[tuple[int, dict[str, Any]]] = deque()
        self.has_part = self.is_over = False
        self.parent = parent
        self._chair = Chair(size, parent.committed) if rank == 0 else None
        #: The cut that rank 0 was asked for last, and the last whose part it was told.
        self._asked = self._told = parent.committed

    # What this rank wants.

    def ask(self) -> None:
        """Ask rank 0 for a cut behind all that was pushed so far."""
        self._asked = self.parent.committed + 1
        self.notes.append((0, {"say": "want"}))

    @property
    def has_asked(self) -> bool:
        """Whether rank 0 is asked for the next cut."""
        return self._asked > self.parent.committed

    def end(self) -> None:
        """Say that this rank takes no more rows."""
        self.notes.append((0, {"say": "ended"}))

    # What it hears.

    def heard(self, rank: int, note: Mapping[str, Any]) -> bool:
        """Take a note; returns whether this rank is to cut now. Those of other things are left."""
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
        """Take what the worker gives, while there is no part."""
        self.parent.arrived(0, message)
        self.has_part = isinstance(message, PartWritten)

    def give_part(self, acknowledged: int, counts: Mapping[str, int]) -> bool:
        """Tell rank 0 of this rank's part of a cut; returns whether there was one to tell of.

        Parameters
        ----------
        acknowledged : int
            Up to which number the caller has taken all rows of this rank.
        counts : mapping of str to int
            What the record keeps.
        """
        parent = self.parent
        if not self.has_part or self._told > parent.committed:
            return False
        commit = parent.ready
        if commit is None:  # without a checkpoint the cut is over here
            self._told = parent.committed
            self.has_part = False
            self.notes.append((0, {"say": "part", "number": self._told}))
        else:
            self._told = commit.number
            self.notes.append((0, _part_note(commit, acknowledged, counts)))
        return True

    # The chair, at rank 0.

    def turn(self) -> Begin | Over | None:
        """Return what all ranks are to be told, once the record of a cut that is over is written.

        None if there is nothing, and in all ranks but 0.
        """
        return None if self._chair is None else self._chair.turn()

    def tell(self, turn: Begin | Over) -> None:
        """Tell all ranks."""
        note: dict[str, Any] = {"say": "begin"}
        if isinstance(turn, Over):
            note = {"say": "over", "number": turn.number, "is_last": turn.is_last}
        self.notes.extend((rank, note) for rank in range(self.size))


def _part_note(commit: Commit, acknowledged: int, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return what a rank tells rank 0 of its part of a checkpoint, which is a commit of its own."""
    return {
        "say": "part",
        "number": commit.number,
        "state": commit.states[0].decode(),
        "rows": b"".join(commit.rows.get(commit.number, ())).decode(),
        "admission": commit.admission,
        "acknowledged": acknowledged,
        "counts": dict(counts),
    }
