"""Messages of the protocol, as values; ``coding`` has them as bytes.

Each has the incarnation of its sender: how often all workers have begun anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class DeltaBlock:
    """Changed entries of partitions that the receiver leads.

    Parameters
    ----------
    epoch : int
        From 1 on in each incarnation.
    block : int
        Number in its epoch for this receiver, from 0 on.
    body : buffer
        As the state wrote it.
    """

    kind: ClassVar[str] = "DELTA"
    incarnation: int
    epoch: int
    block: int
    body: Any


@dataclass(frozen=True)
class EpochEnd:
    """The end of an epoch, behind its blocks.

    Parameters
    ----------
    blocks : int
        Of the epoch, for this receiver.
    rows, late : int
        Rows that the sender has folded in this incarnation, and those it found late.
    promises : tuple of (feed, time)
        What holds for all rows that the sender folds from now on, by feed.
    """

    kind: ClassVar[str] = "END"
    incarnation: int
    epoch: int
    blocks: int
    rows: int
    late: int
    promises: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Mark:
    """The cut between what a checkpoint covers and what it does not, on every way between members.

    Parameters
    ----------
    number : int
        Of the checkpoint.
    """

    kind: ClassVar[str] = "MARK"
    incarnation: int
    number: int


@dataclass(frozen=True)
class StepNotice:
    """Rank 0 announces a step: all workers let go what is complete below a time, at once.

    Parameters
    ----------
    time : int
        Of the sender's clock.
    """

    kind: ClassVar[str] = "CONTROL"
    incarnation: int
    time: int


@dataclass(frozen=True)
class DealtRows:
    """Rows that the parent gives to a worker.

    Parameters
    ----------
    number : int
        Of the batch, from 1 on; it stays when a batch is dealt again.
    feed : int
    first : int
        Number of the first row in its feed.
    body : buffer, or the decoded batch
    """

    kind: ClassVar[str] = "ROWS"
    incarnation: int
    number: int
    feed: int
    first: int
    body: Any


@dataclass(frozen=True)
class Promise:
    """The parent's word that no later row of a feed is below a time."""

    kind: ClassVar[str] = "CONTROL"
    incarnation: int
    feed: int
    time: int


@dataclass(frozen=True)
class Withdrawal:
    """A feed sends no more; its source may go on."""

    kind: ClassVar[str] = "CONTROL"
    incarnation: int
    feed: int


@dataclass(frozen=True)
class OutputRows:
    """Rows of complete groups, from a worker to the parent.

    Parameters
    ----------
    number : int
        Of the checkpoint that will cover them.
    body : buffer, or a batch
    """

    kind: ClassVar[str] = "ROWS"
    incarnation: int
    number: int
    body: Any


@dataclass(frozen=True)
class PartWritten:
    """A worker's part of a checkpoint is on the disk, or all of its marks are there without one.

    Parameters
    ----------
    number : int
        Of the checkpoint.
    state, rows : bytes
        What a record needs to find and check the state, and the rows of this number; empty where
        there are none.
    """

    kind: ClassVar[str] = "CONTROL"
    incarnation: int
    number: int
    state: bytes
    rows: bytes


@dataclass(frozen=True)
class Note:
    """What ranks without a parent tell each other about cuts, feeds and their ends.

    Parameters
    ----------
    body : bytes
        Means nothing to :class:`~.worker.Worker`: whoever runs it reads it.
    """

    kind: ClassVar[str] = "CONTROL"
    incarnation: int
    body: bytes


Message = (
    DeltaBlock
    | EpochEnd
    | Mark
    | DealtRows
    | Promise
    | Withdrawal
    | OutputRows
    | PartWritten
    | Note
    | StepNotice
)
