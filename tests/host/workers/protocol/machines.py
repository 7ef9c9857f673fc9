"""The machines of a system: how they begin, act, and take what was sent to them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from penstock.host.workers.protocol.commit import CheckpointCommit
from penstock.host.workers.protocol.messages import Mark, Message
from penstock.host.workers.protocol.parent import Parent
from penstock.host.workers.protocol.worker import Worker
from tests.host.workers.protocol import acts
from tests.host.workers.protocol.cells import Cells
from tests.host.workers.protocol.tally import Tally, limit_of
from tests.host.workers.protocol.world import Setting, World


class Machines:
    """Machines that are given a world and return the next.

    Parameters
    ----------
    setting : Setting
    worker, parent, state : type
        The real machines, or mutants of them.
    """

    #: Whether blocks come twice, as over a network that repeats what it holds for lost.
    repeats = True

    def __init__(
        self,
        setting: Setting,
        worker: type[Worker] = Worker,
        parent: type[Parent] = Parent,
        state: type[Tally] = Tally,
    ) -> None:
        self.setting = setting
        self.cells = Cells()
        self._worker, self._parent, self._state = worker, parent, state
        self._expected = setting.counted()
        self._over = len(setting.items)

    def _begun(self, world: World, record: CheckpointCommit | None) -> World:
        """All workers, as they begin from a record."""
        size = world.parent.content.size
        workers = tuple(self.cells.of(self._new(world, rank, record)) for rank in range(size))
        return world._replace(workers=workers, above=((),) * size)

    def _new(self, world: World, rank: int, record: CheckpointCommit | None) -> Worker:
        parent: Parent = world.parent.content
        state = self._state(rank, parent.size, self.setting.keys)
        begins: dict[str, Any] = {"incarnation": parent.incarnation, "saves": self.setting.saves}
        begins["shares_steps"] = self.setting.shares_steps
        if record is None:
            return self._worker(rank, parent.size, state, limit_of, **begins)
        begins |= {"number": record.number, "recorded": record.promises}
        worker = self._worker(rank, parent.size, state, limit_of, **begins)
        for name in filter(None, record.states):
            worker.load(world.disk.content.files[name], record.size)
        return worker

    def _told(self, world: World, act: Callable[..., Any], *args: Hashable) -> tuple[World, Any]:
        """Let the parent act."""
        cell, result = self.cells.act(world.parent, act, *args)
        return world._replace(parent=cell), result

    def _worked(
        self, world: World, rank: int, act: Callable[..., Any], *args: Hashable
    ) -> tuple[World, Any]:
        """Let a worker act, and send what it computes to the parent."""
        cell, result = self.cells.act(world.workers[rank], act, *args)
        if cell.content.results:
            cell, results = self.cells.act(cell, acts.take_results)
            for output in results:
                self._require_whole(output.body.groups)
            world = self._sent_up(world, rank, results)
        return world._replace(workers=acts.replaced(world.workers, rank, cell)), result

    def _sent_up(self, world: World, rank: int, messages: tuple[Message, ...]) -> World:
        above = world.above[rank] + messages
        return world._replace(above=acts.replaced(world.above, rank, above))

    def _require_whole(self, groups: Iterable[tuple[Any, int]]) -> None:
        for group, count in groups:
            expected = self._expected.get(group, 0)
            assert count >= expected, f"P1: {group} left with {count} of {expected} rows"
            assert count <= expected, f"P2: {group} left with {count} rows, but has {expected}"

    def _read_up(self, world: World, rank: int) -> World:
        message, *rest = world.above[rank]
        world, _ = self._told(world, self._parent.arrived, rank, message)
        return world._replace(above=acts.replaced(world.above, rank, tuple(rest)))

    def _settled(self, world: World) -> World:
        """Let workers and parent do what has no step of its own in this setting."""
        if self.setting.is_prompt:
            for rank, cell in enumerate(world.workers):
                if cell.content.can_release:
                    world, _ = self._worked(world, rank, self._worker.release)
        if self.setting.is_lazy:
            return world
        for rank, above in enumerate(world.above):
            for _ in above:
                world = self._read_up(world, rank)
        for rank in range(len(world.workers)):
            while (queue := world.parent.content.outgoing[rank]) and not isinstance(queue[0], Mark):
                world, message = self._told(world, acts.pop, rank)
                world, _ = self._worked(world, rank, self._worker.take_dealt, message)
        return world
