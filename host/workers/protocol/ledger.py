"""What the parent deals to workers, in order, and keeps until a record covers it."""

from __future__ import annotations

from collections import deque

from .messages import DealtRows, Mark, Message


class Ledger:
    """Batches, promises and marks: those that wait to be dealt, and those dealt since the record.

    Parameters
    ----------
    keeps : bool
        Whether what was dealt stays, so that it can be dealt again.
    """

    def __init__(self, keeps: bool) -> None:
        self._keeps = keeps
        self._dealt: deque[tuple[Message, int]] = deque()
        self._waiting: deque[tuple[Message, int]] = deque()
        #: Bytes of batches that wait or are kept.
        self.nbytes = 0

    def add(self, message: Message, nbytes: int = 0) -> None:
        """Let the next message wait."""
        self._waiting.append((message, nbytes))
        self.nbytes += nbytes

    @property
    def head(self) -> Message | None:
        """What is to be dealt next; None if nothing waits."""
        return self._waiting[0][0] if self._waiting else None

    @property
    def waiting(self) -> int:
        """Messages that wait to be dealt."""
        return len(self._waiting)

    @property
    def dealt(self) -> int:
        """Rows' batches dealt since the last record, as far as they are kept."""
        return sum(isinstance(message, DealtRows) for message, _ in self._dealt)

    def deal(self) -> Message:
        """Take out the next message; it is kept."""
        message, nbytes = self._waiting.popleft()
        if self._keeps:
            self._dealt.append((message, nbytes))
        else:
            self.nbytes -= nbytes
        return message

    def cover(self, number: int) -> None:
        """Forget all before a mark, and the mark: a record covers it."""
        while self._dealt:
            message, nbytes = self._dealt.popleft()
            self.nbytes -= nbytes
            if isinstance(message, Mark) and message.number == number:
                return

    def rewind(self) -> None:
        """Let all that is kept wait again."""
        self._dealt.extend(self._waiting)
        self._waiting, self._dealt = self._dealt, deque()
