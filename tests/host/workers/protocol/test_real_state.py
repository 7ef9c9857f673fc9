"""The machines over the state that streams use, and messages as bytes: ways drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from penstock.host.state import GroupState
from penstock.host.workers.protocol.coding import decode, encode
from penstock.host.workers.protocol.commit import CheckpointCommit
from penstock.host.workers.protocol.messages import Message
from penstock.host.workers.protocol.worker import Worker
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_select
from tests.host.workers.protocol.cells import Cell, Cells
from tests.host.workers.protocol.model import System
from tests.host.workers.protocol.tally import WIDTH, Groups, Rows
from tests.host.workers.protocol.world import Disk, Item, Setting, World
from tests.kit.effort import examples

SCHEMA = pa.schema([pa.field("k", pa.string(), nullable=False), ("t", pa.int64())])
QUERY = compile_select(
    f"SELECT k, t - t % {WIDTH} AS w, count(*) AS n FROM s GROUP BY k, t - t % {WIDTH}",
    {"s": SCHEMA},
    time={"s": "t"},
)


class RealState:
    """Rows and groups as the model has them, in a :class:`GroupState` with texts as keys."""

    def __init__(self, rank: int, size: int, keys: int) -> None:
        assert isinstance(QUERY, GroupQuery)
        self._state = GroupState(QUERY, SCHEMA, rank=rank, size=size)
        self.seal, self.merge = self._state.seal, self._state.merge
        self.cut, self.save, self.load = self._state.cut, self._state.save, self._state.load

    @property
    def changed(self) -> int:
        return self._state.changed

    def fold(self, batch: Rows, feed: int = 0, first: int = 0) -> Any:
        keys = pa.array([f"key {key}" for key, _ in batch.rows])
        times = pa.array([time for _, time in batch.rows], pa.int64())
        return self._state.fold(pa.record_batch([keys, times], schema=SCHEMA), feed, first)

    def release(self, limit: float) -> Groups:
        rows = self._state.release(limit).to_pylist()
        return Groups(tuple(((int(row["w"]), int(row["k"][4:])), row["n"]) for row in rows))


class CodedWorker(Worker):
    """Reads other workers' messages from bytes."""

    def arrived(self, sender: int, message: Message) -> bool:
        return super().arrived(sender, decode(message.kind, b"".join(encode(message))))


class RealSystem(System):
    """What a record covers is not seen in its bytes, only after a restart from it."""

    def _require_covered(self, disk: Disk, world: World, record: CheckpointCommit) -> None:
        pass


class OnlyOne(Cells):
    """Machines that change as they are: a way goes on, and never back."""

    def of(self, content: Any) -> Cell:
        return Cell(0, content)

    def act(self, cell: Cell, act: Callable[..., Any], *args: Hashable) -> tuple[Cell, Any]:
        return cell, act(cell.content, *args)


def input_of(rng: random.Random, feeds: int) -> Iterable[Item]:
    """Batches out of order, and after some of them what their feed promises."""
    disorder, now = 2 * WIDTH, 2 * WIDTH
    for feed in range(feeds):
        yield feed, 0
    for _ in range(rng.randrange(4, 40)):
        now += rng.randrange(WIDTH)
        feed = rng.randrange(feeds)
        low = now - disorder
        yield (
            feed,
            tuple(
                (rng.randrange(5), rng.randrange(low, now + 1)) for _ in range(rng.randrange(1, 9))
            ),
        )
        if rng.random() < 0.5:
            yield feed, low


@pytest.mark.parametrize("seed", range(examples(200)))
def test_a_way_drawn_at_random(seed: int):
    rng = random.Random(seed)
    setting = Setting(
        size=rng.choice((1, 2, 3, 5)),
        items=tuple(input_of(rng, feeds=rng.choice((1, 2)))),
        cuts=rng.randrange(6),
        epochs=1000,
        deaths=rng.randrange(3),
        restarts=tuple(rng.choice((1, 2, 3, 4)) for _ in range(rng.randrange(3))),
        now=rng.random() < 0.2,
        is_lazy=rng.random() < 0.5,
    )
    system = RealSystem(setting, worker=CodedWorker, state=RealState)  # type: ignore[arg-type]
    system.cells = OnlyOne()
    world = system.first()
    for _ in range(20_000):
        if system.is_end(world):
            break
        steps = list(system.steps(world))
        kills = [step for step in steps if step[0].startswith("kill")]
        others = [step for step in steps if step not in kills]
        # Rare enough to come anywhere, not only at the beginning.
        _, step = rng.choice(kills if kills and rng.random() < 0.01 else others)
        world = step()
        assert system.problem(world) is None
    assert system.is_end(world)
    given = {group: count for _, groups in world.read for group, count in groups}
    assert given == setting.counted()
