"""Kills workers that Spark has placed, and executors, and sees that no row is lost.

``python -m tests.host.workers.kit.chaos --spark`` (``make chaos-workers ARGS=--spark``). A round is
a program of :mod:`.workers_app` on two executors, in which one process is killed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from penstock.host.workers.points import RANK_POINTS
from tests.host.workers.kit.app import sunk
from tests.host.workers.kit.cases import CASES
from tests.spark_bridge.kit.apps import ended_of, run_app
from tests.spark_bridge.kit.workers_app import BATCHES

#: Seconds for one program.
PATIENCE_S = 300.0
#: Points of rank 0 alone; worker 1 is the one that is killed.
_ELSEWHERE = ("record", "committed", "restore")


@dataclass
class SparkRound:
    """One program.

    Parameters
    ----------
    folder : Path
        Empty.
    seed : int
        Of the rows.
    case : str
        One of :data:`tests.host.workers.kit.cases.CASES`.
    """

    folder: Path
    seed: int
    case: str = "groups"
    killed: list[str] = field(default_factory=list)
    starts: int = 0

    def run(self, targets: list[str]) -> None:
        """Kill the first of some targets."""
        self.starts += 1
        master = "local-cluster[2,1,1024]"
        arguments = master, str(self.folder), str(self.seed), self.case, targets[0]
        done = run_app("workers_app", *arguments, timeout_s=PATIENCE_S)
        if "PIDS" not in done.stdout:
            raise AssertionError(ended_of(done))
        self.killed.append(targets[0])

    def outcome(self) -> tuple[int, int, int]:
        """Rows of the sink, and how many were lost and doubled."""
        case = CASES[self.case]
        found = Counter(case.shown(sunk(self.folder / "sink")))
        right = Counter(case.shown(case.rows(case.sources(self.seed, BATCHES))))
        return found.total(), (right - found).total(), (found - right).total()


def spark_targets(count: int, rng: Random) -> list[str]:
    """What to kill: a worker at each point, or its executor."""
    points = [point for point in RANK_POINTS if point not in _ELSEWHERE]
    found = [f"{point}:1:{rng.randint(1, 4)}" for point in points for _ in range(count)]
    found += ["executor"] * (count // 4 + 1)
    rng.shuffle(found)
    return found[:count]
