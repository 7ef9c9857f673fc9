"""One worker: folds rows, ends epochs, merges what it leads, and lets complete groups go.

Paper 2, sections 5 and 7. A worker is a helper of all others and a leader of its own partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.plan.window import NEVER

from ...device.fields import MalformedError
from ...emit.groups.closing import Limit
from .border import Buffer, FoldingState, LimitOf, SomeRows
from .clock import Clock, Promises
from .commit import WorkerPart
from .epochs import EpochOrder
from .marks import Marks
from .messages import (
    DealtRows,
    DeltaBlock,
    EpochEnd,
    Mark,
    Message,
    OutputRows,
    Promise,
    StepNotice,
    Withdrawal,
)
from .steps import AnnouncedSteps, OwnSteps, StepRule


class Worker:
    """The machine of one worker.

    Whoever runs it hands it the parent's messages (:meth:`dealt`) and those of other workers
    (:meth:`arrived`), calls :meth:`end_epoch` when an epoch is over and :meth:`release` when
    :meth:`should_release` says so, and sends what lies in ``outgoing``, ``results`` and ``parts``.
    What must wait is told by :attr:`may_end`, :meth:`may_take` and :meth:`may_read`; while it
    waits, a worker goes on serving its arrivals.

    Parameters
    ----------
    rank, size : int
    state : FoldingState
        Of this worker alone.
    limit_of : callable
        Turns a time into the time key below which groups are complete; never falls.
    incarnation : int
        How often all workers have begun, from 1 on.
    number : int
        Of the last committed checkpoint; 0 without one.
    recorded : mapping of feed to time, optional
        Promises in its record.
    shares_steps : bool
        Whether all workers take the same steps, which rank 0 announces.
    saves : bool
        Whether marks are for checkpoints. Otherwise parts are empty, and a mark only tells that
        all before it is merged.

    Attributes
    ----------
    outgoing : list of deque of Message
        What is to be sent to each worker, in order, by rank. A message stays at the head until the
        channel has taken all of it: blocks are the memory of logs.
    results : deque of OutputRows
        For the parent, in order.
    parts : deque of WorkerPart
        To be written. Rows of its number lie in ``results`` before, and go to the parent first.
    clock : Clock
    epoch : int
        Epochs ended.
    rows, late : int
        Rows folded, and rows found late, which whoever judges them here counts.
    counts : list of (rows, late)
        Of the other workers, as of their last epoch.
    merged, refused : int
        Entries merged, and messages of older incarnations.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        state: FoldingState,
        limit_of: LimitOf,
        *,
        incarnation: int = 1,
        number: int = 0,
        recorded: Mapping[int, int] | None = None,
        saves: bool = False,
        shares_steps: bool = False,
    ) -> None:
        self.rank, self.size = rank, size
        self.incarnation = incarnation
        self.saves = saves
        self.state = state
        self.promises = Promises()
        self.clock = Clock(size, recorded)
        self.epoch = 0
        self.rows = self.late = self.merged = self.refused = 0
        self.counts = [(0, 0)] * size
        self.outgoing: list[deque[Message]] = [deque() for _ in range(size)]
        self.results: deque[OutputRows] = deque()
        self.parts: deque[WorkerPart] = deque()
        self._limit_of = limit_of
        self._order = EpochOrder(size)
        self._marks = Marks(size, number + 1)
        self._unsaved: list[SomeRows] = []
        self._floor = NEVER
        self._shares = shares_steps
        self._steps: StepRule = AnnouncedSteps() if shares_steps else OwnSteps()
        #: Whether others wait for what :meth:`release` does, or it was not called in this epoch.
        self._is_overdue = False
        #: Below these time keys groups have left, and may leave.
        self._limit = self._due = limit_of(self.clock.time)
        #: Up to this time key, all that this worker has for others has been sent.
        self._sent = limit_of(NEVER)

    def load(self, blocks: Iterable[Buffer], size_then: int) -> None:
        """Take back what one of ``size_then`` workers saved, before anything else happens."""
        assert not self.epoch
        self.state.load(blocks, size_then)

    # What may happen now.

    @property
    def may_end(self) -> bool:
        """Whether an epoch may end.

        Not while the blocks of the last one are on their way, since two logs alternate. Not between
        this worker's mark and the end of the cut: what it seals is merged at once into what it
        leads, and would be in the checkpoint that the mark was to keep it out of. Not before a step
        that others take at the same time: they would wait for the blocks until it is over.
        """
        if self.rank in self._marks or any(self.outgoing):
            return False
        return not (self._shares and self._may_begin)

    @property
    def can_close(self) -> bool:
        """Whether this worker's promises let groups go that those of its last epoch did not."""
        floor = self.promises.floor(self._floor)
        return floor > self._floor and self._limit_of(floor) > self._limit_of(self._floor)

    @property
    def can_release(self) -> bool:
        """Whether :meth:`release` has something to do."""
        return self._may_cut or self._may_announce or self._may_begin

    def should_release(self, is_idle: bool) -> bool:
        """Whether :meth:`release` is to be called now.

        It may take long, so others first get what they wait for, as long as that is not for ever.

        Parameters
        ----------
        is_idle : bool
            Whether at the moment nothing can be sent, and nothing has arrived.
        """
        return (is_idle or self._is_overdue) and self.can_release

    @property
    def _may_cut(self) -> bool:
        # Others take the last step of a cut, too, and need this worker's blocks and mark for it.
        return self._marks.are_complete and not any(self.outgoing)

    @property
    def _may_announce(self) -> bool:
        # What is announced behind the own mark would come to others before the cut or behind it.
        may = self._shares and self.rank == 0 and self.rank not in self._marks
        return may and self._steps.is_news(self._limit, self._due)

    @property
    def _may_begin(self) -> bool:
        limit = self._steps.next(self._limit, self._due)
        if limit is None or not any(self.outgoing):
            return limit is not None
        # Others need what lies here for a step of their own, unless it is of a later epoch; and
        # rank 0's announcement.
        is_announced = self._shares and self.rank == 0
        return limit <= self._sent and not is_announced

    def may_take(self, message: Message) -> bool:
        """Whether the next message of the parent may be handed in; later ones wait behind it."""
        return self.may_end or not isinstance(message, Mark)

    def may_read(self, sender: int) -> bool:
        """Whether messages of another worker may be read: not from its mark to the end of the cut.

        The channel's credits hold the sender back meanwhile.
        """
        return sender not in self._marks

    # What the parent sends.

    def dealt(self, message: Message) -> Any:
        """Take the parent's next message, for which :meth:`may_take` holds.

        Parameters
        ----------
        message : DealtRows, Promise, Withdrawal or Mark
            The body of rows is the decoded batch.

        Returns
        -------
        object or None
            What the state says of rows that it folded; None for other messages, and for any of an
            older incarnation, which is refused.

        Raises
        ------
        MalformedError
            It is none that a parent sends, or out of turn.
        """
        if not self._is_current(message, "the parent"):
            return None
        match message:
            case DealtRows():
                self.rows += message.body.num_rows
                return self.state.fold(message.body, message.feed, message.first)
            case Promise():
                self.promises.raise_to(message.feed, message.time)
            case Withdrawal():
                self.promises.withdraw(message.feed)
            case Mark():
                self._mark(message.number)
            case _:
                raise MalformedError(
                    f"the parent sent a worker {type(message).__name__}, which goes only to "
                    "others; start all workers again from the last record"
                )
        return None

    def end_epoch(self) -> None:
        """Seal what was folded, send it to its leaders, and behind it what is promised now."""
        assert self.may_end
        self._is_overdue = True
        self.epoch += 1
        blocks = self.state.seal()
        promises = self.promises.in_order()
        for receiver in range(self.size):
            if receiver != self.rank:
                self._send(receiver, blocks[receiver], promises)
        self._sent = self._limit_of(self._floor)
        self._floor = self.promises.floor(self._floor)
        self._move(self.rank, promises)

    def _send(
        self, receiver: int, blocks: Iterable[Any], promises: tuple[tuple[int, int], ...]
    ) -> None:
        """Send a leader its blocks, and the end behind them."""
        queue, count = self.outgoing[receiver], 0
        for block in blocks:
            queue.append(DeltaBlock(self.incarnation, self.epoch, count, block))
            count += 1
        queue.append(EpochEnd(self.incarnation, self.epoch, count, self.rows, self.late, promises))

    def _mark(self, number: int) -> None:
        """Cut here: the epoch ends, and its mark goes behind its end on every channel."""
        self.end_epoch()
        for receiver, queue in enumerate(self.outgoing):
            if receiver != self.rank:
                queue.append(Mark(self.incarnation, number))
        self._marks.add(self.rank, number)
        if self.size == 1:
            self._cut()  # at once: rows that are dealt to it next are in its state as they come

    # What other workers send.

    def arrived(self, sender: int, message: Message) -> bool:
        """Take the next message of another worker, for which :meth:`may_read` holds.

        Returns False if it is of an older incarnation, and was refused.

        Raises
        ------
        MalformedError
            It is damaged, repeated or out of turn; nothing of it was merged.
        """
        assert self.may_read(sender)
        if not self._is_current(message, f"worker {sender}"):
            return False
        match message:
            case DeltaBlock():
                self._order.block(sender, message.epoch, message.block)
                self.merged += self.state.merge(sender, message.body)
            case EpochEnd():
                self._order.end(sender, message.epoch, message.blocks)
                self.counts[sender] = message.rows, message.late
                self._move(sender, message.promises)
            case StepNotice():
                self._steps.announced(self._limit_of(message.time))
                self._is_overdue = True
            case Mark():
                if not self._order.is_between(sender):
                    raise MalformedError(
                        f"worker {sender} sent mark {message.number} within an epoch; start all "
                        "workers again from the last record"
                    )
                self._marks.add(sender, message.number)
            case _:
                raise MalformedError(
                    f"worker {sender} sent {type(message).__name__}, which goes only between a "
                    "worker and the parent; start all workers again from the last record"
                )
        return True

    def _is_current(self, message: Message, sender: str) -> bool:
        """Whether a message is of this incarnation; older ones are counted."""
        if message.incarnation > self.incarnation:
            raise MalformedError(
                f"{sender} is in incarnation {message.incarnation} and worker {self.rank} in "
                f"{self.incarnation}; end this worker, since all others have begun again without it"
            )
        is_current = message.incarnation == self.incarnation
        self.refused += not is_current
        return is_current

    def _move(self, worker: int, promises: Iterable[tuple[int, int]]) -> None:
        """Move the clock, after the merge, and note which groups are complete."""
        self.clock.move(worker, promises)
        self._due = max(self._due, self._limit_of(self.clock.time))

    def release(self) -> None:
        """Take a cut whose marks are there, or announce a step, or let complete groups go.

        Only one of them: a step takes long, and what announces it is to be sent before.
        """
        self._is_overdue = self._may_announce
        if self._may_cut:
            self._cut()
        elif self._may_announce:
            self._announce()
        elif (limit := self._steps.next(self._limit, self._due)) is not None:
            self._steps.begun()
            self._let_go([limit])

    def _announce(self) -> None:
        """Tell all workers of the next step."""
        for receiver, queue in enumerate(self.outgoing):
            if receiver != self.rank:
                queue.append(StepNotice(self.incarnation, self.clock.time))
        self._steps.announced(self._due)

    def _let_go(self, limits: Iterable[Limit]) -> None:
        """Let groups below each of these limits go, under the number of the next cut."""
        for self._limit in limits:
            rows = self.state.release(self._limit)
            if rows.num_rows:
                self.results.append(OutputRows(self.incarnation, self._marks.number, rows))
                if self.saves:
                    self._unsaved.append(rows)

    def _cut(self) -> None:
        """Set aside this worker's part: all that lies before the marks, and nothing else."""
        # A restored worker takes for given what the promises in the record complete.
        self._let_go(self._steps.at_cut(self._limit, self._due))
        self.state.cut()
        state = tuple(self.state.save()) if self.saves else ()
        rows, self._unsaved = tuple(self._unsaved), []
        self.parts.append(
            WorkerPart(
                self._marks.number,
                self.rank,
                self.size,
                self.incarnation,
                state,
                rows,
                self.clock.promises,
            )
        )
        self._marks.next()
