"""Writes the records of all ranks."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from ...execute.trace import Trace
from ..commits import record_of
from ..points import reached
from ..protocol.commit import Commit
from ..records.folder import CheckpointFolder
from ..records.record import Record
from .admission import merged
from .chair import Over


@dataclass
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

    def commit(self, over: Over, trace: Trace) -> None:
        """Write the record of a cut.

        Raises
        ------
        FileError
        """
        began = time.monotonic()
        reached("record")
        counts: Counter[str] = Counter()
        for part in over.parts:
            counts.update(part["counts"])
        commit = self.whole(over)
        self.folder.commit(record_of(commit, self.query, self.fingerprint, self.dealt, counts))
        reached("committed")
        trace.add("records", "record", began, time.monotonic(), number=over.number)

    def whole(self, over: Over) -> Commit:
        """Return the commit of all ranks, from what each has told of its part."""
        parts = over.parts
        acknowledged = min(part["acknowledged"] for part in parts)
        kept = self.kept
        kept[over.number] = tuple(part["rows"].encode() for part in parts if part["rows"])
        for number in [n for n, files in kept.items() if n <= acknowledged or not files]:
            del kept[number]
        return Commit(
            over.number,
            len(parts),
            self.incarnation,
            {},
            merged([part["admission"] for part in parts]),
            acknowledged,
            tuple(part["state"].encode() for part in parts),
            dict(kept),
        )


def own_commit(last: Record | None) -> Commit | None:
    """Return a record as far as it concerns one rank: how far it goes."""
    if last is None:
        return None
    return Commit(last.number, 1, last.incarnation, {}, None, last.number, (), {})
