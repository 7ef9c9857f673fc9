"""Parent, workers, disk and reader as one system, every step of which may come at any time.

The machines are the real ones. What is modelled is the world around them: queues in order between
any two of them, a disk that keeps what was renamed, a reader that outlives crashes, deaths.

Checked in every step:

P1  No group leaves before every row of it is merged: its count is that of the whole input.
P2  What the reader has is what a run in one place gives: each group once, under one number, and
    the same rows whenever a number is given again. A record covers the input before its cut.

The explorer adds that some step always leads on, and that an end can be reached from everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

from penstock.host.workers.protocol.commit import CheckpointCommit
from penstock.host.workers.protocol.messages import DeltaBlock
from penstock.host.workers.protocol.parent import Parent
from penstock.host.workers.protocol.worker import Worker
from penstock.plan.window import FOREVER
from tests.host.workers.protocol import acts
from tests.host.workers.protocol.machines import Machines
from tests.host.workers.protocol.tally import Rows
from tests.host.workers.protocol.world import Disk, World

Steps = Iterable[tuple[str, Callable[[], World]]]


class System(Machines):
    """The model: which steps there are, and what must hold."""

    # The explorer's border.

    def first(self) -> World:
        given = self.setting
        parent = self.cells.of(self._parent(given.size, saves=given.saves, now=given.now))
        world = self._begun(World(parent, (), (), self.cells.of(Disk())), None)
        for label in given.begins:
            world = dict(self.steps(world))[label]()
        return world

    def steps(self, world: World) -> Steps:
        parent: Parent = world.parent.content
        yield from self._steps_of_parent(world, parent)
        for rank, cell in enumerate(world.workers):
            yield from self._steps_of_worker(world, parent, rank, cell.content)
            if world.above[rank]:
                yield f"parent reads {rank}", partial(self._read_up, world, rank)
        if world.deaths < self.setting.deaths:
            for rank in range(len(world.workers)):
                yield f"kill {rank}", partial(self._kill, world, rank)
        if world.restarts < len(self.setting.restarts):
            yield "kill all, and start again", partial(self._restart, world)

    def problem(self, world: World) -> str | None:
        given = [group for _, groups in world.read for group, _ in groups]
        # Released at once, rows come perhaps again after a restart, under another number.
        is_once = not (self.setting.now and world.restarts)
        if is_once and len(set(given)) < len(given):
            return f"P2: a group was given twice: {world.read}"
        if self._is_given(world) and len(set(given)) < len(self._expected):
            return f"P2: all is acknowledged, but groups are missing: {world.read}"
        return None

    def _is_given(self, world: World) -> bool:
        """Whether all input is covered, and its rows have left."""
        parent: Parent = world.parent.content
        return (
            world.pushed > self._over
            and self._covers(world)
            and parent.acknowledged == parent.committed
        )

    def is_end(self, world: World) -> bool:
        return self._is_given(world)

    def key(self, world: World) -> Hashable:
        workers = tuple([cell.number for cell in world.workers])
        return world.parent.number, workers, world.disk.number, *world[2:3], *world[4:]

    # The parent.

    def _steps_of_parent(self, world: World, parent: Parent) -> Steps:
        is_over = world.pushed > self._over
        if parent.waiting or self._is_rows(world):
            for rank in range(len(world.workers)):
                yield f"deal to {rank}", partial(self._deal, world, rank)
        elif world.pushed < self._over:
            yield "promise", partial(self._promise, world, self.setting.items[world.pushed])
        elif not is_over:
            feeds = sorted({feed for feed, _ in self.setting.items})
            yield "feeds end", partial(self._promise, world, *[(f, FOREVER) for f in feeds])
        if parent.may_cut:
            if is_over and not self._covers(world):
                yield "cut at the end", partial(self._cut, world, 0)
            elif not is_over and world.pushed and world.cuts < self.setting.cuts:
                yield "cut", partial(self._cut, world, 1)
        if parent.ready is not None:
            yield "commit", partial(self._commit, world)
        yield "poll", partial(self._poll, world)

    def _is_rows(self, world: World) -> bool:
        """Whether rows are next in the input."""
        items = self.setting.items
        return world.pushed < len(items) and not isinstance(items[world.pushed][1], int)

    def _covers(self, world: World) -> bool:
        """Whether a record, or a cut, covers all input."""
        parent: Parent = world.parent.content
        if not self.setting.saves:
            return parent.may_cut and parent.committed > world.cuts
        return parent.last is not None and parent.last.admission > self._over

    def _deal(self, world: World, rank: int) -> World:
        if not world.parent.content.waiting:
            feed, rows = self.setting.items[world.pushed]
            world, _ = self._told(world, self._parent.push, feed, world.pushed, Rows(rows), 1)
            world = world._replace(pushed=world.pushed + 1)
        return self._settled(self._told(world, self._parent.deal, rank)[0])

    def _promise(self, world: World, *promises: tuple[int, int]) -> World:
        for feed, time in promises:
            world, _ = self._told(world, self._parent.promise, feed, time)
        return self._settled(world._replace(pushed=world.pushed + 1))

    def _cut(self, world: World, counts: int) -> World:
        world, _ = self._told(world, self._parent.cut, world.pushed)
        return self._settled(world._replace(cuts=world.cuts + counts))

    def _commit(self, world: World) -> World:
        record = world.parent.content.ready
        kept = [*record.states, *(name for names in record.rows.values() for name in names)]
        kept = [name for name in kept if name]
        disk = Disk(dict(world.disk.content.files))
        missing = [name for name in kept if name not in disk.files]
        assert not missing, f"P2: the record names {missing}, which nobody has written"
        disk.commit(record, kept)
        self._require_covered(disk, world, record)
        world, _ = self._told(world, acts.commit)
        return world._replace(disk=self.cells.of(disk))

    def _require_covered(self, disk: Disk, world: World, record: CheckpointCommit) -> None:
        covered, expected = disk.covered(world.read), self.setting.counted(record.admission)
        assert covered == expected, f"P2: the record covers {covered}, but it should {expected}"

    def _poll(self, world: World) -> World:
        world, polled = self._told(world, self._parent.poll)
        if polled is None:
            return world
        number, batches = polled
        groups = tuple(sorted(group for batch in batches for group in batch.groups))
        read = dict(world.read)
        if self.setting.saves and not self.setting.now:
            before = read.setdefault(number, groups)
            assert before == groups, f"P2: number {number} had {before}, then {groups}"
        else:
            read[number] = tuple(sorted({*read.get(number, ()), *groups}))
        return world._replace(read=tuple(sorted(read.items())))

    # Workers.

    def _steps_of_worker(self, world: World, parent: Parent, rank: int, worker: Worker) -> Steps:
        queue = parent.outgoing[rank]
        if queue and worker.may_take(queue[0]):
            yield f"{rank} takes {queue[0].kind}", partial(self._take, world, rank)
        state: Any = worker.state
        is_due = state.changed or worker.can_close
        if worker.may_end and is_due and world.epochs < self.setting.epochs:
            yield f"{rank} ends its epoch", partial(self._end_epoch, world, rank)
        for sender, cell in enumerate(world.workers):
            if (queue := cell.content.outgoing[rank]) and worker.may_read(sender):
                label = f"{rank} reads {queue[0].kind} of {sender}"
                yield label, partial(self._read, world, rank, sender)
        if worker.can_release:
            yield f"{rank} lets groups go", partial(self._let_go, world, rank)
        if worker.parts:
            yield f"{rank} writes its part", partial(self._write, world, rank)

    def _take(self, world: World, rank: int) -> World:
        world, message = self._told(world, acts.pop, rank)
        return self._settled(self._worked(world, rank, self._worker.take_dealt, message)[0])

    def _end_epoch(self, world: World, rank: int) -> World:
        world, _ = self._worked(world, rank, self._worker.end_epoch)
        return self._settled(world._replace(epochs=world.epochs + 1))

    def _let_go(self, world: World, rank: int) -> World:
        return self._settled(self._worked(world, rank, self._worker.release)[0])

    def _read(self, world: World, rank: int, sender: int) -> World:
        """Read the blocks of an epoch and its end; or a mark.

        Between blocks nothing else is tried: what comes early can only hide that it came late.
        """
        while True:
            other, message = self.cells.act(world.workers[sender], acts.pop, rank)
            world = world._replace(workers=acts.replaced(world.workers, sender, other))
            act = acts.arrived_twice if self.repeats else self._worker.arrived
            world, _ = self._worked(world, rank, act, sender, message)
            if self.setting.is_lazy or not isinstance(message, DeltaBlock):
                return self._settled(world)

    def _write(self, world: World, rank: int) -> World:
        world, part = self._worked(world, rank, acts.take_part)
        message = acts.written(part)
        disk = world.disk
        if message.state:
            disk, _ = self.cells.act(disk, Disk.write, message.state, part.state)
        if message.rows:
            disk, _ = self.cells.act(disk, Disk.write, message.rows, part.rows)
        return self._settled(self._sent_up(world._replace(disk=disk), rank, (message,)))

    # Deaths.

    def _kill(self, world: World, rank: int) -> World:
        """Kill one worker, and let all begin again, while messages of before are on their way.

        What the others do before they are stopped they might as well have done before the death.
        """
        old = [cell.content for cell in world.workers]
        world, record = self._told(world, self._parent.recover, rank)
        world = self._begun(world._replace(deaths=world.deaths + 1), record)
        for sender, worker in enumerate(old):
            for part in worker.parts:
                world, _ = self._told(world, self._parent.arrived, sender, acts.written(part))
            for receiver, queue in enumerate(worker.outgoing):
                for message in list(queue)[:1]:
                    act = self._worker.arrived
                    world, _ = self._worked(world, receiver, act, sender, message)
        return self._settled(world)

    def _restart(self, world: World) -> World:
        given, record = self.setting, world.disk.content.record
        size = given.restarts[world.restarts]
        rows = world.disk.content.rows()
        parent = self._parent(size, saves=given.saves, now=given.now, last=record, rows=rows)
        world = world._replace(
            parent=self.cells.of(parent),
            pushed=0 if record is None else record.admission,
            restarts=world.restarts + 1,
        )
        return self._settled(self._begun(world, record))
