"""Mistakes that the protocol must not have: each is the real machine with one thing changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from penstock.host.workers.protocol.coordinator import Coordinator, MemberPart, Phase
from penstock.host.workers.protocol.epochs import EpochOrder
from penstock.host.workers.protocol.messages import (
    DealtRows,
    DeltaBlock,
    EpochEnd,
    Message,
    StepNotice,
)
from penstock.host.workers.protocol.parent import Parent
from penstock.host.workers.protocol.worker import Worker
from penstock.plan.window import NEVER
from tests.host.workers.protocol.model import System
from tests.host.workers.protocol.tally import Group, SharedTally, Tally
from tests.host.workers.protocol.world import World


class OwnClock(Worker):
    """Triggers on what it promises itself, not on what all do."""

    def _move(self, worker: int, promises: Iterable[tuple[int, int]]) -> None:
        super()._move(worker, promises)
        self._due = max(self._due, self._limit_of(self.promises.floor(NEVER)))


class TriggerFirst(Worker):
    """Moves the clock and lets groups go, and merges afterwards."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.postponed: list[tuple[int, Any]] = []

    def arrived(self, sender: int, message: Message) -> bool:
        if isinstance(message, DeltaBlock) and self._is_current(message, "a worker"):
            self._order.block(sender, message.epoch, message.block)
            self.postponed.append((sender, message.body))
            return True
        is_current = super().arrived(sender, message)
        if isinstance(message, EpochEnd):
            self.release()
            for merged, body in self.postponed:
                self.state.merge(merged, body)
            self.postponed.clear()
        return is_current


class Stranding(Worker):
    """Takes a part with groups in it that the record's promises complete."""

    def _cut(self) -> None:
        self._due = self._limit
        super()._cut()


class PromiseFirst(Worker):
    """Sends what it promises now with the blocks of the epoch before."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.held: list[list[Any]] = [[] for _ in range(self.size)]

    def _send(self, receiver: int, blocks: Iterable[Any], promises: Any) -> None:
        super()._send(receiver, self.held[receiver], promises)
        self.held[receiver] = list(blocks)


class Repeating(Worker):
    """Merges a delta as often as it comes."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._order = _AnyOrder(self.size)


class _AnyOrder(EpochOrder):
    def block(self, worker: int, epoch: int, block: int) -> None:
        if self._blocks[worker] == block:
            super().block(worker, epoch, block)


class PastTheMark(Worker):
    """Goes on reading a worker whose mark has come."""

    def may_read(self, sender: int) -> bool:
        return True


class Unnumbered(Worker):
    """Takes epochs in any order, so that numbers of epochs do not hide a mistake behind them."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._order = _NoOrder(self.size)


class _NoOrder(EpochOrder):
    def _require_next(self, worker: int, epoch: int, block: int, what: str) -> None:
        pass


class AnyIncarnation(Unnumbered):
    """Merges what was sent before all began again."""

    def _is_current(self, message: Message, sender: str) -> bool:
        return True


class AnyPart(Parent):
    """Commits parts that were written before all began again."""

    def arrived(self, rank: int, message: Message) -> bool:
        return super().arrived(rank, replace(message, incarnation=self.incarnation))


class EarlyRelease(Parent):
    """Gives the rows of a record before it is committed."""

    def poll(self) -> tuple[int, list[Any]] | None:
        self._numbers._now = self.ready is not None
        return super().poll()


class Coordinated(Parent):
    """Has a coordinator with one thing changed."""

    coordinator_type: type[Coordinator]

    def __init__(self, size: int, **others: Any) -> None:
        super().__init__(size, **others)
        self.coordinator = self.coordinator_type(size, self.last)


class _Forgetful(Coordinator):
    def _needs(self, number: int, acknowledged: int) -> bool:
        return number > self.number


class Forgetful(Coordinated):
    """Names in a record only the rows of its own number, so that older ones are removed."""

    coordinator_type = _Forgetful


class _FirstPart(Coordinator):
    def add(self, member: int, part: MemberPart) -> None:
        super().add(member, part)
        self.phase = Phase.SAVED

    @property
    def parts(self) -> list[MemberPart]:
        return [self._parts.get(member, MemberPart()) for member in range(self.size)]


class FirstPart(Coordinated):
    """Takes a cut for saved with the first part of it."""

    coordinator_type = _FirstPart


class _KeepingParts(Coordinator):
    def recut(self) -> None:
        pass

    def awaits(self, member: int, number: int) -> bool:
        return self.phase is not Phase.RUNNING and number == self.number + 1

    def add(self, member: int, part: MemberPart) -> None:
        if self.phase is Phase.CUTTING and member not in self._parts:
            super().add(member, part)


class KeepingParts(Coordinated):
    """Keeps the parts of a cut when all begin again from the record before."""

    coordinator_type = _KeepingParts

    def has_part(self, worker: int) -> bool:
        return False


class DeadOnly(Parent):
    """Restores one worker, and deals to it again what only it had."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.dealt_to: dict[int, int] = {}

    def deal(self, rank: int) -> bool:
        head = self._ledger.head
        if isinstance(head, DealtRows):
            self.dealt_to[head.number] = rank
        return super().deal(rank)

    def recover(self, rank: int) -> Any:
        self.outgoing[rank].clear()
        for message, _ in self._ledger._kept:
            if not isinstance(message, DealtRows) or self.dealt_to[message.number] == rank:
                self.outgoing[rank].append(replace(message, incarnation=self.incarnation))
        return self.last


class ReliableSystem(System):
    """Nothing comes twice."""

    repeats = False


class DeadOnlySystem(ReliableSystem):
    """Workers go on as they are, next to one that begins from the record."""

    def _kill(self, world: World, rank: int) -> World:
        before = world.workers
        marks, parent = before[rank].content._marks, world.parent.content
        if rank in marks or marks.number > parent.committed + 1:
            return world  # the number of its mark would be noticed
        world, record = self._told(world, self._parent.recover, rank)
        fresh = self._new(world, rank, record)
        # It has the marks that it had, or the others would notice by that alone.
        fresh._marks = before[rank].content._marks
        workers = (*before[:rank], self.cells.of(fresh), *before[rank + 1 :])
        return self._settled(world._replace(workers=workers, deaths=world.deaths + 1))


class NotFromZero(Tally):
    """Goes on in the other log, with what is in it."""

    def begin(self) -> None:
        self.index = {}
        self.current = 1 - self.current


class StaleIndex(Tally):
    """Finds entries where they were before the seal, and updates them there."""

    def begin(self) -> None:
        stale = self.index
        super().begin()
        self.index = stale


class Untold(Worker):
    """Takes steps that it does not announce."""

    def _announce(self) -> None:
        self._steps.announced(self._due)


class TellingPastTheMark(Worker):
    """Announces steps between its mark and the end of the cut."""

    @property
    def _may_announce(self) -> bool:
        may = self._shares and self.rank == 0
        return may and self._steps.is_news(self._limit, self._due)


class Hasty(Worker):
    """Takes an announced step before its own clock has come as far."""

    def arrived(self, sender: int, message: Message) -> bool:
        if isinstance(message, StepNotice):
            self._due = max(self._due, self._limit_of(message.time))
        return super().arrived(sender, message)


class ByArrival(SharedTally):
    """Cuts shares in the order in which rows have come, which differs between workers."""

    def order(self, groups: Iterable[Group]) -> list[Group]:
        return list(groups)


class AllSaving(SharedTally):
    """Saves what others save, too."""

    def _saves(self, group: Group) -> bool:
        return True
