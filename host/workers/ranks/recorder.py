"""Writes the records of all ranks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...execute.trace import Trace
from ..commits import record_of
from ..points import reached
from ..protocol.commit import Commit
from ..records.folder import CheckpointFolder
from ..records.record import Record
from .admission import merged
from .chair import Begin, Over


@dataclass(frozen=True)
class Recorder:
    """Writes the records of all ranks, at rank 0.

    Parameters
    ----------
    folder : CheckpointFolder
    query, fingerprint, dealt : str
        Those of :class:`~..records.record.Record`.
    incarnation : int
    kept : dict of number to tuple of bytes
        Descriptions of rows of earlier numbers that were not acknowledged; changes.
    """

    folder: CheckpointFolder
    query: str
    fingerprint: str
    dealt: str
    incarnation: int
    kept: dict[int, tuple[bytes, ...]]

    def commit(self, over: Over) -> None:
        """Write the record of a cut.

        Raises
        ------
        FileError
        """
        parts = over.parts
        acknowledged = min(part["acknowledged"] for part in parts)
        kept = self.kept
        kept[over.number] = tuple(part["rows"].encode() for part in parts if part["rows"])
        for number in [n for n, files in kept.items() if n <= acknowledged or not files]:
            del kept[number]
        commit = Commit(
            over.number,
            len(parts),
            self.incarnation,
            {},
            merged([part["admission"] for part in parts]),
            acknowledged,
            tuple(part["state"].encode() for part in parts),
            dict(kept),
        )
        counts = {name: sum(part["counts"][name] for part in parts) for name in parts[0]["counts"]}
        self.folder.commit(record_of(commit, self.query, self.fingerprint, self.dealt, counts))


def part_note(commit: Commit, acknowledged: int, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return what a rank tells rank 0 of its part of a checkpoint.

    Parameters
    ----------
    commit : Commit
        Of this rank alone.
    acknowledged : int
        Up to which number the caller has taken all rows of the rank.
    counts : mapping of str to int
        What the record keeps.
    """
    return {
        "say": "part",
        "number": commit.number,
        "state": commit.states[0].decode(),
        "rows": b"".join(commit.rows.get(commit.number, ())).decode(),
        "admission": commit.admission,
        "acknowledged": acknowledged,
        "counts": dict(counts),
    }


def turn_note(turn: Begin | Over, recorder: Recorder | None, trace: Trace) -> dict[str, Any]:
    """Return what all ranks are told; commits what is over before.

    Raises
    ------
    FileError
    """
    if isinstance(turn, Begin):
        return {"say": "begin"}
    if recorder is not None:
        began = time.monotonic()
        reached("record")
        recorder.commit(turn)
        reached("committed")
        trace.add("records", "record", began, time.monotonic(), number=turn.number)
    return {"say": "over", "number": turn.number, "is_last": turn.is_last}


def own_commit(last: Record | None) -> Commit | None:
    """Return a record as far as it concerns one rank: how far it goes."""
    if last is None:
        return None
    return Commit(last.number, 1, last.incarnation, {}, None, last.number, (), {})
