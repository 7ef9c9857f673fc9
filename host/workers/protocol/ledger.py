"""Messages that the parent deals to workers, kept until a record covers them."""

from __future__ import annotations

from collections import deque

from .messages import Mark, Message


class Ledger:
    """Queue of batches, promises and marks to deal, and of all that were dealt since the record.

    Parameters
    ----------
    keeps : bool
        Whether dealt messages are kept, so that they can be dealt again.
    """

    def __init__(self, keeps: bool) -> None:
        self._keeps = keeps
        self._kept: deque[tuple[Message, int]] = deque()
        self._waiting: deque[tuple[Message, int]] = deque()
        #: Bytes of batches that wait or are kept.
        self.nbytes = 0

    def add(self, message: Message, nbytes: int = 0) -> None:
        """Queue a message."""
        self._waiting.append((message, nbytes))
        self.nbytes += nbytes

    @property
    def head(self) -> Message | None:
        """Next message to deal; None if none waits."""
        return self._waiting[0][0] if self._waiting else None

    @property
    def waiting(self) -> int:
        """Messages that wait to be dealt."""
        return len(self._waiting)

    def deal(self) -> Message:
        """Take out the next message, and keep it."""
        message, nbytes = self._waiting.popleft()
        if self._keeps:
            self._kept.append((message, nbytes))
        else:
            self.nbytes -= nbytes
        return message

    def cover(self, number: int) -> None:
        """Forget a mark and all messages before it: a record covers them."""
        while self._kept:
            message, nbytes = self._kept.popleft()
            self.nbytes -= nbytes
            if isinstance(message, Mark) and message.number == number:
                return

    def rewind(self) -> None:
        """Queue all kept messages again, before the others."""
        self._kept.extend(self._waiting)
        self._waiting, self._kept = self._kept, deque()
