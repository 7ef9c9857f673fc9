"""The state behind a worker, as far as the protocol knows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ...emit.groups.closing import Limit

#: Bytes of a block: whatever ``memoryview`` takes.
Buffer = bytes | bytearray | memoryview

#: Turns the clock's time into the time key below which groups are complete; never falls.
LimitOf = Callable[[int], Limit]


class SomeRows(Protocol):
    """Output rows, such as a record batch."""

    @property
    def num_rows(self) -> int: ...


class FoldingState(Protocol):
    """Partial groups of one worker, and the merged groups of the partitions that it leads.

    ``host/state`` has the one that streams use; the model checker has one of a few lines.
    """

    def fold(self, batch: Any, feed: int = 0, first: int = 0) -> Any:
        """Fold rows into partial groups; of what is led, nothing changes until the seal.

        A worker alone has no partial groups: it folds into what it leads.
        """
        ...

    def seal(self) -> Sequence[Sequence[Buffer]]:
        """End the epoch: its blocks by leader, and partial groups that begin from zero.

        This rank's own entries are merged at once, and its list is empty.
        """
        ...

    def merge(self, sender: int, block: Any) -> int:
        """Merge a block of another worker into what this one leads; returns its entries."""
        ...

    def release(self, limit: Limit) -> SomeRows:
        """Output rows of led groups below a limit, which are forgotten."""
        ...

    def cut(self) -> None:
        """All that was sent before a cut is here, of all workers, and nothing from behind it."""
        ...

    def save(self) -> Sequence[Buffer | int]:
        """What is led, as a copy that later merges do not change.

        A number n stands for all blocks of its own that the nth call, from 0 on, has returned.
        """
        ...

    def load(self, blocks: Iterable[Any], size_then: int) -> object:
        """Take back what this rank leads now out of what one of ``size_then`` workers saved."""
        ...
