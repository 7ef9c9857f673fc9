"""Messages of the protocol; ``coding`` turns them into bytes.

Each has the incarnation of its sender: how often all workers have been started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class DeltaBlock:
    """Block of a helper's changes in an epoch, to the leader of their cells.

    Parameters
    ----------
    epoch : int
        From 1 on in each incarnation.
    block : int
        Number of the block in its epoch for this receiver, from 0 on.
    body : buffer
        Written by the state.
    """

    kind: ClassVar[str] = "DELTA"
    incarnation: int
    epoch: int
    block: int
    body: Any


@dataclass(frozen=True)
class EpochEnd:
    """End of an epoch, behind its blocks.

    Parameters
    ----------
    blocks : int
        Number of blocks of the epoch for this receiver.
    rows, late : int
        Rows that the sender has folded in this incarnation, and rows that it found late.
    promises : tuple of (feed, time)
        Low watermark of each feed for all rows that the sender folds from now on.
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
    """Mark of a cut on one channel: a checkpoint covers the messages before it, not those behind.

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
    """Announcement by rank 0 of a step: all workers release rows complete below a time.

    Parameters
    ----------
    time : int
        Low watermark of the sender's clock.
    """

    kind: ClassVar[str] = "CONTROL"
    incarnation: int
    time: int


@dataclass(frozen=True)
class DealtRows:
    """Batch of rows that the parent deals to a worker.

    Parameters
    ----------
    number : int
        Of the batch, from 1 on; the same when a batch is dealt again.
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
    """Promise of the parent that no later row of a feed has a time below this one."""

    kind: ClassVar[str] = "CONTROL"
    incarnation: int
    feed: int
    time: int


@dataclass(frozen=True)
class Withdrawal:
    """Notice that a feed sends no more rows, though its source may go on."""

    kind: ClassVar[str] = "CONTROL"
    incarnation: int
    feed: int


@dataclass(frozen=True)
class OutputRows:
    """Output rows, from a worker to the parent.

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
    """Notice that a worker's part of a checkpoint is written, or its cut over without one.

    Parameters
    ----------
    number : int
        Of the checkpoint.
    state, rows : bytes
        Descriptions of the files with the state, and with the rows of this number; empty if there
        are none.
    """

    kind: ClassVar[str] = "CONTROL"
    incarnation: int
    number: int
    state: bytes
    rows: bytes


@dataclass(frozen=True)
class Note:
    """Note between ranks, which have no parent, about cuts, feeds and ends of ranks.

    Parameters
    ----------
    body : bytes
        Read by the driver, not by :class:`~.worker.Worker`.
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
