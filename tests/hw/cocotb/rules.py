"""What AXI demands of the kernel, checked cycle by cycle; no bus model is involved.

Values come from outside as plain integers, so that the rules themselves can be tested. A rule
that is broken is reported as a sentence that begins with the port's name.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable

#: Where a report goes.
Report = Callable[[str], None]

PAGE_BYTES = 4096
INCR = 1


class Stability:
    """VALID is held until READY, and what comes with it does not change meanwhile.

    Parameters
    ----------
    channel : str
        Name for reports.
    report : callable
    """

    def __init__(self, channel: str, report: Report) -> None:
        self._channel = channel
        self._report = report
        self._held: Hashable = None

    def cycle(self, valid: bool, ready: bool, payload: Hashable) -> None:
        """See one cycle; the payload counts while VALID is high."""
        if self._held is not None:
            if not valid:
                self._report(f"{self._channel}: VALID was dropped before READY")
            elif payload != self._held:
                self._report(f"{self._channel}: the payload changed while it was stalled")
        self._held = payload if valid and not ready else None


class Bursts:
    """Requests and words of one memory port.

    Parameters
    ----------
    port : str
        Name for reports.
    word_bytes : int
        Width of the port.
    most_words : int
        Words that may be on their way to a reader of the port at once.
    most_bursts : int
        Written bursts that may be without an answer.
    report : callable
    """

    def __init__(
        self, port: str, word_bytes: int, most_words: int, most_bursts: int, report: Report
    ) -> None:
        self._port = port
        self._word_bytes = word_bytes
        self._most_words = most_words
        self._most_bursts = most_bursts
        self._tell = report
        self._to_read: Counter[int] = Counter()
        self._to_write: deque[int] = deque()
        self._unanswered = 0
        #: Words read and written, and bursts, to see that there were any.
        self.seen: Counter[str] = Counter()

    def _report(self, what: str) -> None:
        self._tell(f"{self._port}: {what}")

    def request(self, address: int, length: int, size: int, burst: int) -> int:
        """The rules of AR and AW; returns the words of the burst."""
        words = length + 1
        if burst != INCR:
            self._report("a burst that is not INCR")
        if 1 << size != self._word_bytes:
            self._report("a burst of narrow words")
        if address % self._word_bytes:
            self._report("a burst from a misaligned address")
        last = address + words * self._word_bytes - 1
        if address // PAGE_BYTES != last // PAGE_BYTES:
            self._report("a burst across 4 KiB")
        self.seen["bursts"] += 1
        return words

    def read_request(self, ident: int, address: int, length: int, size: int, burst: int) -> None:
        """A handshake of AR."""
        self._to_read[ident] += self.request(address, length, size, burst)
        if self._to_read[ident] > self._most_words:
            self._report("more words were asked for than there is room")

    def read_word(self, ident: int) -> None:
        """A handshake of R."""
        self._to_read[ident] -= 1
        self.seen["read"] += 1

    def write_request(self, address: int, length: int, size: int, burst: int) -> None:
        """A handshake of AW."""
        self._to_write.append(self.request(address, length, size, burst))
        self._unanswered += 1
        if self._unanswered > self._most_bursts:
            self._report("more bursts are without an answer than may be")

    def write_word(self, last: bool, strobe: int) -> None:
        """A handshake of W; AW of the same cycle goes first."""
        self.seen["written"] += 1
        if strobe != (1 << self._word_bytes) - 1:
            self._report("a word with bytes left out")
        if not self._to_write:
            self._report("a word without a request")
            return
        self._to_write[0] -= 1
        if last and self._to_write[0]:
            self._report("WLAST before the last word")
        if not last and not self._to_write[0]:
            self._report("no WLAST with the last word")
        if self._to_write[0] == 0:
            self._to_write.popleft()

    def answer(self) -> None:
        """A handshake of B."""
        self._unanswered -= 1

    def waiting(self, channel: str, valid: bool, ready: bool) -> None:
        """A cycle of R or B: the kernel promises to take at once what it asked for."""
        if valid and not ready:
            self._report(f"{channel}READY was low for an answer")

    def finish(self) -> None:
        """Nothing may be open after a task."""
        if any(self._to_read.values()) or self._to_write or self._unanswered:
            self._report("the task ended before its bursts did")


class Lite:
    """The register file's side of AXI4-Lite: one answer for each access, never before it.

    Parameters
    ----------
    port : str
        Name for reports.
    report : callable
    """

    def __init__(self, port: str, report: Report) -> None:
        self._port = port
        self._report = report
        self._taken: Counter[str] = Counter()

    def handshake(self, channel: str) -> None:
        """An access of AW, W or AR was taken."""
        self._taken[channel] += 1

    def answer(self, channel: str, okay: bool) -> None:
        """An answer on B or R was taken."""
        for asked in ("AW", "W") if channel == "B" else ("AR",):
            self._taken[asked] -= 1
            if self._taken[asked] < 0:
                self._report(f"{self._port}: an answer on {channel} before {asked}")
        if not okay:
            self._report(f"{self._port}: an answer on {channel} that is not OKAY")
