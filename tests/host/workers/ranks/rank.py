"""One rank as a machine, for the model checker: what its driver and its stream do, without I/O."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from penstock.host.workers.protocol.commit import CheckpointCommit
from penstock.host.workers.protocol.messages import Mark, Message, Note, PartWritten
from penstock.host.workers.protocol.worker import Worker
from penstock.host.workers.ranks.rank_parent import RankParent
from penstock.plan.window import FOREVER, NEVER
from tests.host.workers.protocol.tally import Rows, Tally, limit_of

#: What a feed gives: rows of key and time, and what it promises behind them.
Item = tuple[tuple[tuple[int, int], ...], int]
#: Rows of a number, by the rank that has computed them.
Given = tuple[int, int, tuple[Any, ...]]


class Value(dict[str, Any]):
    """A mapping that does not change, so that it may be a part of other values."""

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(json.dumps(self, sort_keys=True))


class Rank:
    """Worker, parent and cuts of a rank, and the reader's place in what it gives.

    Parameters
    ----------
    rank, size, keys : int
    feeds : tuple of tuple of Item
        All that there are; this rank's are ``rank``, ``rank + size``, ..
    last : CheckpointCommit or None
        The record to go on from.
    recorded : tuple of Given
        Rows of it that were not acknowledged and that this rank gives again.
    """

    #: The real machine, or a mutant of it.
    parent_type: type[RankParent] = RankParent

    def __init__(
        self,
        rank: int,
        size: int,
        keys: int,
        feeds: tuple[tuple[Item, ...], ...],
        last: CheckpointCommit | None,
        recorded: tuple[Given, ...],
    ) -> None:
        number, incarnation = (0, 1) if last is None else (last.number, last.incarnation + 1)
        self.worker = Worker(
            rank,
            size,
            Tally(rank, size, keys),
            limit_of,
            incarnation=incarnation,
            number=number,
            saves=True,
        )
        self.parent = self.parent_type(rank, size, saves=True, last=last)
        #: Rows that were taken of each feed, as the record or this rank has it.
        self.rows = {} if last is None else dict(last.admission["intake"]["sources"]["a"]["rows"])
        self.own = {str(f): feeds[f] for f in range(rank, len(feeds), size)}
        self.promised = dict.fromkeys(self.own, NEVER)
        self.has_ended = False
        self.written: deque[PartWritten] = deque()
        self.number = number + 1
        #: The record that is written, until the parent knows.
        self.record: CheckpointCommit | None = None
        self.again = deque(recorded)
        self.waits: int | None = None

    # What comes in.

    def next_item(self, feed: str) -> Item | None:
        """Return what a feed gives next: none whose rows were taken before."""
        left = self.rows.get(feed, 0)
        for rows, promise in self.own[feed]:
            if left < len(rows):
                return rows, promise
            left -= len(rows)
        return None

    def push(self, feed: str) -> None:
        item = self.next_item(feed)
        assert item is not None
        rows, promise = item
        first = self.rows.get(feed, 0)
        self.parent.push(self.worker.rank, first, Rows(rows), 1)
        self.rows[feed] = first + len(rows)
        self.promised[feed] = promise
        self._promise(min(self.promised.values()))
        self.settle()

    def end(self) -> None:
        self._promise(FOREVER)
        self.has_ended = True
        self.parent.end()
        self.settle()

    def _promise(self, time: int) -> None:
        if time > NEVER:
            self.parent.promise(self.worker.rank, time)

    def ask(self) -> None:
        self.parent.ask()
        self.settle()

    # What is cut.

    @property
    def has_mark(self) -> bool:
        """Whether its own mark is next, and may be taken."""
        queue = self.parent.outgoing[0]
        return bool(queue) and isinstance(queue[0], Mark) and self.worker.may_take(queue[0])

    def take_mark(self) -> None:
        self.worker.take_dealt(self.parent.outgoing[0].popleft())
        self.settle()

    def cut(self) -> None:
        """Cut here, with the intake as it is."""
        source = {
            "feeds": {
                "feeds": {name: [0, time, 0, False] for name, time in self.promised.items()},
                "watermark": min(self.promised.values(), default=FOREVER),
                "closed": self.has_ended,
            },
            "largest": None,
            "late": 0,
            "taken": dict(self.rows),
            "rows": dict(self.rows),
        }
        intake = {"sources": {"a": source}, "numbers": {"a": {}}}
        self.parent.cut(Value(intake=intake, begun=[("a", feed) for feed in self.own], firsts={}))

    def take_part(self) -> Any:
        """Take the part that is to be written; call :meth:`has_written` with it then."""
        return self.worker.parts.popleft()

    def has_written(self, message: PartWritten) -> None:
        self.written.append(message)
        self.settle()

    def begin_cut(self) -> None:
        """Begin a cut of all ranks, at rank 0."""
        self.cut()
        self.settle()

    @property
    def has_record(self) -> bool:
        """Whether a record is to be written."""
        return self.record is None and self.parent.ready is not None

    def take_record(self) -> CheckpointCommit | None:
        """Return the record, which is written then."""
        self.record = self.parent.ready
        return self.record

    @property
    def has_word(self) -> bool:
        """Whether others are to hear of a record."""
        return self.record is not None

    def tell(self) -> None:
        """Let the parent know that a record is written: it tells all others."""
        assert self.record is not None
        self.parent.commit(self.record)
        self.record = None
        self.settle()

    # What others send.

    def arrived(self, sender: int, message: Message) -> None:
        if isinstance(message, Note):
            self._heard(sender, json.loads(message.body))
        else:
            self.worker.arrived(sender, message)
        self.settle()

    def _heard(self, sender: int, note: dict[str, Any]) -> None:
        if self.parent.heard(sender, note):
            self.cut()

    def end_epoch(self) -> None:
        self.worker.end_epoch()
        self.settle()

    # What is given.

    def poll(self) -> Given | None:
        """Return rows of the record first, and then this rank's own."""
        self.waits = None
        if self.again:
            given = self.again.popleft()
            self.waits = given[0]
            return given
        found = self.parent.poll()
        if found is None:
            return None
        number, batches = found
        groups = tuple(sorted(group for batch in batches for group in batch.groups))
        return number, self.worker.rank, groups

    def acknowledged(self) -> int:
        waits = [number - 1 for number, _, _ in self.again]
        waits += [] if self.waits is None else [self.waits - 1]
        return min([self.parent.acknowledged, *waits])

    # What has no step of its own.

    def settle(self) -> None:
        """Deal, let complete groups go, give what may be given, and say all notes."""
        parent, worker = self.parent, self.worker
        is_changed = True
        while is_changed:
            is_changed = False
            queue = parent.outgoing[0]
            if not queue and parent.waiting:
                parent.deal(0)
            if queue and not isinstance(queue[0], Mark):
                worker.take_dealt(queue.popleft())
                is_changed = True
            if worker.can_release:
                worker.release()
            is_changed |= self._give()
            if parent.has_part(0):
                is_changed |= parent.give_part(self.acknowledged(), {})
            while parent.notes:
                receiver, note = parent.notes.popleft()
                is_changed = True
                if receiver == worker.rank:
                    self._heard(receiver, note)
                else:
                    body = json.dumps(note).encode()
                    worker.outgoing[receiver].append(Note(worker.incarnation, body))

    def _give(self) -> bool:
        """Give rows of a number before its part, and none of the next one."""
        worker, moved = self.worker, False
        while not self.parent.has_part(0):
            if worker.results and worker.results[0].number == self.number:
                self.parent.arrived(0, worker.results.popleft())
            elif self.written:
                self.number += 1
                self.parent.arrived(0, self.written.popleft())
            else:
                break
            moved = True
        return moved


def take_sent(rank: Rank, receiver: int) -> tuple[Message, ...]:
    """Take what is to be sent to another rank."""
    sent = tuple(rank.worker.outgoing[receiver])
    rank.worker.outgoing[receiver].clear()
    return sent
