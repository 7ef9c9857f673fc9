"""Kills workers and parents of a stream at points named in the code, and sees that no row is lost.

``python -m tests.host.workers.kit.chaos --kills 100`` (``make chaos-workers``). A round is a stream
of :mod:`.app`, which is started again until it has ended by itself; in each start something is
killed: at a point, or at a random moment.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Timer
from typing import Any

from penstock.host.workers.points import PARENT_POINTS, WORKER_POINTS
from tests.host.workers.kit.app import sunk
from tests.host.workers.kit.cases import CASES, VARIABLE
from tests.host.workers.kit.rank_chaos import RankRound, rank_targets
from tests.kit.foreign import ForeignFiles

ROOT = Path(__file__).resolve().parents[4]
#: Seconds for one start of the app.
PATIENCE_S = 300.0
#: Workers, and batches of a round; the number of workers changes from start to start.
WORKERS, BATCHES = (2, 3, 1), 120
#: Latest moment of a kill by the clock, after the workers have come up.
_LATEST_S = 0.4


@dataclass
class Round:
    """One stream, killed until it has nothing more to kill.

    Parameters
    ----------
    folder : Path
        Empty.
    seed : int
        Of the rows, what is killed and when.
    case : str
        One of :data:`.cases.CASES`.
    """

    folder: Path
    seed: int
    case: str = "groups"
    killed: list[str] = field(default_factory=list)
    starts: int = 0
    foreign: ForeignFiles = field(default_factory=ForeignFiles)

    def run(self, targets: list[str]) -> None:
        """Kill each target (``POINT:WHO:COUNT``, or ``random``), and let the stream end."""
        rng = Random(self.seed)
        self.foreign.put(self.folder / "checkpoint")
        for target in [*targets, ""]:
            is_over = self._start(target, WORKERS[self.starts % len(WORKERS)], rng)
            self.foreign.require_untouched()
            self.foreign.put(self.folder / "checkpoint")  # copies of what is there now, too
            if is_over and target:
                continue  # it was too quick, or went on with other workers
            if is_over:
                return
        raise AssertionError("the stream did not end by itself")

    def _start(self, target: str, workers: int, rng: Random) -> bool:
        """Run the app once; whether it came to its end."""
        self.starts += 1
        environment = {**os.environ, VARIABLE: self.case}
        if target and target != "random":
            environment["PENSTOCK_KILL"] = target
        command = [sys.executable, "-m", "tests.host.workers.kit.app", str(self.folder)]
        command += [str(self.seed), str(BATCHES), str(workers)]
        before = self._losses()
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        ) as app:
            assert app.stdout is not None
            watchdog = Timer(PATIENCE_S, app.kill)
            watchdog.start()
            try:
                said = app.stdout.readline().split()
                if target == "random" and said[:1] == ["workers"]:
                    victims = [app.pid, *map(int, said[1:])]
                    time.sleep(rng.uniform(0, _LATEST_S))
                    os.kill(rng.choice(victims), signal.SIGKILL)
                    self.killed.append("random")
                rest = app.stdout.read()
                app.wait(PATIENCE_S)
            finally:
                watchdog.cancel()
        is_over = app.returncode == 0 and "done" in rest
        if not is_over and app.returncode != -signal.SIGKILL:  # an error, which a kill is not
            raise AssertionError(f"the app ended with {app.returncode} after {target}")
        if target not in ("", "random") and (not is_over or self._losses() > before):
            self.killed.append(target)
        return is_over

    def _losses(self) -> int:
        """How often workers began again: each has an incarnation of its own in the last record."""
        from penstock.host.workers.records.part_files import files_of
        from penstock.host.workers.records.record import NAMES, read_record

        place = self.folder / "checkpoint"
        if not place.is_dir():
            return 0
        newest = NAMES.newest(files_of(place))
        return read_record(place, newest).incarnation if newest else 0

    def outcome(self) -> tuple[int, int, int]:
        """Rows of the sink, and how many were lost and doubled."""
        self.foreign.require_untouched()
        case = CASES[self.case]
        found = Counter(case.shown(sunk(self.folder / "sink")))
        right = Counter(case.shown(case.rows(case.sources(self.seed, BATCHES))))
        lost, doubled = (right - found).total(), (found - right).total()
        return found.total(), lost, doubled


def targets_of(count: int, rng: Random) -> list[str]:
    """What to kill: each point once before any twice, and as often at random."""
    found: list[str] = []
    while len(found) < count:
        turn = [f"{point}:parent:{rng.randint(1, 20)}" for point in PARENT_POINTS]
        turn += [f"{point}:{rng.randint(0, 1)}:{rng.randint(1, 6)}" for point in WORKER_POINTS]
        turn += ["random"] * 4
        rng.shuffle(turn)
        found += turn
    return found[:count]


def main() -> int:
    """Kill so many processes; the exit status is 1 if a row was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", action="store_true", help="kill ranks without a parent")
    parser.add_argument("--spark", action="store_true", help="kill workers that Spark has placed")
    parser.add_argument("--case", choices=CASES, default="groups", help="the query")
    parser.add_argument("--hosts", type=int, default=1, help="as if ranks were on so many hosts")
    given = parser.parse_args()
    killed, failed, seed = Counter[str](), 0, given.seed
    choose = rank_targets if given.ranks else targets_of
    many = 10
    if given.spark:
        from tests.spark_bridge.kit.workers_chaos import SparkRound, spark_targets

        choose, many = spark_targets, 1
    targets = choose(4 * given.kills, Random(given.seed))
    while killed.total() < given.kills and targets:
        began, some = time.monotonic(), targets[:many]
        del targets[:many]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            place = Path(folder)
            one: Any = Round(place, seed, given.case)
            if given.spark:
                one = SparkRound(place, seed, given.case)
            elif given.ranks:
                one = RankRound(place, seed, given.hosts, case=given.case)
            one.run(some[: given.kills - killed.total()])
            rows, lost, doubled = one.outcome()
        kinds = [target.partition(":")[0] for target in one.killed]
        killed.update(kinds)
        failed += bool(lost or doubled)
        _say(
            f"seed {seed}: killed {len(kinds)} in {one.starts} starts, {rows} rows, lost {lost}, "
            f"doubled {doubled}, {time.monotonic() - began:.0f} s"
        )
        seed += 1
    _say(f"{killed.total()} killed: {', '.join(f'{n} {k}' for k, n in sorted(killed.items()))}")
    _say(f"{failed} rounds with rows lost or doubled")
    return int(failed > 0)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
