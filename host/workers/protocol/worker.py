"""One worker: folds rows, ends epochs, merges deltas, and triggers the output of complete groups.

Paper 2, sections 5 and 7. A worker is the leader of its cells and a helper of all others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.plan.window import NEVER

from ...device.fields import MalformedError
from ...emit.groups.closing import Limit
from .border import Buffer, FoldingState, LimitOf, SomeRows
from .clock import Promises, VectorClock
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
    """State machine of one worker.

    Its loop hands it the messages of the parent (:meth:`take_dealt`) and of other workers
    (:meth:`arrived`), calls :meth:`end_epoch` when an epoch is over and :meth:`release` when
    :meth:`should_release` says so, and sends the messages in ``outgoing``, ``results`` and
    ``parts``. :attr:`may_end`, :meth:`may_take` and :meth:`may_read` tell which of these must wait;
    meanwhile the worker goes on with the others.

    Parameters
    ----------
    rank, size : int
    state : FoldingState
        Of this worker alone.
    limit_of : callable
        Turns a low watermark into the time key below which groups are complete; never falls.
    incarnation : int
        How often all workers have been started, from 1 on.
    number : int
        Of the last committed checkpoint; 0 without one.
    recorded : mapping of feed to time, optional
        Promises in its record.
    shares_steps : bool
        Whether all workers take the same steps, which rank 0 announces.
    saves : bool
        Whether marks are for checkpoints. Otherwise parts are empty, and a mark only tells that
        all rows before it are merged.

    Attributes
    ----------
    outgoing : list of deque of Message
        Messages to send to each worker, in order, by rank. A message stays at the head until the
        channel has taken all of it: blocks are the memory of logs.
    results : deque of OutputRows
        Output for the parent, in order.
    parts : deque of WorkerPart
        Parts to write. Rows of a part's number are in ``results`` before, and are sent first.
    clock : VectorClock
    epoch : int
        Epochs ended.
    rows, late : int
        Rows folded, and rows found late, which the intake counts if it is here.
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
        self.clock = VectorClock(size, recorded)
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
        #: Whether others wait for :meth:`release`, or it was not called in this epoch.
        self._is_overdue = False
        #: Time keys below which groups were released, and may be released.
        self._limit = self._due = limit_of(self.clock.time)
        #: Time key below which all of this worker's changes for others have been sent.
        self._sent = limit_of(NEVER)

    def load(self, blocks: Iterable[Buffer], size_then: int) -> None:
        """Load the part of one of ``size_then`` workers, before anything else happens."""
        assert not self.epoch
        self.state.load(blocks, size_then)

    # Conditions.

    @property
    def may_end(self) -> bool:
        """Whether an epoch may end.

        Not while blocks of the last epoch are on their way, since two logs alternate. Not between
        this worker's mark and the end of the cut: sealed changes are merged at once into the led
        groups, so they would get into the checkpoint although they lie behind the mark. Not before
        a step that others take at the same time: they would wait for the blocks until it is over.
        """
        if self.rank in self._marks or any(self.outgoing):
            return False
        return not (self._shares and self._may_begin)

    @property
    def can_close(self) -> bool:
        """Whether the low watermark has risen since the last epoch so that groups are complete."""
        floor = self.promises.floor(self._floor)
        return floor > self._floor and self._limit_of(floor) > self._limit_of(self._floor)

    @property
    def can_release(self) -> bool:
        """Whether :meth:`release` has something to do."""
        return self._may_cut or self._may_announce or self._may_begin

    def should_release(self, is_idle: bool) -> bool:
        """Whether :meth:`release` is to be called now.

        It may take long, so messages that others wait for go first, unless that never ends.

        Parameters
        ----------
        is_idle : bool
            Whether nothing can be sent now, and nothing has arrived.
        """
        return (is_idle or self._is_overdue) and self.can_release

    @property
    def _may_cut(self) -> bool:
        # Others also take the last step of a cut, and need this worker's blocks and mark for it.
        return self._marks.are_complete and not any(self.outgoing)

    @property
    def _may_announce(self) -> bool:
        # An announcement behind this mark would reach some before the cut, and some behind it.
        may = self._shares and self.rank == 0 and self.rank not in self._marks
        return may and self._steps.is_news(self._limit, self._due)

    @property
    def _may_begin(self) -> bool:
        limit = self._steps.next(self._limit, self._due)
        if limit is None or not any(self.outgoing):
            return limit is not None
        # Others need the queued blocks for the same step, unless these are of a later epoch; and
        # they need rank 0's announcement.
        is_announced = self._shares and self.rank == 0
        return limit <= self._sent and not is_announced

    def may_take(self, message: Message) -> bool:
        """Whether the parent's next message may be taken; later ones wait behind it."""
        return self.may_end or not isinstance(message, Mark)

    def may_read(self, sender: int) -> bool:
        """Whether messages of another worker may be read: not from its mark to the end of the cut.

        The channel's credits hold the sender back meanwhile.
        """
        return sender not in self._marks

    # Messages of the parent.

    def take_dealt(self, message: Message) -> Any:
        """Take the parent's next message, for which :meth:`may_take` holds.

        Parameters
        ----------
        message : DealtRows, Promise, Withdrawal or Mark
            The body of rows is the decoded batch.

        Returns
        -------
        object or None
            The state's counts of folded rows; None for other messages, and for any of an older
            incarnation, which is refused.

        Raises
        ------
        MalformedError
            A parent sends no such message, or not at this time.
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
        """Seal the changes, and send them to their leaders with the current promises behind."""
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
        """Send a leader its blocks, and the epoch's end behind them."""
        queue, count = self.outgoing[receiver], 0
        for block in blocks:
            queue.append(DeltaBlock(self.incarnation, self.epoch, count, block))
            count += 1
        queue.append(EpochEnd(self.incarnation, self.epoch, count, self.rows, self.late, promises))

    def _mark(self, number: int) -> None:
        """Take the parent's mark: end the epoch, and send marks behind its end to all others."""
        self.end_epoch()
        for receiver, queue in enumerate(self.outgoing):
            if receiver != self.rank:
                queue.append(Mark(self.incarnation, number))
        self._marks.add(self.rank, number)
        if self.size == 1:
            self._cut()  # at once: rows that are dealt to it next are in its state as they come

    # Messages of other workers.

    def arrived(self, sender: int, message: Message) -> bool:
        """Take the next message of another worker, for which :meth:`may_read` holds.

        Returns False if it is of an older incarnation, and was refused.

        Raises
        ------
        MalformedError
            The message is damaged, repeated or out of turn; nothing of it was merged.
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
        """Move the vector clock, after the merge, and the limit of complete groups with it."""
        self.clock.move(worker, promises)
        self._due = max(self._due, self._limit_of(self.clock.time))

    def release(self) -> None:
        """Do one of: finish a cut whose marks are complete, announce a step, or take a step.

        Only one, since a step takes long, and its announcement is to be sent before.
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
        """Announce the next step to all workers."""
        for receiver, queue in enumerate(self.outgoing):
            if receiver != self.rank:
                queue.append(StepNotice(self.incarnation, self.clock.time))
        self._steps.announced(self._due)

    def _let_go(self, limits: Iterable[Limit]) -> None:
        """Trigger: release groups below each of some limits, under the number of the next cut."""
        for self._limit in limits:
            rows = self.state.release(self._limit)
            if rows.num_rows:
                self.results.append(OutputRows(self.incarnation, self._marks.number, rows))
                if self.saves:
                    self._unsaved.append(rows)

    def _cut(self) -> None:
        """Finish a cut: make this worker's part of all rows before the marks, and no others."""
        # A restored worker assumes that groups below the record's promises were released.
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
