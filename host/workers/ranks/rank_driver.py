"""Driver of a rank: runs its worker, and the cuts that all ranks make together.

A rank is a stream's process and a worker at once, in one thread: rows pushed here are folded here.
It runs the state machines of local workers. Each rank has a parent of one worker, which agrees on
cuts with the others by notes on the channels between workers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.errors import PenstockError

from ...channel import Doorbell, ProcessGoneError
from ...execute.trace import Trace
from ..commits import RecordWriter, commit_of
from ..counts import EpochState, Statuses
from ..driving import StreamDriver
from ..job import Job
from ..points import reached
from ..protocol.messages import Message, Note, OutputRows, PartWritten
from ..protocol.parent import Parent
from ..protocol.worker import Worker
from ..records.record import Record
from ..results import PolledPart
from ..upstream import Upstream, WorkerStatus
from ..worker_loop import WorkerLoop
from ..writing import PartWriter
from .other import OtherRank, lost
from .rank_parent import RankParent

#: Seconds for which a rank that ends tries to tell the others: in order, or with an error.
_LEAVE_S, _ABANDON_S = 20.0, 1.0
#: Seconds that a part may take to be written when the stream ends.
_LAST_PART_S = 600.0


class RankUpstream(Upstream):
    """Upstream of a rank's worker: the rank's own :class:`Parent`, in the same thread.

    Parameters
    ----------
    parent : Parent
        Of one worker.
    give : callable
        Takes the worker's results, parts and statuses.
    may_give : callable
        Whether ``give`` may be called now.
    """

    def __init__(
        self,
        parent: Parent,
        give: Callable[[OutputRows | PartWritten | WorkerStatus], None],
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

    def give(self, message: OutputRows | PartWritten | WorkerStatus) -> None:
        self._give(message)

    def pump(self) -> bool:
        return False


class RankDriver(StreamDriver):
    """Driver of one rank of a stream.

    Parameters
    ----------
    job : Job
    worker : Worker
        With its share of the last record loaded.
    state : EpochState
        Of the worker.
    peers : sequence of OtherRank or None
        By rank; None for itself.
    bell : Doorbell
        Of this process.
    last : Record or None
        To go on from.
    recorded : sequence of PolledPart
        Unacknowledged rows of the record that this rank gives again.
    records : RecordWriter or None
        At rank 0 with a checkpoint.
    wake : callable
        Rings ``bell``, from any thread.
    now : bool
        Whether rows leave before the record that covers them.
    lease_s : float
        Seconds for which another rank may take none of the messages sent to it.
    trace : Trace
    """

    def __init__(
        self,
        job: Job,
        worker: Worker,
        state: EpochState,
        peers: Sequence[OtherRank | None],
        bell: Doorbell,
        last: Record | None,
        recorded: Sequence[PolledPart],
        records: RecordWriter | None,
        *,
        wake: Callable[[], None],
        now: bool,
        lease_s: float,
        trace: Trace,
    ) -> None:
        kept = {} if last is None or worker.rank else last.counts
        commit, saves = None if last is None else commit_of(last), job.folder is not None
        parent = RankParent(worker.rank, job.size, saves=saves, now=now, last=commit)
        super().__init__(parent, Statuses(job.size, kept), (worker.rank,), records, trace)
        self.job, self.parent = job, parent
        self.rank = self.feed = worker.rank
        self.admission = None if last is None else last.admission
        self.recorded = recorded
        self._worker = worker
        self._peers, self._bell = peers, bell
        self._lease_s = lease_s
        self._writer = None if job.folder is None else PartWriter(job.folder, wake)
        self._may_receive: Callable[[], bool] = lambda: True
        self._is_gone = False
        self._loop = WorkerLoop(
            job,
            worker,
            state,
            [None if peer is None else peer.channels for peer in peers],
            RankUpstream(parent, self._give, self._may_give),
            bell,
            parent.committed,
            self._writer,
            lambda rank, note: self._heard(rank, json.loads(note.body)),
        )

    def on_begin(self) -> None:
        """Hook: the stream cuts, handing its intake's state to :attr:`parent`."""

    def on_begun_feed(self, rank: int, alias: str, feed: str) -> None:
        """Hook: another rank has begun a feed of a source."""

    def acknowledged(self) -> int:
        """Hook: return the number up to which the caller has taken all rows of this rank."""
        return self.parent.acknowledged

    def begin_feed(self, alias: str, feed: str) -> None:
        """Tell the others that a feed of a source is this rank's."""
        self._say_all(say="feed", source=alias, feed=feed)

    def _say(self, rank: int, **note: Any) -> None:
        body = json.dumps(note).encode()
        self._worker.outgoing[rank].append(Note(self._worker.incarnation, body))

    def _say_all(self, **note: Any) -> None:
        for rank, _ in self._other_ranks():
            self._say(rank, **note)

    def _other_ranks(self) -> list[tuple[int, OtherRank]]:
        """Return the other ranks that have not left."""
        peers = enumerate(self._peers)
        return [(rank, peer) for rank, peer in peers if peer is not None and not peer.has_left]

    def _heard(self, rank: int, note: dict[str, Any]) -> None:
        match note["say"]:
            case "feed":
                self.on_begun_feed(rank, note["source"], note["feed"])
            case "left":
                self._left(rank, note["why"])
            case _:
                before = self.parent.committed
                if self.parent.heard(rank, note):
                    self.on_begin()
                if self.parent.committed > before:
                    self.committed_at = time.monotonic()

    def _left(self, rank: int, why: str) -> None:
        peer = self._peers[rank]
        assert peer is not None
        peer.has_left = True
        peer.link.unwatch()
        if why:
            raise lost(rank, self.job, f"has ended its stream: {why}")

    # One turn.

    def step(self, may_receive: Callable[[], bool]) -> bool:
        if self._is_gone:
            return False
        self._may_receive = may_receive
        parent = self.parent
        moved = self._loop.step()
        if parent.has_part(0):
            moved |= parent.give_part(self.acknowledged(), self.statuses.covered())
        moved |= self._commit()
        if parent.is_due:
            self.on_begin()
        moved |= bool(parent.notes)
        while parent.notes:
            rank, note = parent.notes.popleft()
            if rank == self.rank:
                self._heard(rank, note)
            else:
                self._say(rank, **note)
        return moved

    def _give(self, message: OutputRows | PartWritten | WorkerStatus) -> None:
        is_status = isinstance(message, WorkerStatus)
        self._arrived(self.rank if is_status else 0, message)

    def _may_give(self) -> bool:
        return not self.parent.has_part(0) and self._may_receive()

    def _counts(self) -> Mapping[str, int]:
        return self.parent.counts()

    # Losses and the end.

    def check(self, now: float) -> bool:
        for rank, peer in [] if self.parent.is_over or self._is_gone else self._other_ranks():
            if peer.link.has_ended:
                while self._worker.may_read(rank) and peer.channels.consumer.has_arrived:
                    self._loop.step()  # messages from before its end
            if peer.has_left or self.parent.is_over:
                continue
            if how := peer.how_it_is_lost(now, self._lease_s):
                raise lost(rank, self.job, how)
        return False

    def close(self) -> None:
        self._leave("", _LEAVE_S)

    def kill(self) -> None:
        self._leave("look at what it said", 0.0)

    def abandon(self, error: Exception) -> None:
        """Tell the others of an error, and end."""
        self._leave(str(error), _ABANDON_S)

    def _leave(self, why: str, timeout_s: float) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        for rank, note in self.parent.notes:  # that the last cut is over, perhaps
            if rank != self.rank:
                self._say(rank, **note)
        self._say_all(say="left", why="" if self.parent.is_over else why)
        deadline = time.monotonic() + timeout_s
        with suppress(PenstockError):
            while not self._have_heard() and (left := deadline - time.monotonic()) > 0:
                with suppress(ProcessGoneError):  # the others are to hear it all the same
                    self._bell.wait(self._can_go_on, left)
        for _, peer in self._other_ranks():
            peer.link.unwatch()
        if self._writer is not None:  # nobody else may use the folder before
            self._writer.close(_LAST_PART_S)

    def _can_go_on(self) -> bool:
        return self._loop.can_send() or self._have_heard()

    def _have_heard(self) -> bool:
        """Send queued messages; returns whether all living ranks have got theirs."""
        self._loop.send()
        is_unsent = False
        for rank, peer in self._other_ranks():
            if peer.link.has_ended:
                peer.has_left = True
                peer.link.unwatch()
            elif self._worker.outgoing[rank] or not peer.link.is_flushed():
                is_unsent = True
        return not is_unsent

    def is_ready(self, may_receive: bool) -> bool:
        return not self._is_gone and (bool(self.parent.notes) or self._loop.is_ready())

    def sleep_s(self) -> float:
        return self._loop.sleep_s()
