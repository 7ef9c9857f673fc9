"""Ranks, channels, disk and reader as one system, every step of which may come at any time.

The machines are the real ones: workers, and parents of one worker that agree on cuts. Each rank's
messages to another are a queue, notes among them. At any time all ranks end, and another number of
them goes on from the disk. So the loss of one is among it: what others still do before they end
they might as well have done before, without a step of the lost one.

Checked in every step, besides P1 and P2 of :mod:`tests.host.workers.protocol.model`: a record
covers what all ranks had taken at their cuts of its number; its number follows that of the record
before; all files that it names are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from penstock.host.workers.protocol.commit import CheckpointCommit
from penstock.host.workers.protocol.messages import Message
from tests.host.workers.protocol import acts
from tests.host.workers.protocol.cells import Cell, Cells
from tests.host.workers.protocol.tally import Group, counted
from tests.host.workers.protocol.world import Disk
from tests.host.workers.ranks.rank import Given, Item, Rank, take_sent


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What ranks are given, and what may happen to them.

    Parameters
    ----------
    sizes : tuple of int
        Ranks of one start after the other.
    keys : int
    feeds : tuple of tuple of Item
    cuts : int
        Cuts that ranks ask for, besides the last one.
    epochs : int
        Epochs that end before a mark, of all ranks together.
    """

    sizes: tuple[int, ...] = (2, 1)
    keys: int = 2
    feeds: tuple[tuple[Item, ...], ...]
    cuts: int = 0
    epochs: int = 0

    def counted(self, taken: dict[str, int] | None = None) -> Counter[Group]:
        """What a run in one place counts of the first rows of each feed; of all by default."""
        rows = [[row for given, _ in feed for row in given] for feed in self.feeds]
        if taken is not None:
            rows = [one[: taken.get(str(f), 0)] for f, one in enumerate(rows)]
        return counted(row for one in rows for row in one)


class World(NamedTuple):
    """All that there is at one moment.

    Parameters
    ----------
    ranks : tuple of Cell of Rank
    lines : tuple of tuple of tuple of Message
        From each rank to each, in order.
    disk : Cell of Disk
    read : tuple of ((number, rank), groups)
        What the reader has.
    starts, cuts, epochs : int
        How often it happened.
    """

    ranks: tuple[Cell, ...]
    lines: tuple[tuple[tuple[Message, ...], ...], ...]
    disk: Cell
    read: tuple[tuple[tuple[int, int], tuple[Any, ...]], ...] = ()
    starts: int = 0
    cuts: int = 0
    epochs: int = 0


Steps = Iterable[tuple[str, Callable[[], World]]]


class System:
    """The model: which steps there are, and what must hold."""

    def __init__(self, setting: Setting, rank: type[Rank] = Rank) -> None:
        self.setting = setting
        self.cells = Cells()
        self._rank = rank
        self._expected = setting.counted()

    # The explorer's border.

    def first(self) -> World:
        return self._start(World((), (), self.cells.of(Disk())))

    def steps(self, world: World) -> Steps:
        for rank, cell in enumerate(world.ranks):
            yield from self._steps_of(world, rank, cell.content)
        if world.starts < len(self.setting.sizes):
            yield "all end, and others go on", partial(self._start, world)

    def problem(self, world: World) -> str | None:
        given = [group for _, groups in world.read for group, _ in groups]
        if len(set(given)) < len(given):
            return f"P2: a group was given twice: {world.read}"
        if self.is_end(world) and len(given) < len(self._expected):
            return f"P2: all ranks have ended, but groups are missing: {world.read}"
        return None

    def is_end(self, world: World) -> bool:
        return all(
            cell.content.parent.is_over
            and not cell.content.again
            and cell.content.acknowledged() == cell.content.parent.committed
            for cell in world.ranks
        )

    def key(self, world: World) -> Hashable:
        ranks = tuple([cell.number for cell in world.ranks])
        return ranks, world.lines, world.disk.number, *world[3:]

    # A start.

    def _start(self, world: World) -> World:
        """Let all ranks begin from the disk, whatever they did before."""
        setting, disk = self.setting, world.disk.content
        size, last = setting.sizes[world.starts], disk.record
        rows = (
            []
            if last is None
            else sorted((n, name) for n, held in last.rows.items() for name in held)
        )
        ranks = []
        for rank in range(size):
            given = tuple(_given(disk, n, name) for n, name in rows if _writer(name) % size == rank)
            one = self._rank(rank, size, setting.keys, setting.feeds, last, given)
            for name in () if last is None else last.states:
                one.worker.load(disk.files[name], last.size)
            ranks.append(self.cells.of(one))
        lines = (((),) * size,) * size
        return world._replace(ranks=tuple(ranks), lines=lines, starts=world.starts + 1)

    # One rank.

    def _steps_of(self, world: World, rank: int, one: Rank) -> Steps:
        act = partial(self._act, world, rank)
        for feed in one.own:
            if one.next_item(feed) is not None:
                yield f"{rank} pushes to {feed}", partial(act, Rank.push, feed)
        if not one.has_ended:
            if not any(map(one.next_item, one.own)):
                yield f"{rank} ends", partial(act, Rank.end)
            if world.cuts < self.setting.cuts and not one.parent.has_asked:
                yield f"{rank} asks for a cut", partial(self._ask, world, rank)
        if one.has_mark:
            yield f"{rank} takes its mark", partial(act, Rank.take_mark)
        worker, state = one.worker, one.worker.state
        is_due = state.changed or worker.can_close  # pyright: ignore[reportAttributeAccessIssue]
        if worker.may_end and is_due and world.epochs < self.setting.epochs:
            yield f"{rank} ends its epoch", partial(self._end_epoch, world, rank)
        for sender, lines in enumerate(world.lines):
            if lines[rank] and worker.may_read(sender):
                label = f"{rank} reads {lines[rank][0].kind} of {sender}"
                yield label, partial(self._read, world, rank, sender)
        if worker.parts:
            yield f"{rank} writes its part", partial(self._write, world, rank)
        if one.has_word:
            yield "0 tells of the record", partial(act, self._rank.tell)
        elif one.has_record:
            yield "0 writes the record", partial(self._record, world)
        elif one.parent.is_due:
            yield "0 begins a cut", partial(act, Rank.begin_cut)
        yield f"{rank} polls", partial(self._poll, world, rank)

    def _act(self, world: World, rank: int, act: Callable[..., Any], *args: Hashable) -> World:
        """Let a rank act, and send what it says."""
        return self._acted(world, rank, act, *args)[0]

    def _acted(
        self, world: World, rank: int, act: Callable[..., Any], *args: Hashable
    ) -> tuple[World, Any]:
        cell, result = self.cells.act(world.ranks[rank], act, *args)
        lines = world.lines
        while receivers := [n for n, queue in enumerate(cell.content.worker.outgoing) if queue]:
            for receiver in receivers:
                cell, sent = self.cells.act(cell, take_sent, receiver)
                row = acts.replaced(lines[rank], receiver, lines[rank][receiver] + sent)
                lines = acts.replaced(lines, rank, row)
            cell, _ = self.cells.act(cell, Rank.settle)  # a cut waits until all is sent
        ranks = acts.replaced(world.ranks, rank, cell)
        return world._replace(ranks=ranks, lines=lines), result

    def _ask(self, world: World, rank: int) -> World:
        world = self._act(world, rank, Rank.ask)
        return world._replace(cuts=world.cuts + 1)

    def _end_epoch(self, world: World, rank: int) -> World:
        world = self._act(world, rank, Rank.end_epoch)
        return world._replace(epochs=world.epochs + 1)

    def _read(self, world: World, rank: int, sender: int) -> World:
        message, *rest = world.lines[sender][rank]
        row = acts.replaced(world.lines[sender], rank, tuple(rest))
        world = world._replace(lines=acts.replaced(world.lines, sender, row))
        return self._act(world, rank, Rank.arrived, sender, message)

    def _write(self, world: World, rank: int) -> World:
        world, part = self._acted(world, rank, Rank.take_part)
        message, disk = acts.written(part), world.disk
        for name, content in ((message.state, part.state), (message.rows, part.rows)):
            if name:
                disk, _ = self.cells.act(disk, Disk.write, name, content)
        return self._act(world._replace(disk=disk), rank, Rank.has_written, message)

    def _record(self, world: World) -> World:
        before = world.disk.content.record
        world, record = self._acted(world, 0, self._rank.take_record)
        expected = 1 if before is None else before.number + 1
        assert record.number == expected, f"record {record.number} follows {expected - 1}"
        kept = [*record.states, *(name for names in record.rows.values() for name in names)]
        disk = Disk(dict(world.disk.content.files))
        missing = [name for name in kept if name not in disk.files]
        assert not missing, f"the record names {missing}, which nobody has written"
        disk.commit(record, kept)
        self._require_covered(disk, world, record)
        return world._replace(disk=self.cells.of(disk))

    def _require_covered(self, disk: Disk, world: World, record: CheckpointCommit) -> None:
        taken = record.admission["intake"]["sources"]["a"]["rows"]
        expected = self.setting.counted(taken)
        left: dict[tuple[int, int], Any] = dict(world.read)
        for number, names in record.rows.items():
            for name in names:
                left[number, _writer(name)] = _given(disk, number, name)[2]
        covered: Counter[Group] = Counter()
        for name in record.states:
            for block in disk.files[name]:
                covered.update(dict(block))
        for (number, _), groups in left.items():
            if number <= record.number:
                covered.update(dict(groups))
        assert covered == expected, f"P2: the record covers {covered}, but it should {expected}"

    def _poll(self, world: World, rank: int) -> World:
        world, given = self._acted(world, rank, Rank.poll)
        if given is None:
            return world
        number, owner, groups = given
        for group, count in groups:
            whole = self._expected[group]
            assert count == whole, f"P1: {group} left with {count} of {whole} rows"
        read = dict(world.read)
        before = read.setdefault((number, owner), groups)
        assert before == groups, f"P2: {number, owner} had {before}, then {groups}"
        return world._replace(read=tuple(sorted(read.items())))


def _writer(name: bytes) -> int:
    """Return the rank that has written a file."""
    return int(name.split(b".")[1])


def _given(disk: Disk, number: int, name: bytes) -> Given:
    """Return the rows of a file, as a rank gives them."""
    groups = sorted(group for batch in disk.files[name] for group in batch.groups)
    return number, _writer(name), tuple(groups)
