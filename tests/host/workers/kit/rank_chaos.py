"""Kills ranks of a stream at points named in the code, and sees that no row is lost.

``python -m tests.host.workers.kit.chaos --ranks`` (``make chaos-workers ARGS=--ranks``). A round is
a stream of :mod:`.rank_app`, which is started again with another number of ranks until it has ended
by itself. Whenever a rank is killed, each other must say that it was lost, or have ended already.
"""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Timer

from penstock.host.workers.points import RANK_POINTS
from tests.host.workers.kit.app import sunk
from tests.host.workers.kit.cases import CASES, VARIABLE
from tests.host.workers.kit.hub import Hub, spread
from tests.host.workers.kit.rank_app import pushed

#: Seconds for one start of all ranks.
PATIENCE_S = 300.0
#: Ranks of one start after the other, and batches of a round.
SIZES, BATCHES = (2, 3, 1, 2), 90
#: Latest moment of a kill by the clock, after a rank has opened its stream.
_LATEST_S = 0.5


@dataclass
class RankRound:
    """One stream, killed until it has nothing more to kill.

    Parameters
    ----------
    folder : Path
        Empty.
    seed : int
        Of the rows, what is killed and when.
    hosts : int
        Among which ranks hold themselves to be spread.
    rows : int
        Of a batch, as for :func:`.rank_app.pushed`.
    case : str
        One of :data:`.cases.CASES`.
    """

    folder: Path
    seed: int
    hosts: int = 1
    rows: int = 0
    case: str = "groups"
    killed: list[str] = field(default_factory=list)
    starts: int = 0
    #: Ranks that said that another one was lost.
    told: int = 0

    def run(self, targets: list[str], sizes: tuple[int, ...] = SIZES, count: int = BATCHES) -> None:
        """Kill each target (``POINT:RANK:COUNT``, or ``random``), and let the stream end."""
        self.count = count
        rng = Random(self.seed)
        for target in [*targets, ""]:
            if self._start(target, sizes[self.starts % len(sizes)], rng) and not target:
                return
        raise AssertionError("the stream did not end by itself")

    def _start(self, target: str, size: int, rng: Random) -> bool:
        """Run all ranks once; whether they came to their end."""
        self.starts += 1
        command = ["-m", "tests.host.workers.kit.rank_app", str(self.folder)]
        command += [str(self.seed), str(self.count), "1"]
        variables = {"ROWS": str(self.rows), VARIABLE: self.case}
        if target not in ("", "random"):
            variables["PENSTOCK_KILL"] = target
        if self.hosts > 1:
            variables |= spread(self.hosts)
        hub = Hub(self.folder, command, size, variables)
        timer = None
        if target == "random" and hub.line(0) == "open":
            timer = Timer(rng.uniform(0, _LATEST_S), hub.kill, (rng.randrange(size),))
            timer.start()
        ends = hub.wait(PATIENCE_S)
        if timer is not None:
            timer.join()
        statuses = Counter(status for status, _ in ends)
        if statuses[-signal.SIGKILL]:
            self.killed.append(target)
        self.told += statuses[3]
        # An error beside a kill is told; a rank that hangs is killed after a while, and counts too.
        if statuses[-signal.SIGKILL] > 1 or set(statuses) - {0, 3, -signal.SIGKILL}:
            raise AssertionError(f"ranks ended with {ends} after {target!r}")
        return statuses[0] == size

    def outcome(self) -> tuple[int, int, int]:
        """Rows of the sink, and how many were lost and doubled."""
        case = CASES[self.case]
        given = pushed(case, self.seed, self.count, self.rows)
        found = Counter(case.shown(sunk(self.folder / "sink")))
        right = Counter(case.shown(case.rows(given)))
        return found.total(), (right - found).total(), (found - right).total()


def rank_targets(count: int, rng: Random) -> list[str]:
    """What to kill: each point once before any twice, and some at random."""
    found: list[str] = []
    while len(found) < count:
        turn = [
            f"{point}:{0 if point in ('record', 'committed') else rng.randint(0, 1)}:"
            f"{rng.randint(1, 6)}"
            for point in RANK_POINTS
        ]
        turn += ["random"] * 3
        rng.shuffle(turn)
        found += turn
    return found[:count]
