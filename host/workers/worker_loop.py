"""Loop of one worker: one thread that folds, sends, merges and releases.

It is the paper's coroutine scheduler: no step waits while another can go on (paper 2, section 5.3).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from ..channel import Doorbell
from .counts import CountingPairs, EpochState, WorkerCounts
from .job import Job
from .peers import PeerChannels, PeerLinks
from .points import reached
from .protocol.messages import DealtRows, Mark, Message, Note, OutputRows, PartWritten
from .protocol.worker import Worker
from .upstream import Upstream, WorkerStatus
from .writing import PartWriter

#: Input bytes after which an epoch ends (paper 2, section 7.2).
EPOCH_BYTES = 64 << 20
#: Bytes of results that wait for room above which a worker takes no further rows.
_MOST_WAITING = 64 << 20
#: Bytes of results in one message, before each of which the parent looks for room.
_MESSAGE_BYTES = 4 << 20
#: Seconds after which an epoch may end to let a window close although more rows are ready: each
#: end costs a message per worker.
_CLOSE_S = 0.005
#: Seconds between two statuses.
_STATUS_S = 0.2
#: Seconds that a worker sleeps at most before it looks again.
_LOOK_S = 1.0


class WorkerLoop:
    """The loop of one worker.

    Parameters
    ----------
    job : Job
    worker : Worker
        Its state is an :class:`EpochState`.
    peers : sequence of PeerChannels or None
        By rank; None for its own.
    upstream : Upstream
    bell : Doorbell
        Of this process.
    number : int
        Of the last record, 0 without one.
    writer : PartWriter or None
        None without checkpoints.
    on_note : callable, optional
        As for :class:`~.peers.PeerLinks`.
    """

    def __init__(
        self,
        job: Job,
        worker: Worker,
        state: EpochState,
        peers: Sequence[PeerChannels | None],
        upstream: Upstream,
        bell: Doorbell,
        number: int,
        writer: PartWriter | None,
        on_note: Callable[[int, Note], None] | None = None,
    ) -> None:
        self.worker = worker
        self.state = state
        self.counts = WorkerCounts()
        self._peers = PeerLinks(peers, on_note)
        self._upstream = upstream
        self._bell = bell
        self._writer = writer
        self._latency_s = job.latency_s
        self._epoch_bytes = job.epoch_bytes
        self._traces = job.traces
        self._spare_bytes = job.spare_bytes
        self._spans: list[tuple[str, float, float, dict[str, float]]] = []
        self._held: Message | None = None
        self._since: float | None = None  # when the first row of the epoch came
        self._ended = time.monotonic()
        self._took_s = 0.0
        self._reported_at = self._ended
        self._is_news = False
        #: Number of the results that may be given: the part of the number before went ahead.
        self._number = number + 1
        self._parts: list[PartWritten] = []

    def run(self) -> None:
        """Work until upstream is closed.

        Raises
        ------
        PenstockError
            The worker cannot go on.
        ProcessGoneError
            A process that the doorbell watches has ended.
        """
        while not self._upstream.closed:
            if not self.step():
                self._bell.wait(self.is_ready, self.sleep_s())

    def step(self) -> bool:
        """Do all that is possible without waiting; returns whether anything was done."""
        moved = self._peers.send(self.worker)
        moved |= self._peers.serve(self.worker, self._merged)
        if self.worker.should_release(is_idle=not moved):
            self._release()
            moved = True
        moved |= self._give()
        moved |= self._take()
        moved |= self._end_epoch()
        return moved

    def send(self) -> bool:
        """Send queued messages to other workers; returns whether anything was sent."""
        return self._peers.send(self.worker)

    def can_send(self) -> bool:
        """Whether credits have come for a message that waits."""
        return self._peers.can_send()

    # Messages to the parent.

    def _give(self) -> bool:
        moved = self._upstream.pump()
        worker = self.worker
        while worker.parts:
            part = worker.parts.popleft()
            moved = True
            if self._writer is None:
                self._parts.append(PartWritten(part.incarnation, part.number, b"", b""))
            else:
                self._writer.write(part)
        if self._writer is not None and (written := self._writer.take()) is not None:
            self._parts.append(written)
        while self._upstream.may_give:
            # Rows of a number go before its part, and none of the next one.
            if worker.results and worker.results[0].number == self._number:
                self._upstream.give(self._next_results())
            elif self._parts:
                self.counts.checkpoint = self._parts[0].number
                self._tell(time.monotonic())
                if not self._upstream.may_give:
                    break
                part = self._parts.pop(0)
                self._number = part.number + 1
                self._upstream.give(part)
            else:
                break
            moved = True
        now = time.monotonic()
        if self._is_news and now - self._reported_at >= _STATUS_S and self._upstream.may_give:
            self._tell(now)
        return moved

    def _next_results(self) -> OutputRows:
        """Take the next message of results; many rows are cut into several messages."""
        results = self.worker.results
        message = results.popleft()
        body = message.body
        most = max(1, body.num_rows * _MESSAGE_BYTES // max(body.nbytes, 1))
        if body.num_rows > most:
            results.appendleft(replace(message, body=body.slice(most)))
            message = replace(message, body=body.slice(0, most))
        return message

    def _tell(self, now: float) -> None:
        counts, worker = self.counts, self.worker
        if self._spare_bytes is not None and self.state.nbytes > self._spare_bytes:
            self.state.trim()
        counts.rows, counts.epochs, counts.merged = worker.rows, worker.epoch, worker.merged
        counts.delta_bytes = self._peers.delta_bytes
        counts.credit_waits = self._peers.credit_waits
        counts.entries, counts.state_bytes = self.state.entries, self.state.nbytes
        counts.lag = worker.clock.lag(worker.rank)
        if isinstance(self.state, CountingPairs):
            counts.note_pairs(self.state.pairs)
        spans, self._spans = tuple(self._spans), []
        self._upstream.give(WorkerStatus(asdict(counts), spans))
        self._reported_at, self._is_news = now, False

    # Messages from the parent.

    def _take(self) -> bool:
        if not self._can_take():
            return False
        message = self._held or self._upstream.take()
        if message is None:
            return False
        if not self.worker.may_take(message):
            self._held = message
            return False
        if isinstance(message, DealtRows):
            reached("fold")
            if self._since is None:
                self._since = time.monotonic()
        elif isinstance(message, Mark):
            reached("mark")
            self._note_end(time.monotonic())
        folded = self.worker.take_dealt(message)
        if folded is not None:
            self.counts.filtered += folded.filtered
            self.counts.timeless += folded.without_time
        if isinstance(message, Mark):
            self.counts.cover()
        self._held = None
        self._upstream.done()
        self._is_news = True
        return True

    def _can_take(self) -> bool:
        """Whether the parent's next message may be taken."""
        if self._held is not None:
            return self.worker.may_take(self._held)
        if self.state.pending_bytes >= self._epoch_bytes:
            return False  # both logs are full: first the last epoch must be on its way
        return sum(r.body.nbytes for r in self.worker.results) < _MOST_WAITING

    # When an epoch ends.

    def _end_epoch(self) -> bool:
        now = time.monotonic()
        if not self.worker.may_end or not self._is_over(now):
            return False
        reached("seal")
        rows, began = self.worker.rows, now
        self.worker.end_epoch()
        self._note_end(now)
        if self._traces:
            self._span("epoch", began, rows=rows)
        return True

    def _release(self) -> None:
        """Trigger: release complete rows, and note how long it takes, which is long in joins."""
        began = time.monotonic()
        self.worker.release()
        self._took_s = time.monotonic() - began

    def _note_end(self, now: float) -> None:
        self._since, self._ended, self._is_news = None, now, True

    def _is_over(self, now: float) -> bool:
        if self.state.pending_bytes >= self._epoch_bytes:
            return True
        if self._latency_s and self._since is not None and now >= self._since + self._latency_s / 2:
            return True
        is_idle = self._held is None and not self._upstream.has_arrived
        waited_s = now - self._ended
        # At most about half of the time goes into steps, so that they grow with the load.
        return (is_idle or waited_s >= max(_CLOSE_S, 2 * self._took_s)) and self.worker.can_close

    def _merged(self, began: float, entries: int) -> None:
        if self._traces:
            self._span("merge", began, entries=entries)

    def _span(self, name: str, began: float, **numbers: float) -> None:
        self._spans.append((name, began, time.monotonic(), numbers))

    # Waiting.

    def is_ready(self) -> bool:
        """Whether :meth:`step` can do something."""
        if self._peers.is_ready(self.worker):
            return True
        if self._writer is not None and self._writer.has_written:
            return True
        if self._upstream.pump():
            return True
        return self._held is None and self._can_take() and self._upstream.has_arrived

    def sleep_s(self) -> float:
        """Return for how many seconds nothing is due."""
        now, left = time.monotonic(), _LOOK_S
        if self._latency_s and self._since is not None:
            left = min(left, self._since + self._latency_s / 2 - now)
        if self._is_news:
            left = min(left, self._reported_at + _STATUS_S - now)
        return max(left, 0.0)
