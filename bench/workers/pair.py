"""Processes of workers that make their own input, as a contender: all begin at a word."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd
from typing import Any

from bench.peers.turns import Answer
from bench.workers.mate import Ends, Mate, Stint
from bench.workers.scale import WARM_TURNS
from bench.workers.tasks import Task
from bench.workers.turns import Turn
from penstock.errors import PenstockError
from penstock.host.channel import Doorbell, Ringer, shm
from penstock.host.workers.local.child import keep_memory

WORKERS = 2

#: Slots of 64 KiB of all channels to a worker: they hold the changes of an epoch, so that a worker
#: that folds or gives groups does not stop the others.
_SLOTS, _LEAST_SLOTS = 256, 32

#: Seconds that a process may need for its rows, or for a job.
_PATIENCE_S = 600.0


@dataclass(frozen=True)
class Wiring:
    """Descriptors of all channels and doorbells.

    Parameters
    ----------
    rings : mapping of (sender, receiver) to descriptor
    bells : sequence of pair of descriptor
        By rank.
    """

    rings: dict[tuple[int, int], Any]
    bells: list[tuple[Any, Any]]

    @classmethod
    def create(cls, size: int) -> Wiring:
        """Make channels from each worker to each other, and a doorbell for each."""
        pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
        return cls(
            {
                pair: shm.create(max(_LEAST_SLOTS, _SLOTS // max(1, size - 1))).file
                for pair in pairs
            },
            [Doorbell.create().files for _ in range(size)],
        )

    def of(self, rank: int) -> Wiring:
        """What a worker needs: a new process takes few descriptors."""
        return Wiring({pair: file for pair, file in self.rings.items() if rank in pair}, self.bells)

    def __getstate__(self) -> dict[str, Any]:
        """Copies of the descriptors for a process that is being started."""
        return {
            "rings": {pair: DupFd(file) for pair, file in self.rings.items()},
            "bells": [(DupFd(event), DupFd(file)) for event, file in self.bells],
        }

    def attach(self, rank: int) -> Ends:
        """The ends of a worker's channels, in its own process."""
        rings = {pair: own.detach() for pair, own in self.rings.items()}
        bells = [(event.detach(), file.detach()) for event, file in self.bells]
        ringers = [Ringer(files) for files in bells]
        size = len(bells)
        others = [other if other != rank else None for other in range(size)]
        ends = Ends(
            rank,
            size,
            [
                None if to is None else shm.attach_producer(rings[rank, to], ringers[to].ring)
                for to in others
            ],
            [
                None if of is None else shm.attach_consumer(rings[of, rank], ringers[of].ring)
                for of in others
            ],
            Doorbell.attach(bells[rank]),
        )
        for file in rings.values():
            os.close(file)
        return ends

    def close(self) -> None:
        """Close the descriptors of this process."""
        for file in (*self.rings.values(), *(file for files in self.bells for file in files)):
            os.close(file)


def main(rank: int, line: Connection, wiring: Wiring, job: Task) -> None:
    """A worker's process: makes its rows, and does its job each time it is told to."""
    keep_memory()
    mate = Mate(wiring.attach(rank))
    inputs = job.inputs(rank)
    line.send(None)
    while line.recv():
        line.send(mate.run(job, inputs))


class Pair:
    """Started workers.

    Parameters
    ----------
    job : Job
    lines : list of Connection
        One to each, in order of ranks.
    pids : list of int
    """

    def __init__(self, job: Task, lines: list[Connection], pids: list[int]) -> None:
        self._job = job
        self._lines = lines
        self.pids = pids
        #: What each did last.
        self.stints: list[Stint] = []

    def turn(self) -> Turn:
        """All rows of all workers, from the first one's begin to the last one's end."""
        for line in self._lines:
            line.send(True)
        stints = self.stints = [_reply(rank, line) for rank, line in enumerate(self._lines)]
        seconds = max(own.ended for own in stints) - min(own.began for own in stints)
        rows = sum(own.answer.rows for own in stints)
        # Each worker leads other groups, and checksums of rows are added up.
        checksum = sum(own.answer.checksum for own in stints) % (1 << 64)
        return Turn(seconds, Answer(rows, checksum), sum(own.cpu for own in stints))

    def warm(self) -> Turn:
        """The last of the turns that do not count."""
        return [self.turn() for _ in range(WARM_TURNS)][-1]


@contextmanager
def started(
    job: Task, size: int = WORKERS, main: Callable[[int, Connection, Wiring, Task], None] = main
) -> Iterator[Pair]:
    """Workers whose rows lie in memory; they end with the block.

    Parameters
    ----------
    main : callable
        What a process does.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["bench.workers.mate", "bench.workers.joins", "bench.workers.uppar"]
    )
    wiring = Wiring.create(size)
    processes, lines = [], []
    try:
        for rank in range(size):
            mine, its = context.Pipe()
            process = context.Process(
                target=main, args=(rank, its, wiring.of(rank), job), daemon=True
            )
            process.start()
            its.close()
            processes.append(process)
            lines.append(mine)
        for rank, line in enumerate(lines):
            _reply(rank, line)
        yield Pair(job, lines, [process.pid for process in processes if process.pid])
        for line in lines:
            line.send(False)
        for process in processes:
            process.join(_PATIENCE_S)
    finally:
        for process in processes:
            process.kill()
            process.join()
        wiring.close()


def _reply(rank: int, line: Connection) -> Any:
    if not line.poll(_PATIENCE_S):
        raise PenstockError(f"worker {rank} said nothing for {_PATIENCE_S:g} s")
    try:
        return line.recv()
    except EOFError:
        raise PenstockError(f"worker {rank} has ended; its error is above") from None
