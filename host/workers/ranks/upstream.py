"""Where the worker of a rank gets its rows: from the stream in the same thread."""

from __future__ import annotations

from collections.abc import Callable

from ..points import reached
from ..protocol.messages import Message, OutputRows, PartWritten
from ..protocol.parent import Parent
from ..upstream import Status, Upstream


class RankUpstream(Upstream):
    """Deals what a rank's own parent machine has, and gives back what the worker makes of it.

    Parameters
    ----------
    parent : Parent
        Of one worker.
    give : callable
        Takes what the worker gives.
    may_give : callable
        Whether it takes something now.
    """

    def __init__(
        self,
        parent: Parent,
        give: Callable[[OutputRows | PartWritten | Status], None],
        may_give: Callable[[], bool],
    ) -> None:
        self._parent = parent
        self._give = give
        self._may_give = may_give

    @property
    def has_arrived(self) -> bool:
        return bool(self._parent.outgoing[0] or self._parent.waiting)

    def take(self) -> Message | None:
        queue = self._parent.outgoing[0]
        if not queue and self._parent.waiting:
            reached("deal")
            self._parent.deal(0)
        return queue.popleft() if queue else None

    def done(self) -> None:
        pass

    @property
    def may_give(self) -> bool:
        return self._may_give()

    def give(self, message: OutputRows | PartWritten | Status) -> None:
        self._give(message)

    def pump(self) -> bool:
        return False
