"""The parent of local workers: deals batches, makes the cut, commits records, gives rows.

The parent sees every row before any worker does, so it alone judges lateness, and it alone says
where a cut is: behind what it has dealt so far. Paper 2 has no recovery; docs/decisions/0039.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.errors import LostError
from penstock.plan.window import FOREVER, NEVER

from ...device.fields import MalformedError
from .commit import Commit
from .ledger import Ledger
from .messages import DealtRows, Mark, Message, OutputRows, PartWritten, Promise, Withdrawal


class NumberedRows:
    """Rows under the number of the record that covers them, until the caller acknowledges them.

    Released is not delivered: a caller acknowledges rows by the next poll. Unacknowledged ones stay
    in the files of their number, and are given again under it after a restart.

    Parameters
    ----------
    now : bool
        Whether rows leave before their record is committed; perhaps again, then, after a crash.
    committed, acknowledged : int
        Numbers of the last record, and up to which it says that all rows were taken.
    rows : mapping of number to rows, optional
        Those in between, from the record's files.
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
        """Return the next number and its rows, and acknowledge those of the call before.

        Released by commits, a number is given once and as a whole; at once, in as many pieces as
        there are polls.
        """
        number = min(self._rows, default=self.committed + 1)
        self.acknowledged = min(number - 1, self.committed)
        if number > self.committed and not (self._now and number in self._rows):
            return None
        return number, self._rows.pop(number)


class Parent:
    """The machine of the parent.

    Parameters
    ----------
    size : int
        Workers.
    saves : bool
        Whether cuts are checkpoints. Otherwise a cut tells that all before it is merged, rows leave
        at once, and a worker's death is the stream's end.
    now : bool
        Whether rows leave before they are covered.
    keeps : bool, optional
        Whether what was dealt stays to be dealt again after a loss; by default where cuts are
        checkpoints.
    last : Commit, optional
        The record to go on from.
    rows : mapping of number to rows, optional
        Those that it says were not acknowledged.

    Attributes
    ----------
    outgoing : list of deque of Message
        What is to be sent to each worker, in order, by rank.
    """

    def __init__(
        self,
        size: int,
        *,
        saves: bool,
        now: bool = False,
        keeps: bool | None = None,
        last: Commit | None = None,
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
        #: Feeds in the record that nobody has named since; they hold the clock.
        self.unnamed = {feed for feed, time in self._promises.items() if time < FOREVER}
        self._cut: tuple[tuple[tuple[int, int], ...], Any] | None = None
        self._parts: dict[int, PartWritten] = {}
        if last is None:
            self._numbers = NumberedRows(now or not saves)
        else:
            self._numbers = NumberedRows(now, last.number, last.acknowledged, rows)
        self._tell_recorded()

    # What comes in.

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
        """Tell all workers, behind what was pushed, that no later row of a feed is below a time.

        The first promise of a feed that begins later than others is the watermark of its source.
        """
        self.unnamed.discard(feed)
        if time > self._promises.get(feed, NEVER) or feed not in self._promises:
            self._promises[feed] = time
            self._ledger.add(Promise(0, feed, time))
            self._pass_on()

    def withdraw(self, feed: int) -> None:
        """Tell all workers, behind what was pushed, that a feed sends no more."""
        self.unnamed.discard(feed)
        if self._promises.pop(feed, None) is not None:
            self._ledger.add(Withdrawal(0, feed))
            self._pass_on()

    @property
    def held_bytes(self) -> int:
        """Bytes of batches that wait, or that no record covers: what a cut will free."""
        return self._ledger.nbytes

    @property
    def waiting(self) -> int:
        """Messages that wait to be dealt."""
        return self._ledger.waiting

    # What goes out.

    def deal(self, rank: int) -> bool:
        """Give the next batch to a worker, and what follows it up to the next batch to all.

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
        """Tell all workers what they must all know, up to the next batch."""
        while (head := self._ledger.head) is not None and not isinstance(head, DealtRows):
            message = replace(self._ledger.deal(), incarnation=self.incarnation)
            for queue in self.outgoing:
                queue.append(message)

    def _tell_recorded(self) -> None:
        """Begin with the record's promises: no end of an epoch may lack one of its feeds."""
        if self.last is not None:
            for feed, time in sorted(self.last.promises.items()):
                for queue in self.outgoing:
                    queue.append(Promise(self.incarnation, feed, time))

    # Cuts.

    @property
    def committed(self) -> int:
        """Number of the last committed record, or of the last cut that all workers have passed."""
        return self._numbers.committed

    @property
    def acknowledged(self) -> int:
        """Number up to which the caller has taken all rows."""
        return self._numbers.acknowledged

    @property
    def may_cut(self) -> bool:
        """Whether no cut is under way."""
        return self._cut is None

    def cut(self, admission: Any = None) -> int:
        """Cut behind all that was pushed so far; returns the number of the cut.

        Parameters
        ----------
        admission : object
            State of the intake, to be kept in the record.
        """
        assert self._cut is None
        number = self.committed + 1
        self._cut = tuple(self._promises.items()), admission
        self._ledger.add(Mark(0, number))
        self._pass_on()
        return number

    # What workers send.

    def arrived(self, rank: int, message: Message) -> bool:
        """Take the next message of a worker; False if it is of an older incarnation.

        Raises
        ------
        MalformedError
            It is none that a worker sends to its parent, or out of turn.
        """
        if message.incarnation != self.incarnation:
            self.refused += 1
            return False
        number = self.committed + 1
        # A worker goes on while its part, or that of another, is being written.
        numbers = (number,) if self._cut is None else (number, number + 1)
        if isinstance(message, OutputRows) and message.number in numbers:
            self._numbers.add(message.number, message.body)
        elif isinstance(message, PartWritten) and self._awaits(rank, message):
            self._parts[rank] = message
            if not self.saves and len(self._parts) == self.size:
                self._end_cut(number)
        else:
            raise MalformedError(
                f"worker {rank} sent {type(message).__name__} {getattr(message, 'number', '')} "
                f"after record {self.committed}, out of turn; start all workers again from it"
            )
        return True

    def _awaits(self, rank: int, part: PartWritten) -> bool:
        is_next = part.number == self.committed + 1
        return self._cut is not None and is_next and rank not in self._parts

    @property
    def ready(self) -> Commit | None:
        """The record to write, once all workers have written their parts.

        Until :meth:`commit` is called it does not count, even if it is on the disk: call that
        before anything else is done, or :meth:`recover` goes back to the record before.
        """
        if not self.saves or self._cut is None or len(self._parts) < self.size:
            return None
        number = self.committed + 1
        parts = [self._parts[rank] for rank in range(self.size)]
        promises, admission = self._cut
        rows = {} if self.last is None else dict(self.last.rows)
        rows[number] = tuple(part.rows for part in parts if part.rows)
        return Commit(
            number,
            self.size,
            self.incarnation,
            dict(promises),
            admission,
            self.acknowledged,
            tuple(part.state for part in parts),
            {n: files for n, files in rows.items() if files and self._needs(n)},
        )

    def _needs(self, number: int) -> bool:
        """Whether rows of a number have to stay in files: they would be given again."""
        return number > self.acknowledged

    def commit(self, commit: Commit) -> None:
        """Count a record as committed: its file is on the disk, under its name.

        Its rows are released, and what it covers is forgotten.
        """
        assert self.ready is not None
        assert commit.incarnation == self.incarnation
        self.last = commit
        self._end_cut(commit.number)

    def _end_cut(self, number: int) -> None:
        self._numbers.commit(number)
        self._ledger.cover(number)
        self._cut, self._parts = None, {}

    # What is given to the caller.

    def poll(self) -> tuple[int, list[Any]] | None:
        """Return the next rows and their number, and acknowledge those of the call before."""
        return self._numbers.poll()

    # When a worker is gone.

    def recover(self, rank: int) -> Commit | None:
        """Begin again with all workers, since one has ended; returns the record to begin from.

        A worker's deltas are merged elsewhere already, and a second deal differs, so the others
        cannot stay as they are. New workers take the new :attr:`incarnation` over new channels,
        load the record's states, and are dealt again what it does not cover.

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
        self._parts = {}
        self._numbers.drop()
        for queue in self.outgoing:
            queue.clear()
        self._tell_recorded()
        self._ledger.rewind()
        self._pass_on()
        return self.last
