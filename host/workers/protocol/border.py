"""Interface of a worker's state to the protocol: paper 2's state backend, SSB."""

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
    """State of one worker: changes that it holds as a helper, and merged groups that it leads.

    Streams use ``host/state`` and ``joining``; the model checker has one of a few lines.
    """

    def fold(self, batch: Any, feed: int = 0, first: int = 0) -> Any:
        """Fold rows into the changes; led groups do not change until the seal.

        A single worker has no changes: it folds into the groups that it leads.
        """
        ...

    def seal(self) -> Sequence[Sequence[Buffer]]:
        """End the epoch: return the changes as blocks by leader, and begin from zero.

        This rank's own entries are merged at once, and its list is empty.
        """
        ...

    def merge(self, sender: int, block: Any) -> int:
        """Merge a helper's block into the groups led here; returns its number of entries."""
        ...

    def release(self, limit: Limit) -> SomeRows:
        """Trigger: return output rows of led groups below a limit, and forget these groups."""
        ...

    def cut(self) -> None:
        """Called when all messages from before a cut have arrived, and none from behind it."""
        ...

    def save(self) -> Sequence[Buffer | int]:
        """Return the led groups as a copy that later merges do not change.

        A number n in it stands for all blocks that the nth call, from 0 on, has returned.
        """
        ...

    def load(self, blocks: Iterable[Any], size_then: int) -> object:
        """Load the groups that this rank leads now from a part of one of ``size_then`` workers."""
        ...
