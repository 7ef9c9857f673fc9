"""A process that runs plans of joins, and can be stopped."""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import penstock
from bench.regret.joins import Join, random_join
from bench.regret.plans import CHOSEN, Seen, digest, noting, on_penstock, run

#: CPU seconds for what a plan compiles.
COMPILING_S = 8.0
#: Condition of a join, and the rows of its tables.
About = tuple[str, tuple[int, int]]
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Result:
    """CPU seconds of a run, count and hash of its rows or an error, and what can be chosen."""

    cpu_s: float
    digest: tuple[int, int] | str | None
    seen: Seen


def _serve(pipe: Connection, most_rows: int) -> None:
    """Run the plans that come through a pipe: (seed, plan, whether to give what the rows are)."""
    seen, join = Seen(), None
    while (order := pipe.recv()) is not None:
        seed, plan, is_first = order
        if join is None or join.seed != seed:
            seen, join = Seen(), random_join(seed, most_rows)
        pipe.send((join.on, (join.a.num_rows, join.b.num_rows)))
        try:
            with noting(seen) if is_first and plan == CHOSEN else nullcontext():
                began = time.process_time()
                rows = run(join, plan)
                took = time.process_time() - began
            if is_first and plan == CHOSEN and not seen.evaluations:
                seen.in_duckdb = True
                with noting(seen), on_penstock():
                    _glance(join)
            pipe.send(Result(took, digest(rows) if is_first else None, seen))
        except Exception as error:  # the parent counts it as a failure of this plan
            pipe.send(Result(math.inf, f"{type(error).__name__}: {error}"[:300], seen))


def _glance(join: Join) -> None:
    """Run the join over some of its rows, to see what Penstock can choose."""
    small = {name: table.slice(0, 2000) for name, table in join.tables.items()}
    penstock.sql(join.text, small)


class Runner:
    """A process that runs plans, started anew where one had to be stopped."""

    def __init__(self, most_rows: int) -> None:
        self.most_rows = most_rows
        self.process: SpawnProcess | None = None
        #: Plans that have run in this process.
        self.warm: set[tuple[int, str]] = set()

    def _start(self) -> SpawnProcess:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.most_rows), daemon=True)
        process.start()
        return process

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
        self.process = None
        self.warm.clear()

    def first(self, seed: int, plan: str, limit_s: float) -> tuple[About, Result | None]:
        """Run a plan of a join, and hash its rows; no result if that takes more CPU seconds.

        What is compiled has seconds of its own.
        """
        return self._run(seed, plan, limit_s + COMPILING_S, is_first=True)

    def again(self, seed: int, plan: str, limit_s: float) -> float:
        """CPU seconds of a plan once it is compiled; infinite if it was stopped, or failed."""
        if (seed, plan) not in self.warm and self.first(seed, plan, limit_s)[1] is None:
            return math.inf
        result = self._run(seed, plan, limit_s, is_first=False)[1]
        return math.inf if result is None else result.cpu_s

    def _run(
        self, seed: int, plan: str, limit_s: float, *, is_first: bool
    ) -> tuple[About, Result | None]:
        if self.process is None:
            self.process = self._start()
        self.pipe.send((seed, plan, is_first))
        about = self._received(self.process, math.inf) or ("", (0, 0))
        result = self._received(self.process, _cpu_s(self.process) + limit_s)
        self.warm.add((seed, plan))
        if result is None:
            self.stop()
        return about, result

    def _received(self, process: SpawnProcess, until_s: float) -> Any:
        while not self.pipe.poll(0.05):
            if not process.is_alive() or _cpu_s(process) > until_s:
                return None
        try:
            return self.pipe.recv()
        except EOFError:  # it died, perhaps for want of memory
            return None


def _cpu_s(process: SpawnProcess) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
