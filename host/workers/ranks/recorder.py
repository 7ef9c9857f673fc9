"""Writes the records of all ranks."""

from __future__ import annotations

from dataclasses import dataclass

from ..commits import record_of
from ..protocol.commit import Commit
from ..records.folder import CheckpointFolder
from .admission import merged
from .chair import Over


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
