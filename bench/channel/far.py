"""The consumer's process of a benchmark: one per contender, for all of its turns."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

from bench.channel.work import PATIENCE_S, Done, Job, Source
from penstock.errors import ProcessError

#: Runs in the far process: a connection to the near one, and the job. It sends what the producer
#: needs, receives all messages, and returns what it has seen.
Consume = Callable[[Connection, Any], Any]


class Producing(Protocol):
    """The near side of a contender."""

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        """Connect, then send all messages of a transfer; when the first one was begun."""
        ...


class Far:
    """A process that consumes.

    Parameters
    ----------
    module, consume : str
        Where its function is.
    """

    def __init__(self, module: str, consume: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.link, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, module, consume), daemon=True)
        self._process.start()
        theirs.close()
        self.pid: int = self._process.pid or 0

    def ask(self, job: Any) -> None:
        """Begin a job."""
        self.link.send(job)

    def tell(self) -> Any:
        """What the process sends next.

        Raises
        ------
        ProcessError
            It has ended, or says nothing for too long.
        """
        try:
            if self.link.poll(PATIENCE_S):
                return self.link.recv()
        except EOFError:
            pass
        raise ProcessError("the consumer of a benchmark has ended or hangs: see above")

    def transfer(self, produce: Producing, job: Job, source: Source) -> tuple[float, Done]:
        """Run a transfer: seconds from the first byte filled to the last one touched."""
        self.ask(job)
        began = produce(self, job, source)
        done = self.tell()
        return (int(done.times_ns[-1]) / 1e9) - began, done

    def close(self) -> None:
        """End the process."""
        self.link.close()
        self._process.join(PATIENCE_S)
        if self._process.is_alive():
            self._process.kill()


def _serve(link: Connection, module: str, consume: str) -> None:
    run: Consume = getattr(importlib.import_module(module), consume)
    while True:
        try:
            job = link.recv()
        except EOFError:
            return
        link.send(run(link, job))
