"""Records of the disk as commits of the protocol, and back."""

from __future__ import annotations

from collections.abc import Sequence

from .protocol.commit import Commit
from .records.parts import Part
from .records.record import Record
from .writing import as_text, parts_of


def record_of(commit: Commit, query: str, fingerprint: str, schema: str) -> Record:
    """Return what is written of a commit.

    Parameters
    ----------
    query, fingerprint, schema : str
        Those of :class:`~.records.record.Record`.
    """
    return Record(
        commit.number,
        commit.size,
        commit.incarnation,
        query,
        fingerprint,
        schema,
        commit.promises,
        commit.admission,
        commit.acknowledged,
        parts_in(commit.states),
        {number: parts_in(texts) for number, texts in commit.rows.items()},
    )


def commit_of(record: Record) -> Commit:
    """Return a record as the protocol has it."""
    return Commit(
        record.number,
        record.size,
        record.incarnation,
        dict(record.promises),
        record.admission,
        record.acknowledged,
        _texts(record.states),
        {number: _texts(parts) for number, parts in record.rows.items()},
    )


def parts_in(texts: Sequence[bytes]) -> tuple[Part, ...]:
    """Return the parts that a commit describes."""
    return tuple(part for text in texts for part in parts_of(text))


def _texts(parts: Sequence[Part]) -> tuple[bytes, ...]:
    return tuple(as_text([part]) for part in parts)
