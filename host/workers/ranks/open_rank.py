"""Opening of a stream in a rank, together with all other ranks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from typing import Any

from penstock.errors import ProcessError

from ...channel import Doorbell, spin_seconds
from ...channel.link_maker import LinkMaker, Whereabouts
from ...channel.links import Link, opened
from ...execute.trace import Trace
from ...join.stream.flow import Flow
from ..checkpoint import Checkpoint
from ..commits import RecordWriter, rows_by_rank
from ..compiling import compiled
from ..job import Job, WorkerStart
from ..joining.runs import create_board
from ..local.wiring import ringer_of
from ..members import Workers, as_bytes, require_equal
from ..opening import Opened, records_of
from ..peers import PeerChannels
from ..points import arm
from ..records.folder import shared
from ..records.record import Record, read_record
from ..results import PolledPart, table_of
from ..starting import started_worker
from .other import OtherRank, named
from .rank_driver import RankDriver


class Meeting:
    """Ranks that open a stream together, step by step.

    Parameters
    ----------
    workers : Workers
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def agree(self, do: Callable[[], Any]) -> list[Any]:
        """Run a step in all ranks; return the result of each, which must suit JSON, by rank.

        Raises
        ------
        PenstockError
            The step failed here.
        ProcessError
            The step failed in another rank.
        """
        failed: Exception | None = None
        try:
            answer = {"value": do()}
        except Exception as error:
            failed = error
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers = [json.loads(one) for one in self._workers.exchange(json.dumps(answer).encode())]
        if failed is not None:
            raise failed
        for rank, answer in enumerate(answers):
            if "error" in answer:
                raise ProcessError(f"rank {rank} cannot begin: {answer['error']}")
        return [answer["value"] for answer in answers]


class _Opening:
    """Steps by which a rank opens a stream; all ranks take each step together.

    Parameters
    ----------
    workers : Workers
    owned : ExitStack
        Closed if a step fails, or with the stream.
    """

    def __init__(self, workers: Workers, owned: ExitStack) -> None:
        self.workers, self.owned = workers, owned
        self.job: Job
        #: At rank 0 with a checkpoint.
        self.records: RecordWriter | None = None
        self.last: Record | None = None
        self.bell: Doorbell
        self.peers: list[OtherRank | None] = [None] * workers.size
        self._whereabouts = Whereabouts.of_this_process(workers.place)
        self._where: list[Whereabouts]
        self._links: dict[int, Link] = {}

    def compile(self, job: Job) -> dict[str, Any]:
        """Compile the query; rank 0 locks the checkpoint and looks for its last record."""
        self.job = job
        arm(str(self.workers.rank))
        self.work = work = self.owned.enter_context(closing(compiled(job)))
        if self.workers.rank == 0:
            self.records = records_of(job, work, self.owned)
        last = None if self.records is None else self.records.last()
        number = 0 if last is None else last.number
        facts = as_bytes(job.facts(work.fingerprint)).decode()
        self._board = create_board()
        self.owned.callback(os.close, self._board)
        where = asdict(self._whereabouts)
        return {"facts": facts, "number": number, "where": where, "board": self._board}

    def compare(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Check that all ranks run the same query, and note where each is."""
        require_equal([one["facts"].encode() for one in answers])
        self._number = answers[0]["number"]
        self._where = [Whereabouts(**one["where"]) for one in answers]
        place = self._whereabouts.place
        local = [rank for rank, one in enumerate(self._where) if one.place == place]
        self._spin_s = spin_seconds(len(local))
        self._boards = [(self._where[rank].process, answers[rank]["board"]) for rank in local]

    def offer(self) -> list[str | None]:
        """Read the record, and make this rank's end of all channels."""
        if self.job.folder is not None:
            self.owned.callback(os.close, shared(self.job.folder))
            if self._number:
                self.last = read_record(self.job.folder, self._number)
        self.bell = Doorbell.create(self._spin_s, is_offered=True)
        self.owned.callback(self.bell.close)
        maker = LinkMaker(self.bell, self._whereabouts, spins=self._spin_s > 0)
        self.owned.callback(maker.close)
        for rank, where in enumerate(self._where):
            if rank != self.workers.rank:
                self._links[rank] = maker.link(where, f"rank {rank}")
        ranks = range(self.workers.size)
        return [self._links[r].offer().hex() if r in self._links else None for r in ranks]

    def connect(self, offers: Sequence[Sequence[str]]) -> None:
        """Connect to all others, and load this rank's share of the record."""
        for rank, link in self._links.items():
            offered = bytes.fromhex(offers[rank][self.workers.rank])
            channels = PeerChannels(*link.connect(offered))
            about = named(self._where[rank], self._whereabouts)
            self.peers[rank] = OtherRank(about, link, channels)
        self._load()
        self.recorded = self._recorded()

    def _load(self) -> None:
        job, rank, last = self.job, self.workers.rank, self.last
        board = opened(*self._boards[0])  # of the lowest rank of this place
        try:
            self.work.share(board, len(self._boards))
        finally:
            os.close(board)
        states, size_then = ((), 0) if last is None else (last.states, last.size)
        incarnation = 1 if last is None else last.incarnation + 1
        start = WorkerStart(job, rank, incarnation, self._number, {}, states, size_then)
        self.worker, self.state = started_worker(self.work, start)

    def _recorded(self) -> list[PolledPart]:
        """Read the record's unacknowledged rows that this rank gives again."""
        job, workers = self.job, self.workers
        if self.last is None or job.folder is None:
            return []
        is_own = lambda rank: rank % workers.size == workers.rank  # noqa: E731
        parts = rows_by_rank(job.folder, self.last, self.work.hidden, is_own)
        return [
            PolledPart(number, rank, table_of(rows, self.work.output, job.ordered))
            for number, rank, rows in parts
        ]

    def connected(self) -> None:
        """Release resources that only connecting needed."""
        for link in self._links.values():
            link.connected()


def open_rank(
    job_of_rank: Callable[[], Job],
    workers: Workers,
    flow: Flow,
    checkpoint: Checkpoint | None,
    now: bool,
) -> Opened:
    """Open a stream in this rank, while all other ranks do the same.

    Raises
    ------
    PenstockError
        This rank cannot begin.
    ProcessError
        Another one cannot, or runs something else.
    """
    meeting = Meeting(workers)
    with ExitStack() as owned:
        # Whatever fails here fails in all ranks: none waits for one that has given up.
        opening = _Opening(workers, owned)
        opening.compare(meeting.agree(lambda: opening.compile(job_of_rank())))
        offers = meeting.agree(opening.offer)
        meeting.agree(lambda: opening.connect(offers))
        opening.connected()
        job = opening.job
        ringer = ringer_of(opening.bell)
        owned.callback(ringer.close)
        driver = RankDriver(
            job,
            opening.worker,
            opening.state,
            opening.peers,
            opening.bell,
            opening.last,
            opening.recorded,
            opening.records,
            wake=ringer.ring,
            now=now,
            lease_s=flow.running.timeout_s,
            trace=Trace(job.traces),
        )
        return Opened(opening.work, flow, checkpoint, now, opening.bell, driver, owned.pop_all())
