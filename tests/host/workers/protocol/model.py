"""Parent, workers, disk and reader as one system, every step of which may come at any time.

The machines are the real ones. What is modelled is the world around them: queues in order between
any two of them, a disk that keeps what was renamed, a reader that outlives crashes, deaths.

Checked in every step:

P1  No group leaves before every row of it is merged: its count is that of the whole input.
P2  What the reader has is what a run in one place gives: each group once, under one number, and
    the same rows whenever a number is given again.

The explorer adds that some step always leads on, and that an end can be reached from everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from penstock.host.device.fields import MalformedError
from penstock.host.workers.protocol.messages import DeltaBlock, Mark, Message, PartWritten
from penstock.host.workers.protocol.parent import Parent
from penstock.host.workers.protocol.worker import Worker
from penstock.plan.window import FOREVER, NEVER
from tests.host.workers.protocol.cells import Cell, Numbers
from tests.host.workers.protocol.tally import Group, Groups, Rows, Tally, counted, limit_of

#: An input item: a feed, and rows of key and time, or what the feed promises.
Item = tuple[int, tuple[tuple[int, int], ...] | int]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a system is given, and what may happen to it.

    Parameters
    ----------
    size : int
        Workers.
    keys : int
    items : tuple of Item
        The input; behind it all feeds end.
    cuts : int
        Cuts, besides those behind all input.
    deaths : int
        Workers that are killed.
    restarts : tuple of int
        How many workers there are after each time that all processes are killed.
    saves, now : bool
        As the parent has them.
    is_lazy : bool
        Whether messages between parent and workers wait for a step of their own. Otherwise they
        are taken when they are sent, but for marks: that commutes with all other steps, so it
        hides no mistake and leaves far fewer states.
    """

    size: int = 2
    keys: int = 2
    items: tuple[Item, ...]
    cuts: int = 0
    deaths: int = 0
    restarts: tuple[int, ...] = ()
    saves: bool = True
    now: bool = False
    is_lazy: bool = False

    @property
    def expected(self) -> dict[Group, int]:
        batches = [given for _, given in self.items if not isinstance(given, int)]
        return dict(counted(row for rows in batches for row in rows))


@dataclass(frozen=True)
class World:
    """All that is there at one moment.

    Parameters
    ----------
    parent : Cell of Parent
    workers : tuple of Cell of Worker
    above : tuple of tuple of Message
        From each worker to the parent, in order.
    pushed : int
        Input items that the parent has taken.
    disk : Cell of Disk
    read : tuple of (number, groups)
        What the reader has.
    """

    parent: Cell
    workers: tuple[Cell, ...]
    above: tuple[tuple[Message, ...], ...]
    disk: Cell
    pushed: int = 0
    read: tuple[tuple[int, tuple[Any, ...]], ...] = ()
    cuts: int = 0
    deaths: int = 0
    restarts: int = 0


@dataclass
class Disk:
    """Files by name, and the last record."""

    files: dict[bytes, tuple[Any, ...]] = field(default_factory=dict)
    record: Any = None


class System:
    """The model: which steps there are, and what must hold.

    Parameters
    ----------
    setting : Setting
    worker, parent, state : type
        The real machines, or mutants of them.
    """

    def __init__(
        self,
        setting: Setting,
        worker: type[Worker] = Worker,
        parent: type[Parent] = Parent,
        state: type[Tally] = Tally,
    ) -> None:
        self.setting = setting
        self._worker, self._parent, self._state = worker, parent, state
        self._numbers = Numbers()

    # The explorer's border.

    def first(self) -> World:
        given = self.setting
        parent = self._parent(given.size, saves=given.saves, now=given.now)
        return self._begun(World(Cell(parent), (), (), Cell(Disk())), parent, None)

    def steps(self, world: World) -> Iterable[tuple[str, Callable[[], World]]]:
        parent: Parent = world.parent.content
        yield from self._steps_of_parent(world, parent)
        for rank, cell in enumerate(world.workers):
            yield from self._steps_of_worker(world, parent, rank, cell.content)
            if world.above[rank]:
                yield f"parent reads {rank}", partial(self._read_up, world, rank)
        yield from self._deaths(world, parent)

    def problem(self, world: World) -> str | None:
        given = [group for _, groups in world.read for group, _ in groups]
        if len(set(given)) < len(given):
            return f"P2: a group was given twice: {world.read}"
        return None

    def is_end(self, world: World) -> bool:
        if world.pushed <= len(self.setting.items) or not self._covers(world):
            return False
        return {group: n for _, groups in world.read for group, n in groups} == (
            self.setting.expected
        )

    def key(self, world: World) -> Hashable:
        of = self._numbers.of
        return (
            of(world.parent),
            tuple(of(cell) for cell in world.workers),
            of(world.disk),
            world.above,
            world.pushed,
            world.read,
            world.cuts,
            world.deaths,
            world.restarts,
        )

    # The parent.

    def _steps_of_parent(
        self, world: World, parent: Parent
    ) -> Iterable[tuple[str, Callable[[], World]]]:
        is_over = world.pushed > len(self.setting.items)
        if parent.waiting or self._is_rows(world):
            for rank in range(len(world.workers)):
                yield f"deal to {rank}", partial(self._deal, world, rank)
        elif world.pushed < len(self.setting.items):
            yield "promise", partial(self._promise, world)
        elif not is_over:
            yield "feeds end", partial(self._end, world)
        if parent.may_cut:
            if is_over and not self._covers(world):
                yield "cut at the end", partial(self._cut, world, 0)
            elif not is_over and world.pushed and world.cuts < self.setting.cuts:
                yield "cut", partial(self._cut, world, 1)
        if parent.ready is not None:
            yield "commit", partial(self._commit, world)
        yield "poll", partial(self._poll, world)

    def _covers(self, world: World) -> bool:
        """Whether a record, or a cut, covers all input."""
        parent: Parent = world.parent.content
        if not self.setting.saves:
            return parent.may_cut and parent.committed > world.cuts
        return parent.last is not None and parent.last.admission > len(self.setting.items)

    def _is_rows(self, world: World) -> bool:
        """Whether rows are next in the input."""
        items = self.setting.items
        return world.pushed < len(items) and not isinstance(items[world.pushed][1], int)

    def _deal(self, world: World, rank: int) -> World:
        cell = world.parent.copy()
        parent, pushed = cell.content, world.pushed
        if not parent.waiting:
            feed, rows = self.setting.items[pushed]
            parent.push(feed, pushed, Rows(rows), nbytes=1)
            pushed += 1
        assert parent.deal(rank)
        return self._settled(replace(world, parent=cell, pushed=pushed))

    def _promise(self, world: World) -> World:
        cell = world.parent.copy()
        cell.content.promise(*self.setting.items[world.pushed])
        return self._settled(replace(world, parent=cell, pushed=world.pushed + 1))

    def _end(self, world: World) -> World:
        cell = world.parent.copy()
        for feed in sorted({feed for feed, _ in self.setting.items}):
            cell.content.promise(feed, FOREVER)
        return self._settled(replace(world, parent=cell, pushed=world.pushed + 1))

    def _cut(self, world: World, counts: int) -> World:
        cell = world.parent.copy()
        cell.content.cut(world.pushed)
        return self._settled(replace(world, parent=cell, cuts=world.cuts + counts))

    def _read_up(self, world: World, rank: int) -> World:
        cell = world.parent.copy()
        message, *rest = world.above[rank]
        cell.content.arrived(rank, message)
        return replace(world, parent=cell, above=_with(world.above, rank, tuple(rest)))

    def _commit(self, world: World) -> World:
        cell, disk = world.parent.copy(), world.disk.copy()
        record = cell.content.ready
        disk.content.record = record
        kept = {*record.states, *(name for names in record.rows.values() for name in names)}
        disk.content.files = {n: held for n, held in disk.content.files.items() if n in kept}
        cell.content.commit(record)
        return replace(world, parent=cell, disk=disk)

    def _poll(self, world: World) -> World:
        cell = world.parent.copy()
        polled = cell.content.poll()
        if polled is None:
            return replace(world, parent=cell)
        number, batches = polled
        groups = tuple(sorted(group for batch in batches for group in batch.groups))
        read = dict(world.read)
        if self.setting.saves and not self.setting.now:
            before = read.setdefault(number, groups)
            assert before == groups, f"P2: number {number} had {before}, then {groups}"
        elif groups != read.get(number):
            read[number] = tuple(sorted({*read.get(number, ()), *groups}))
        return replace(world, parent=cell, read=tuple(sorted(read.items())))

    # Workers.

    def _steps_of_worker(
        self, world: World, parent: Parent, rank: int, worker: Worker
    ) -> Iterable[tuple[str, Callable[[], World]]]:
        queue = parent.outgoing[rank]
        if queue and worker.may_take(queue[0]):
            yield f"{rank} takes {queue[0].kind}", partial(self._take, world, rank)
        state: Any = worker.state
        if worker.may_end and (state.changed or worker.can_close):
            yield f"{rank} ends its epoch", partial(self._end_epoch, world, rank)
        for sender, cell in enumerate(world.workers):
            if cell.content.outgoing[rank] and worker.may_read(sender):
                kind = cell.content.outgoing[rank][0].kind
                yield f"{rank} reads {kind} of {sender}", partial(self._read, world, rank, sender)
        if worker.parts:
            yield f"{rank} writes its part", partial(self._write, world, rank)

    def _take(self, world: World, rank: int) -> World:
        parent, cell = world.parent.copy(), _copy(world, rank)
        cell.content.dealt(parent.content.outgoing[rank].popleft())
        return self._worked(replace(world, parent=parent), rank, cell)

    def _end_epoch(self, world: World, rank: int) -> World:
        cell = _copy(world, rank)
        cell.content.end_epoch()
        return self._worked(world, rank, cell)

    def _read(self, world: World, rank: int, sender: int) -> World:
        """Read the blocks of an epoch and its end; or a mark.

        Between blocks nothing else is tried: what comes early can only hide that it came late.
        """
        cell, other = _copy(world, rank), _copy(world, sender)
        queue, worker = other.content.outgoing[rank], cell.content
        while isinstance(message := queue.popleft(), DeltaBlock):
            worker.arrived(sender, message)
            # It comes again, as over a network that repeats what it holds for lost.
            with suppress(MalformedError):
                worker.arrived(sender, message)
            if self.setting.is_lazy:
                break
        else:
            worker.arrived(sender, message)
        world = replace(world, workers=_with(world.workers, sender, other))
        return self._worked(world, rank, cell)

    def _worked(self, world: World, rank: int, cell: Cell) -> World:
        """Send what a worker has computed to the parent."""
        up = list(world.above[rank])
        while cell.content.results:
            result = cell.content.results.popleft()
            self._require_whole(result.body)
            up.append(result)
        above = _with(world.above, rank, tuple(up))
        world = replace(world, workers=_with(world.workers, rank, cell), above=above)
        return self._settled(world)

    def _require_whole(self, rows: Groups) -> None:
        for group, count in rows.groups:
            expected = self.setting.expected.get(group, 0)
            assert count >= expected, f"P1: {group} left with {count} of {expected} rows"
            assert count <= expected, f"P2: {group} left with {count} rows, but has {expected}"

    def _write(self, world: World, rank: int) -> World:
        cell, disk = _copy(world, rank), world.disk.copy()
        part = cell.content.parts.popleft()
        names = [b"", b""]
        for place, (kind, held) in enumerate((("state", part.state), ("rows", part.rows))):
            if held:
                names[place] = f"{part.number}.{rank}.{part.incarnation}.{kind}".encode()
                disk.content.files[names[place]] = held
        message = PartWritten(part.incarnation, part.number, *names)
        above = _with(world.above, rank, (*world.above[rank], message))
        world = replace(world, workers=_with(world.workers, rank, cell), disk=disk, above=above)
        return self._settled(world)

    def _settled(self, world: World) -> World:
        """Let workers and parent take all that is there for them, unless that has steps."""
        if self.setting.is_lazy:
            return world
        for rank, above in enumerate(world.above):
            for _ in above:
                world = self._read_up(world, rank)
        for rank in range(len(world.workers)):
            while (queue := world.parent.content.outgoing[rank]) and not isinstance(queue[0], Mark):
                world = self._take(world, rank)
        return world

    # Deaths.

    def _deaths(self, world: World, parent: Parent) -> Iterable[tuple[str, Callable[[], World]]]:
        if world.deaths < self.setting.deaths:
            for rank in range(len(world.workers)):
                yield f"kill {rank}", partial(self._kill, world, rank)
        if world.restarts < len(self.setting.restarts):
            yield "kill all, and start again", partial(self._restart, world)

    def _kill(self, world: World, rank: int) -> World:
        """Kill one worker, and let all begin again, while messages of before are on their way.

        What the others do before they are stopped they might as well have done before the death.
        """
        before = world
        cell = world.parent.copy()
        record = cell.content.recover(rank)
        world = replace(world, parent=cell, deaths=world.deaths + 1)
        world = self._settled(self._begun(world, cell.content, record))
        for sender, old in enumerate(before.workers):
            for part in old.content.parts:
                state = f"{part.number}.{sender}.{part.incarnation}.state".encode()
                written = PartWritten(part.incarnation, part.number, state, b"")
                world = replace(world, above=_with(world.above, sender, (written,)))
                world = self._read_up(world, sender)
            for receiver, queue in enumerate(old.content.outgoing):
                for message in list(queue)[:1]:
                    other = _copy(world, receiver)
                    other.content.arrived(sender, message)
                    world = self._worked(world, receiver, other)
        return world

    def _restart(self, world: World) -> World:
        size = self.setting.restarts[world.restarts]
        record, files = world.disk.content.record, world.disk.content.files
        rows, pushed = {}, 0
        if record is not None:
            pushed = record.admission
            rows = {
                n: [b for name in names for b in files[name]] for n, names in record.rows.items()
            }
        parent = self._parent(
            size, saves=self.setting.saves, now=self.setting.now, last=record, rows=rows
        )
        world = replace(
            world, parent=Cell(parent), pushed=pushed, restarts=world.restarts + 1, above=()
        )
        return self._settled(self._begun(world, parent, record))

    def _begun(self, world: World, parent: Parent, record: Any) -> World:
        """All workers, as they begin from a record."""
        cells = [Cell(self._new(world, parent, rank, record)) for rank in range(parent.size)]
        return replace(world, workers=tuple(cells), above=((),) * parent.size)

    def _new(self, world: World, parent: Parent, rank: int, record: Any) -> Worker:
        worker = self._worker(
            rank,
            parent.size,
            self._state(rank, parent.size, self.setting.keys),
            limit_of,
            incarnation=parent.incarnation,
            number=0 if record is None else record.number,
            recorded=None if record is None else record.promises,
            saves=self.setting.saves,
        )
        for name in () if record is None else record.states:
            worker.load(world.disk.content.files[name], record.size)
        return worker


def _copy(world: World, rank: int) -> Cell:
    return world.workers[rank].copy()


def _with(values: Sequence[Any], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


__all__ = ["NEVER", "Item", "Setting", "System"]
