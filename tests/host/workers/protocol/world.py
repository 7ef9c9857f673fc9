"""What a system of workers is given, and all that there is of it at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.host.workers.protocol.commit import CheckpointCommit
from penstock.host.workers.protocol.messages import Message
from tests.host.workers.protocol.cells import Cell
from tests.host.workers.protocol.tally import Group, counted

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
    epochs : int
        Epochs that end before a mark, of all workers together.
    deaths : int
        Workers that are killed.
    restarts : tuple of int
        How many workers there are after each time that all processes are killed.
    saves, now : bool
        As the parent has them.
    is_lazy : bool
        Whether messages between parent and workers, and each block, wait for a step of their own.
        Otherwise they are taken when they are sent, but for marks: that commutes with all other
        steps, so it hides no mistake and leaves far fewer states.
    is_prompt : bool
        Whether complete groups leave at once. Otherwise that is a step of its own, which may come
        late.
    shares_steps : bool
        As workers have it.
    begins : tuple of str
        The first steps, where not all are to be tried.
    """

    size: int = 2
    keys: int = 2
    items: tuple[Item, ...]
    cuts: int = 0
    epochs: int = 3
    deaths: int = 0
    restarts: tuple[int, ...] = ()
    saves: bool = True
    now: bool = False
    is_lazy: bool = False
    is_prompt: bool = False
    shares_steps: bool = False
    begins: tuple[str, ...] = ()

    def counted(self, items: int | None = None) -> Counter[Group]:
        """What a run in one place counts of the first items; of all by default."""
        batches = [given for _, given in self.items[:items] if not isinstance(given, int)]
        return counted(row for rows in batches for row in rows)


class World(NamedTuple):
    """All that there is at one moment.

    Parameters
    ----------
    parent : Cell of Parent
    workers : tuple of Cell of Worker
    above : tuple of tuple of Message
        From each worker to the parent, in order.
    disk : Cell of Disk
    pushed : int
        Input items that the parent has taken.
    read : tuple of (number, groups)
        What the reader has.
    cuts, epochs, deaths, restarts : int
        How often it happened.
    """

    parent: Cell
    workers: tuple[Cell, ...]
    above: tuple[tuple[Message, ...], ...]
    disk: Cell
    pushed: int = 0
    read: tuple[tuple[int, tuple[Any, ...]], ...] = ()
    cuts: int = 0
    epochs: int = 0
    deaths: int = 0
    restarts: int = 0


@dataclass
class Disk:
    """Files by name, and the last record. A name is written as a whole or not at all."""

    files: dict[bytes, tuple[Any, ...]] = field(default_factory=dict)
    record: CheckpointCommit | None = None

    def write(self, name: bytes, content: tuple[Any, ...]) -> None:
        self.files[name] = content

    def commit(self, record: CheckpointCommit, kept: Iterable[bytes]) -> None:
        """Name the record as the last one, and remove what it does not need."""
        self.record = record
        names = frozenset(kept)
        self.files = {name: held for name, held in self.files.items() if name in names}

    def covered(self, read: tuple[tuple[int, tuple[Any, ...]], ...]) -> Counter[Group]:
        """What the record says that was counted: what is held, or has left up to its number."""
        record = self.record
        assert record is not None
        left = dict(read)
        left |= {n: [g for b in batches for g in b.groups] for n, batches in self.rows().items()}
        total: Counter[Group] = Counter()
        for name in filter(None, record.states):
            for block in self.files[name]:
                total.update(dict(block))
        for number, groups in left.items():
            if number <= record.number:
                total.update(dict(groups))
        return total

    def rows(self) -> dict[int, list[Any]]:
        """Rows that the record says were not acknowledged.

        Raises
        ------
        KeyError
            A file is missing.
        """
        if self.record is None:
            return {}
        return {
            number: [batch for name in names for batch in self.files[name]]
            for number, names in self.record.rows.items()
        }
