"""Parent of local workers: deals batches, makes cuts, commits records, gives rows to the caller.

The parent sees every row before any worker does, so it alone decides which rows are late, and
where a cut is: behind the batches dealt so far. Paper 2 has no recovery; docs/decisions/0039.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.errors import LostError
from penstock.plan.window import FOREVER, NEVER

from ...device.fields import MalformedError
from .commit import CheckpointCommit
from .coordinator import Coordinator, MemberPart, Phase
from .ledger import Ledger
from .messages import DealtRows, Mark, Message, OutputRows, PartWritten, Promise, Withdrawal


class NumberedRows:
    """Output rows under the number of the record that covers them, until they are acknowledged.

    Released is not delivered: a caller acknowledges rows by the next poll. Unacknowledged rows stay
    in the files of their number, and are given again under it after a restart.

    Parameters
    ----------
    now : bool
        Whether rows leave before their record is committed, so perhaps again after a crash.
    committed, acknowledged : int
        Number of the last record, and number up to which it says that all rows were taken.
    rows : mapping of number to rows, optional
        Rows of the numbers in between, from the record's files.
    """

    def __init__(
        self,
        now: bool,
        committed: int = 0,
        acknowledged: int = 0,
        rows: Mapping[int, Sequence[Any]] | None = None,
    ) -> None:
        self._now = now
        self.committed = committed
        self.acknowledged = acknowledged
        self._rows = {number: list(held) for number, held in (rows or {}).items() if held}

    def add(self, number: int, rows: Any) -> None:
        """Hold rows that a later record will cover."""
        assert number > self.committed
        self._rows.setdefault(number, []).append(rows)

    def commit(self, number: int) -> None:
        """Release the rows of a record that is on the disk."""
        assert number == self.committed + 1
        self.committed = number

    def drop(self) -> None:
        """Forget rows that no record covers, since they will be computed again."""
        self._rows = {n: held for n, held in self._rows.items() if n <= self.committed}

    def poll(self) -> tuple[int, list[Any]] | None:
        """Return the next number and its rows, and acknowledge the rows of the call before.

        If commits release rows, a number is given once and as a whole; else in as many pieces as
        there are polls.
        """
        number = min(self._rows, default=self.committed + 1)
        self.acknowledged = min(number - 1, self.committed)
        if number > self.committed and not (self._now and number in self._rows):
            return None
        return number, self._rows.pop(number)


class Parent:
    """State machine of the parent.

    Parameters
    ----------
    size : int
        Workers.
    saves : bool
        Whether cuts are checkpoints. Otherwise a cut tells that all rows before it are merged, rows
        leave at once, and a worker's death is the stream's end.
    now : bool
        Whether rows leave before they are covered.
    keeps : bool, optional
        Whether dealt batches are kept to be dealt again after a loss; by default if cuts are
        checkpoints.
    last : CheckpointCommit, optional
        The record to go on from.
    rows : mapping of number to rows, optional
        Unacknowledged rows of that record.

    Attributes
    ----------
    outgoing : list of deque of Message
        Messages to send to each worker, in order, by rank.
    """

    def __init__(
        self,
        size: int,
        *,
        saves: bool,
        now: bool = False,
        keeps: bool | None = None,
        last: CheckpointCommit | None = None,
        rows: Mapping[int, Sequence[Any]] | None = None,
    ) -> None:
        self.size = size
        self.saves = saves
        self.last = last
        self.incarnation = 1 if last is None else last.incarnation + 1
        self.batches = self.refused = 0
        self.outgoing: list[deque[Message]] = [deque() for _ in range(size)]
        self._ledger = Ledger(saves if keeps is None else keeps)
        self._promises = {} if last is None else dict(last.promises)
        #: Feeds in the record that nobody has used since; they hold the clock.
        self.unnamed = {feed for feed, time in self._promises.items() if time < FOREVER}
        self.coordinator = Coordinator(size, last)
        #: Promises, and state of the intake, as of the last cut.
        self._at_cut: tuple[tuple[tuple[int, int], ...], Any] = (), None
        if last is None:
            self._numbers = NumberedRows(now or not saves)
        else:
            self._numbers = NumberedRows(now, last.number, last.acknowledged, rows)
        self._tell_recorded()

    # Input.

    def push(self, feed: int, first: int, body: Any, nbytes: int) -> int:
        """Take the next batch of admitted rows; returns its number.

        Parameters
        ----------
        first : int
            Number of its first row in the feed.
        body : buffer
            Kept until a record covers it.
        """
        self.unnamed.discard(feed)
        self.batches += 1
        self._ledger.add(DealtRows(0, self.batches, feed, first, body), nbytes)
        return self.batches

    def promise(self, feed: int, time: int) -> None:
        """Promise all workers, behind the batches pushed, no later row of a feed below a time.

        A feed that begins later than others promises the watermark of its source first.
        """
        self.unnamed.discard(feed)
        if time > self._promises.get(feed, NEVER) or feed not in self._promises:
            self._promises[feed] = time
            self._ledger.add(Promise(0, feed, time))
            self._pass_on()

    def withdraw(self, feed: int) -> None:
        """Tell all workers, behind the batches pushed, that a feed sends no more rows."""
        self.unnamed.discard(feed)
        if self._promises.pop(feed, None) is not None:
            self._ledger.add(Withdrawal(0, feed))
            self._pass_on()

    @property
    def held_bytes(self) -> int:
        """Bytes of batches that wait, or that no record covers: a cut will free them."""
        return self._ledger.nbytes

    @property
    def waiting(self) -> int:
        """Messages that wait to be dealt."""
        return self._ledger.waiting

    # Dealing.

    def deal(self, rank: int) -> bool:
        """Give the next batch to a worker, and all messages up to the batch after it to everyone.

        Returns
        -------
        bool
            False if no batch waits.
        """
        if self._ledger.head is None:
            return False
        self.outgoing[rank].append(replace(self._ledger.deal(), incarnation=self.incarnation))
        self._pass_on()
        return True

    def _pass_on(self) -> None:
        """Give all workers the messages up to the next batch."""
        while (head := self._ledger.head) is not None and not isinstance(head, DealtRows):
            message = replace(self._ledger.deal(), incarnation=self.incarnation)
            for queue in self.outgoing:
                queue.append(message)

    def _tell_recorded(self) -> None:
        """Begin with the record's promises: no epoch's end may lack one of its feeds."""
        if self.last is not None:
            for feed, time in sorted(self.last.promises.items()):
                for queue in self.outgoing:
                    queue.append(Promise(self.incarnation, feed, time))

    # Cuts.

    @property
    def committed(self) -> int:
        """Number of the last committed record, or of the last cut that is over."""
        return self.coordinator.number

    @property
    def acknowledged(self) -> int:
        """Number up to which the caller has taken all rows."""
        return self._numbers.acknowledged

    @property
    def may_cut(self) -> bool:
        """Whether no cut is under way, and the last one of ranks not over."""
        return self.coordinator.phase is Phase.RUNNING

    def cut(self, admission: Any = None) -> int:
        """Cut behind all batches pushed so far; returns the number of the cut.

        Parameters
        ----------
        admission : object
            State of the intake, for the record.
        """
        number = self.coordinator.begin()
        self._at_cut = tuple(self._promises.items()), admission
        self._ledger.add(Mark(0, number))
        self._pass_on()
        return number

    # Messages of workers.

    def arrived(self, rank: int, message: Message) -> bool:
        """Take the next message of a worker; False if it is of an older incarnation.

        Raises
        ------
        MalformedError
            A worker sends no such message to its parent, or not at this time.
        """
        if message.incarnation != self.incarnation:
            self.refused += 1
            return False
        number = self.committed + 1
        # A worker goes on while its part, or that of another, is being written.
        numbers = (number,) if self.may_cut else (number, number + 1)
        if isinstance(message, OutputRows) and message.number in numbers:
            self._numbers.add(message.number, message.body)
        elif isinstance(message, PartWritten) and self._awaits(rank, message.number):
            self._take_part(rank, message)
        else:
            raise MalformedError(
                f"worker {rank} sent {type(message).__name__} {getattr(message, 'number', '')} "
                f"after record {self.committed}, out of turn; start all workers again from it"
            )
        return True

    def has_part(self, worker: int) -> bool:
        """Whether a worker's part is written and the cut not over.

        Further results of the worker are of the next number, and wait for the record.
        """
        return self.coordinator.has_part(worker)

    def _awaits(self, worker: int, number: int) -> bool:
        return not self.has_part(worker) and self.coordinator.awaits(worker, number)

    def _take_part(self, rank: int, message: PartWritten) -> None:
        self._add(rank, MemberPart(message.state, message.rows))

    def _add(self, member: int, part: MemberPart) -> None:
        """Add a part; without checkpoints the cut is over with the last one."""
        self.coordinator.add(member, part)
        if not self.saves and self.coordinator.phase is Phase.SAVED:
            self._seal(None)

    @property
    def ready(self) -> CheckpointCommit | None:
        """Commit whose record is to be written, once all workers have written their parts.

        The record counts only once :meth:`commit` is called, even if it is on the disk: call that
        before anything else, or :meth:`recover` goes back to the record before.
        """
        if not self.saves or self.coordinator.phase is not Phase.SAVED:
            return None
        promises, admission = self._at_cut
        return self.coordinator.record(
            self.incarnation, dict(promises), admission, self.acknowledged
        )

    def commit(self, commit: CheckpointCommit) -> None:
        """Note that a record is committed: its file is on the disk, under its name.

        Its rows are released, and the batches that it covers are forgotten.
        """
        assert commit.incarnation == self.incarnation
        self.last = commit
        self._seal(commit)

    def _seal(self, commit: CheckpointCommit | None) -> None:
        self.coordinator.seal(commit)
        self._numbers.commit(self.committed)
        self._ledger.cover(self.committed)
        self.coordinator.go_on()

    # Output.

    def poll(self) -> tuple[int, list[Any]] | None:
        """Return the next number and its rows, and acknowledge the rows of the call before."""
        return self._numbers.poll()

    # Recovery.

    def recover(self, rank: int) -> CheckpointCommit | None:
        """Restart with all workers, since one has ended; returns the commit to begin from.

        The dead worker's deltas are merged elsewhere already, and a second deal differs, so the
        others cannot go on as they are. New workers take the new :attr:`incarnation` over new
        channels, load the record's states, and are dealt all later batches again.

        Raises
        ------
        LostError
            There are no checkpoints.
        """
        if not self.saves:
            raise LostError(
                f"worker {rank} of {self.size} has ended, and with it what it held of "
                f"{self.batches:,} batches; open the stream again and push them again, or give "
                "checkpoint=FOLDER, and the stream goes on by itself"
            )
        self.incarnation += 1
        self.coordinator.recut()
        self._numbers.drop()
        for queue in self.outgoing:
            queue.clear()
        self._tell_recorded()
        self._ledger.rewind()
        self._pass_on()
        return self.last
