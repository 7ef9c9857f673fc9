"""Inbox of a stream's thread, which waits for calls and for workers at once."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from ..channel import Doorbell, ProcessGoneError
from .local.wiring import ringer_of

#: Seconds after which a waiting thread looks again.
_LOOK_S = 0.25


class BellInbox:
    """Queue of calls whose reader is also woken by a doorbell.

    Parameters
    ----------
    bell : Doorbell
        Of this process.
    is_ready : callable
        Whether the reader has work other than items.
    on_gone : callable
        Called when a watched process has ended, with its name.
    """

    def __init__(
        self, bell: Doorbell, is_ready: Callable[[], bool], on_gone: Callable[[str], None]
    ) -> None:
        self._bell = bell
        self._ringer = ringer_of(bell)
        self._is_ready = is_ready
        self._on_gone = on_gone
        self._items: SimpleQueue[Any] = SimpleQueue()
        self._is_closed = False

    def put(self, item: Any) -> None:
        """Add an item, and wake the reader."""
        self._items.put(item)
        if not self._is_closed:
            self._ringer.ring()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next item.

        Raises
        ------
        queue.Empty
            There is other work, or the time is over.
        """
        if self._items.empty() and block:
            self.wait(_LOOK_S if timeout is None else min(timeout, _LOOK_S))
        return self._items.get(block=False)

    def wait(self, timeout_s: float) -> None:
        """Wait until there is an item or other work."""
        if self._is_closed:
            return
        try:
            self._bell.wait(lambda: not self._items.empty() or self._is_ready(), timeout_s)
        except ProcessGoneError as gone:
            self._on_gone(gone.name)

    def empty(self) -> bool:
        """Whether there is no item."""
        return self._items.empty()

    def qsize(self) -> int:
        """Return about how many items there are."""
        return self._items.qsize()

    def close(self) -> None:
        """Close the ringer; items can still be put and taken."""
        self._ringer.close()
        self._is_closed = True
