"""Parent of a rank's worker, whose cuts all ranks make together."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from ..protocol.commit import CheckpointCommit
from ..protocol.coordinator import Coordinator, MemberPart, Phase
from ..protocol.messages import PartWritten
from ..protocol.parent import Parent
from .admission import merged


class RankParent(Parent):
    """State machine of the parent of one worker, in a rank.

    Ranks agree on cuts by notes. Rank 0 coordinates all of them: each asks it for cuts, begins one
    when it says so, reports its part, and hears that the record is written. The driver sends the
    ``notes``, and hands in notes of all ranks, this one included (:meth:`heard`). When
    :attr:`is_due` says so, or :meth:`heard`, it calls :meth:`cut`. All else is as for any parent,
    but that a part is reported by a call of its own (:meth:`give_part`).

    Parameters
    ----------
    rank, size : int
    saves, now : bool
        As for :class:`~..protocol.parent.Parent`.
    last : CheckpointCommit, optional
        The record of all ranks to go on from.

    Attributes
    ----------
    notes : deque of (rank, note)
        Notes to send, in order; the rank may be this one.
    is_over : bool
        Whether the last cut is over, so that only output rows are left.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        *,
        saves: bool,
        now: bool = False,
        last: CheckpointCommit | None = None,
    ) -> None:
        begin = None
        if last is not None:  # intakes have its promises, and the driver its rows
            number, incarnation = last.number, last.incarnation
            begin = CheckpointCommit(number, 1, incarnation, {}, None, number, (), {})
        super().__init__(1, saves=saves, now=now, keeps=False, last=begin)
        self.rank = rank
        self.notes: deque[tuple[int, dict[str, Any]]] = deque()
        self.is_over = False
        if rank == 0:
            self.coordinator = Coordinator(size, last)
        #: Part of this rank's worker, until it is reported.
        self._written: PartWritten | None = None
        #: Number of the last cut that rank 0 was asked for.
        self._requested = self.committed

    # Beginning.

    def ask(self) -> None:
        """Ask rank 0 for a cut behind all batches pushed so far."""
        self._requested = self.committed + 1
        self.notes.append((0, {"say": "want"}))

    @property
    def has_asked(self) -> bool:
        """Whether rank 0 is asked for the next cut."""
        return self._requested > self.committed

    def end(self) -> None:
        """Tell rank 0 that this rank takes no more input."""
        self.notes.append((0, {"say": "ended"}))

    @property
    def is_due(self) -> bool:
        """Whether rank 0 is to cut now, and all others with it; false in all ranks but 0."""
        return self.rank == 0 and self.coordinator.is_due

    def cut(self, admission: Any = None) -> int:
        number = super().cut(admission)
        if self.rank == 0:
            self._tell_others({"say": "begin"})
        return number

    # Notes that come.

    def heard(self, rank: int, note: Mapping[str, Any]) -> bool:
        """Take a note, unless it is not about cuts; returns whether this rank is to cut now."""
        match note["say"]:
            case "want":
                self.coordinator.want()
            case "ended":
                self.coordinator.end(rank)
            case "part":
                assert self.coordinator.awaits(rank, note["number"])
                self._add(rank, _part_of(note))
            case "over":
                if self.saves:
                    assert note["number"] == self.committed + 1
                    self._seal(None)
                self.is_over = note["is_last"]
        return note["say"] == "begin"

    # Parts.

    def has_part(self, worker: int) -> bool:
        return self._written is not None or super().has_part(worker)

    def _take_part(self, rank: int, message: PartWritten) -> None:
        self._written = message

    def give_part(self, acknowledged: int, counts: Mapping[str, int]) -> bool:
        """Report this rank's part of a cut to rank 0; returns whether there was one to report.

        Parameters
        ----------
        acknowledged : int
            Number up to which the caller has taken all rows of this rank.
        counts : mapping of str to int
            Counts for the record.
        """
        written = self._written
        if written is None:
            return False
        self._written = None
        admission = self._at_cut[1]
        part = MemberPart(written.state, written.rows, admission, acknowledged, counts)
        if self.rank:
            self.notes.append((0, _note_of(written.number, part)))
        self._add(0, part)
        return True

    @property
    def ready(self) -> CheckpointCommit | None:
        if self.rank or not self.saves or self.coordinator.phase is not Phase.SAVED:
            return None
        parts = self.coordinator.parts
        admission = merged([part.admission for part in parts])
        acknowledged = min(part.acknowledged for part in parts)
        return self.coordinator.record(self.incarnation, {}, admission, acknowledged)

    def counts(self) -> Counter[str]:
        """Return the counts of all ranks for the record that is :attr:`ready`."""
        total: Counter[str] = Counter()
        for part in self.coordinator.parts:
            total.update(part.counts)
        return total

    def _seal(self, commit: CheckpointCommit | None) -> None:
        number, is_last = self.committed + 1, self.coordinator.is_last
        super()._seal(commit)
        if self.rank == 0:
            self._tell_others({"say": "over", "number": number, "is_last": is_last})
            self.is_over = is_last

    def _tell_others(self, note: dict[str, Any]) -> None:
        self.notes.extend((rank, note) for rank in range(1, self.coordinator.size))


def _note_of(number: int, part: MemberPart) -> dict[str, Any]:
    """Return the note for rank 0 about a rank's part."""
    return {
        "say": "part",
        "number": number,
        "state": part.state.decode(),
        "rows": part.rows.decode(),
        "admission": part.admission,
        "acknowledged": part.acknowledged,
        "counts": dict(part.counts),
    }


def _part_of(note: Mapping[str, Any]) -> MemberPart:
    """Return the part of :func:`_note_of`."""
    state, rows = note["state"].encode(), note["rows"].encode()
    return MemberPart(state, rows, note["admission"], note["acknowledged"], note["counts"])
