"""One worker: folds rows, ends epochs, merges what it leads, and lets complete groups go.

Paper 2, sections 5 and 7. A worker is a helper of all others and a leader of its own partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.plan.window import NEVER

from ...device.fields import MalformedError
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
from .steps import AnnouncedSteps, OwnSteps


class Worker:
    """The machine of one worker.

    Whoever runs it hands it the parent's messages (:meth:`dealt`) and those of other workers
    (:meth:`arrived`), calls :meth:`end_epoch` when an epoch is over and :meth:`release` when it
    has nothing more urgent to do, and sends what lies in ``outgoing``, ``results`` and ``parts``.
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
        self._announces = shares_steps and rank == 0
        self._steps = AnnouncedSteps() if shares_steps and rank else OwnSteps()
        #: Below these time keys groups have left, and may leave.
        self._limit = self._due = limit_of(self.clock.time)

    def load(self, blocks: Iterable[Buffer], size_then: int) -> None:
        """Take back what one of ``size_then`` workers saved, before anything else happens."""
        assert not self.epoch
        self.state.load(blocks, size_then)

    # What may happen now.

    @property
    def may_end(self) -> bool:
        """Whether an epoch may end.

        Not while the blocks of the last one are on their way, since two logs alternate. Not between
        this worker's mark and the last one: what it seals is merged at once into what it leads, and
        would be in the checkpoint that the mark was to keep it out of.
        """
        return self.rank not in self._marks and not any(self.outgoing)

    @property
    def can_close(self) -> bool:
        """Whether this worker's promises let groups go that those of its last epoch did not."""
        floor = self.promises.floor(self._floor)
        return floor > self._floor and self._limit_of(floor) > self._limit_of(self._floor)

    @property
    def can_release(self) -> bool:
        """Whether complete groups wait for :meth:`release`; the next end of an epoch calls it too.

        Until then others get what they wait for: what the last end has put into ``outgoing``.
        """
        # What is announced behind the own mark would come to others before the cut or behind it.
        if self._announces and self.rank in self._marks:
            return False
        return self._steps.may_begin(self._limit, self._due)

    def may_take(self, message: Message) -> bool:
        """Whether the next message of the parent may be handed in; later ones wait behind it."""
        return self.may_end or not isinstance(message, Mark)

    def may_read(self, sender: int) -> bool:
        """Whether messages of another worker may be read: not from its mark to the last mark.

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
        self.release()
        self.epoch += 1
        blocks = self.state.seal()
        promises = self.promises.in_order()
        for receiver in range(self.size):
            if receiver != self.rank:
                self._send(receiver, blocks[receiver], promises)
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
        self._marked(self.rank, number)

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
            case Mark():
                if not self._order.is_between(sender):
                    raise MalformedError(
                        f"worker {sender} sent mark {message.number} within an epoch; start all "
                        "workers again from the last record"
                    )
                self._marked(sender, message.number)
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

    def release(self, number: int | None = None) -> None:
        """Let complete groups go, under the number of a cut: of the next one if None."""
        if number is not None:
            limits = self._steps.at_cut(self._limit, self._due)
        elif self.can_release:
            limits = self._steps.begin(self._limit, self._due)
            if self._announces:
                self._announce()
        else:
            return
        for self._limit in limits:
            rows = self.state.release(self._limit)
            if rows.num_rows:
                self.results.append(
                    OutputRows(self.incarnation, number or self._marks.number, rows)
                )
                if self.saves:
                    self._unsaved.append(rows)

    def _announce(self) -> None:
        """Tell all others of the step that is taken now."""
        for receiver, queue in enumerate(self.outgoing):
            if receiver != self.rank:
                queue.append(StepNotice(self.incarnation, self.clock.time))

    def _marked(self, worker: int, number: int) -> None:
        """Count a mark; behind the last one this worker's part is as the cut has it."""
        if not self._marks.add(worker, number):
            return
        # A restored worker takes for given what the promises in the record complete.
        self.release(number)
        state = tuple(self.state.save()) if self.saves else ()
        rows, self._unsaved = tuple(self._unsaved), []
        self.parts.append(
            WorkerPart(
                number, self.rank, self.size, self.incarnation, state, rows, self.clock.promises
            )
        )
