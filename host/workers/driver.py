"""Driver of local workers: deals, receives, cuts, commits, and restarts them after a loss.

It runs the protocol's machine (:class:`~.protocol.parent.Parent`) with processes, channels, files
and clocks, in the stream's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow as pa

from penstock.errors import LostError, ProcessError

from ..channel import Doorbell
from ..execute.trace import Trace
from .commits import RecordWriter, commit_of, rows_in, start_of
from .counts import Statuses
from .driving import StreamDriver
from .job import Job
from .local.crew import Crew, StartError
from .points import reached
from .protocol.parent import Parent

_log = logging.getLogger("penstock.workers")

#: Most messages that wait for one worker while others are dealt rows: then it holds back all.
_MOST_QUEUED = 64
#: Losses without a record in between after which the stream ends.
_MOST_LOSSES = 5
#: Attempts to start if a worker ends while it begins, by which nothing is lost.
_MOST_STARTS = 3
#: Messages taken from one worker before others get their turn.
_TURN = 16


class Driver(StreamDriver):
    """Driver of a stream's workers, which are child processes on this machine.

    Parameters
    ----------
    job : Job
    facts : mapping of str to str
        Facts that must be the same on all members.
    schema : pyarrow.Schema
        Of output rows, with the hidden columns that decide their order.
    records : RecordWriter or None
        None without checkpoints.
    now : bool
        Whether rows leave before the record that covers them.
    lease_s : float
        Seconds for which a worker may take none of the messages sent to it.
    bell : Doorbell
        Of this process.
    trace : Trace
    """

    def __init__(
        self,
        job: Job,
        facts: dict[str, str],
        schema: pa.Schema,
        records: RecordWriter | None,
        *,
        now: bool,
        lease_s: float,
        bell: Doorbell,
        trace: Trace,
    ) -> None:
        last = None if records is None else records.last()
        commit, rows = None, {}
        if records is not None and last is not None:
            commit, rows = commit_of(last), rows_in(records.folder, last, schema)
        super().__init__(
            Parent(job.size, saves=records is not None, now=now, last=commit, rows=rows),
            Statuses(job.size, {} if last is None else last.counts),
            range(job.size),
            records,
            trace,
        )
        self.job = job
        self.admission = None if last is None else last.admission
        self.recorded_rows = rows
        self.lease_s = lease_s
        self._facts, self._schema, self._bell = facts, schema, bell
        self._losses_in_a_row = 0
        self._crew: Crew | None = None

    # Processes.

    def start(self) -> None:
        """Start the workers from the last record, in a thread that lives as long as they do."""
        starts = [start_of(self.job, rank, self.parent) for rank in range(self.job.size)]
        lock = None if self._records is None else self._records.folder.lock
        for attempt in range(1, _MOST_STARTS + 1):
            is_first = attempt == 1 and not self.losses
            try:
                self._crew = Crew(starts, self._facts, self._schema, self._bell, lock, is_first)
                return
            except StartError:
                if attempt == _MOST_STARTS:
                    raise

    @property
    def pids(self) -> list[int]:
        """Processes of the workers, by rank; none once they have ended."""
        return [] if self._crew is None else self._crew.pids

    def close(self) -> None:
        """Let the workers end by themselves."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None

    def kill(self) -> None:
        """Kill the workers."""
        if self._crew is not None:
            self._crew.kill()
            self._crew = None

    # One turn.

    def step(self, may_receive: Callable[[], bool]) -> bool:
        """Do all that is possible without waiting; returns whether anything was done.

        Parameters
        ----------
        may_receive : callable
            Whether there is room for results. If not, no rows are dealt either: their results would
            wait in the workers.

        Raises
        ------
        LostError
            A worker is lost, and there is no checkpoint to go back to.
        PenstockError
            A worker says that it cannot go on, or a record cannot be written.
        """
        crew = self._crew
        if crew is None:
            return False
        moved = crew.pump()
        moved |= self._send(crew)
        if may_receive():
            moved |= self._deal(crew)
            moved |= self._receive(crew, may_receive)
        return moved | self._commit()

    def _deal(self, crew: Crew) -> bool:
        moved, queues = False, self.parent.outgoing
        while self.parent.waiting:
            free = [r for r, queue in enumerate(queues) if not queue and crew.may_send(r)]
            if not free or max(map(len, queues)) >= _MOST_QUEUED:
                break
            reached("deal")
            self.parent.deal(max(free, key=crew.credits))
            moved |= self._send(crew)
        return moved

    def _send(self, crew: Crew) -> bool:
        moved = False
        for rank, queue in enumerate(self.parent.outgoing):
            while queue and crew.may_send(rank):
                crew.send(rank, queue.popleft())
                moved = True
        return moved

    def _receive(self, crew: Crew, may_receive: Callable[[], bool]) -> bool:
        moved = False
        for rank in range(self.job.size):
            for _ in range(_TURN):
                # Messages behind a worker's part are of the next number: they wait for the record.
                if self.parent.has_part(rank) or not may_receive():
                    break
                if (message := crew.receive(rank)) is None:
                    break
                self._arrived(rank, message)
                moved = True
        return moved

    def _commit(self) -> bool:
        has_committed = super()._commit()
        if has_committed:
            self._losses_in_a_row = 0
        return has_committed

    # Losses.

    def check(self, now: float) -> bool:
        """Look for lost workers; returns whether all were restarted since one is lost.

        Raises
        ------
        PenstockError
        """
        crew = self._crew
        if crew is None:
            return False
        ended = crew.ended()
        for rank in ended:
            if (error := crew.error_of(rank)) is not None:
                raise error
        if ended:
            return self._again(ended[0], crew.how_it_ended(ended[0]))
        late = [(s, rank) for rank, s in crew.stalled(now) if s > self.lease_s]
        if late:
            seconds, rank = max(late)
            how = (
                f"worker {rank} (process {crew.pids[rank]}) has taken nothing for {seconds:.3g} s, "
                f"longer than its lease of {self.lease_s:g} s: it is stopped, or hangs"
            )
            return self._again(rank, how)
        return False

    def _again(self, rank: int, how: str) -> bool:
        """Restart all workers from the last record, with new rings."""
        self.kill()
        while self._crew is None:
            self.losses += 1
            self._losses_in_a_row += 1
            try:
                self.parent.recover(rank)
            except LostError as lost:
                raise LostError(f"{how}; {lost}") from None
            _log.info("%s; all workers start again from the last record", how)
            if self._losses_in_a_row > _MOST_LOSSES:
                raise ProcessError(
                    f"{how}, as {_MOST_LOSSES} others before, without a record in between; look "
                    "at what ends them (memory, perhaps), and open the stream again"
                )
            self.statuses.begin_again()
            reached("restart")
            try:
                self.start()
            except StartError as error:
                how = str(error)
        return True

    # Waiting.

    def is_ready(self, may_receive: bool) -> bool:
        """Whether :meth:`step` can do something."""
        crew = self._crew
        if crew is None:
            return False
        if may_receive and any(
            not self.parent.has_part(rank) and crew.has_arrived(rank)
            for rank in range(self.job.size)
        ):
            return True
        return crew.can_pump()
