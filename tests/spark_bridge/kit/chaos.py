"""Kills processes of a streaming join at random moments, and sees that no row is lost or doubled.

``python -m tests.spark_bridge.kit.chaos --kills 50`` (``make chaos``) goes through a join of two
streams, one into a Delta table, and a stream that looks up rows of a relation, on ``local`` and
``local-cluster``. Their joins run on a device server, which is started again when it ends, as an
init system would; so are their drivers, from the checkpoint. The relation is updated whenever the
stream goes on. Files of a user lie beside those of the stream, its output and the server's socket,
and must stay as they are.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, product
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.host.relation import RelationOptions, build, open_relation
from penstock.host.relation.folder.pins import PINS
from penstock.host.relation.folder.reading import file_store
from penstock.spark_bridge.streaming.place import FOLDER
from tests.kit.foreign import ForeignFiles
from tests.spark_bridge.kit.apps import ENV, ROOT
from tests.spark_bridge.kit.chaos_app import LAST, LOOKUP, QUERIES, RELATION
from tests.spark_bridge.kit.outcome import Outcome
from tests.spark_bridge.kit.processes import command, kill, marked, tree, wait
from tests.spark_bridge.kit.streams import cut, drawn, put, table
from tests.spark_bridge.kit.supervised import Supervised

#: Seconds that a run may take from one kill to the next, or to its end.
PATIENCE_S = 900

#: How often progress is looked for, in seconds.
_POLL_S = 0.05

#: Most seconds from a batch's end to the kill: some batches take less, some more.
_LATEST_S = 1.5

#: Batches that are given to a query before something is killed, and at the end.
BATCHES_PER_KILL = 2

#: Ends of a driver that nobody killed, one after the other, that are no accident any more.
_MOST_FAILURES = 3

#: Variable in the environment of all that an app starts; its value is the folder.
_MARK = "PENSTOCK_CHAOS"

#: What can be killed, by master. In local mode the executor is the driver.
TARGETS = {
    "local[2,3]": ("worker", "driver", "server"),
    "local-cluster[2,1,1024]": ("worker", "driver", "server", "executor"),
}


#: What is joined: two streams, also into a Delta table, or a stream and a relation.
DESIGNS = (*QUERIES, "lookup")


@dataclass
class Chaos:
    """One stream, its processes and what becomes of them.

    Parameters
    ----------
    folder : Path
        Empty.
    design, master : str
    seed : int
        Of the rows, what is killed and when.
    daemons : sequence of int
        Processes of a standalone cluster, which start the executors there.
    partitioning : str
        Of two streams.
    """

    folder: Path
    design: str
    master: str
    seed: int = 0
    daemons: Sequence[int] = ()
    partitioning: str = "rows"
    killed: list[str] = field(default_factory=list)
    starts: int = 0
    failures: int = 0
    foreign: ForeignFiles = field(default_factory=ForeignFiles)

    def run(self, targets: Sequence[str]) -> None:
        """Strike each target once, of :data:`TARGETS`; then let the query end."""
        self.rng = Random(self.seed)
        batches = BATCHES_PER_KILL * (len(targets) + 1)
        self.sides = {
            side: cut(drawn(self.seed + k, 30 * batches, disorder=5), batches)
            for k, side in enumerate("a" if self.design == "lookup" else "ab")
        }
        self.given = self.versions = 0
        for side in self.sides:
            (self.folder / side).mkdir()
        self.server = Supervised(self.folder)
        try:
            app = self._started()
            try:
                for target in targets:
                    app = self._struck(app, target)
                    self._put_foreign()
                self._give()
                (self.folder / LAST).touch()
                while app.wait(PATIENCE_S) != 0:  # a strike may have ended it later
                    app = self._restarted(app)
                self.foreign.require_untouched()
            finally:
                if app.poll() is None:  # or its number may be that of a stranger
                    kill(tree(app.pid))
                    app.wait(PATIENCE_S)
        finally:
            self.server.close()

    def _put_foreign(self) -> None:
        """See that files of a user are as they were, and put some more into all folders."""
        if list(self.foreign):
            self.foreign.require_untouched()
        checkpoint, output = self.folder / "checkpoint", self.folder / "output"
        state = checkpoint / FOLDER
        found = state.iterdir() if state.exists() else ()  # a look-up keeps nothing there
        within = [path for path in found if path.is_dir() and path not in self.foreign]
        log = output / "_delta_log"
        outputs = [folder for folder in (output, log) if folder.exists()]
        sockets = Path(self.server.address.removeprefix("unix://")).parent
        for folder in (checkpoint, state, *within, *outputs, sockets):
            self.foreign.put(folder)

    def _give(self) -> None:
        """Let the sources have some more files. No query ends before it has been struck."""
        if self.design == "lookup":
            self._update()
        for number in range(self.given, self.given + BATCHES_PER_KILL):
            for side, parts in self.sides.items():
                put(self.folder / side, number, table(parts[number]))
        self.given += BATCHES_PER_KILL

    def _update(self) -> None:
        """Write the next version of the relation: two rows for each of 40 keys."""
        self.versions += 1
        rows = pa.table({"k": [m // 2 for m in range(80)], "m": range(80)})
        rows = rows.append_column("v", pa.array([self.versions] * 80))
        if self.versions == 1:
            build(rows, str(self._relation), RelationOptions(key=("k",), page_bytes=512))
        else:
            open_relation(self._relation).update(rows, compact=False)

    @property
    def _relation(self) -> Path:
        return self.folder / RELATION

    def _struck(self, app: subprocess.Popen, target: str) -> subprocess.Popen:
        """Kill something at a random moment of the next batches; the app that runs then."""
        before = self._progress()
        self._give()
        deadline = time.monotonic() + PATIENCE_S
        while self._progress() == before or not self._victims(app, target):
            if app.poll() is not None:
                app = self._restarted(app)
            if time.monotonic() > deadline:
                raise AssertionError(f"no batch, or no {target}, within {PATIENCE_S} s")
            wait(app, _POLL_S)
        wait(app, self.rng.uniform(0, _LATEST_S))
        victims = self._victims(app, target)
        if victims:
            kill(victims if target == "driver" else [self.rng.choice(victims)])
            self.killed.append(target)
            self.failures = 0
        if target == "driver":
            app.wait(PATIENCE_S)
            return self._started()
        return app

    def _victims(self, app: subprocess.Popen, target: str) -> list[int]:
        if target == "server":
            process = self.server.child.process
            return [process.pid] if process.poll() is None else []
        if app.poll() is not None:
            return []
        if target == "driver":
            return tree(app.pid)
        # Workers whose daemon was killed have another parent, and Spark may go on using them.
        running = marked(_MARK, str(self.folder))
        for daemon in self.daemons:
            running += tree(daemon)
        name = "CoarseGrainedExecutorBackend" if target == "executor" else "pyspark.daemon"
        return [pid for pid in running if name in command(pid) and pid != app.pid]

    def _progress(self) -> int:
        """The batches that Spark has completed."""
        return len(list((self.folder / "checkpoint" / "commits").glob("[0-9]*")))

    def _restarted(self, app: subprocess.Popen) -> subprocess.Popen:
        """The app once more, after it ended by itself."""
        log = self.folder / f"app{self.starts}.log"
        said = log.read_text(errors="replace")[-3000:]
        if app.returncode == 0:
            raise AssertionError(f"the stream ended before its sources did: {said}")
        self.failures += 1
        if self.failures > _MOST_FAILURES:
            raise AssertionError(f"the query failed {self.failures} times in a row: {said}")
        return self._started()

    def _started(self) -> subprocess.Popen:
        self.starts += 1
        given = [str(self.folder), self.design, self.master, self.server.address]
        given.append(self.partitioning)
        log = open(self.folder / f"app{self.starts}.log", "wb")  # noqa: SIM115
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark_bridge.kit.chaos_app", *given],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ENV, _MARK: str(self.folder)},
                start_new_session=True,
            )

    def outcome(self) -> Outcome:
        """The output, beside the join of the tables."""
        if self.design != "lookup":
            return Outcome.of(self.folder, QUERIES[self.design], self.sides, self.foreign)
        self._check_versions()
        whole = table([row for part in self.sides["a"] for row in part])
        tables = {"a": whole, "b": penstock.relation(self._relation)}
        return Outcome.beside(
            self.folder, penstock.sql(LOOKUP, tables).drop_columns(["v"]), self.foreign
        )

    def _check_versions(self) -> None:
        """See that the relation is whole, and that each batch met the version of its pin."""
        stored = open_relation(self._relation)
        assert stored.newest() == self.versions
        assert list(stored.check()) == []
        (query,) = (self._relation / PINS).iterdir()
        files_of = file_store(str(self._relation))
        met = set()
        for batch in sorted((self.folder / "output").glob("batch=*")):
            number = batch.name.removeprefix("batch=")
            pin = files_of.get_json(f"{PINS}/{query.name}/{number}")
            assert pin is not None
            files = [pq.read_table(path, columns=["v"]) for path in batch.glob("*.parquet")]
            seen = {v for one in files for v in one["v"].to_pylist() if v is not None}
            assert seen <= {pin["version"]}, (batch, seen, pin)
            met |= seen
        assert len(met) > 1


def targets_of(master: str, count: int, rng: Random) -> list[str]:
    """What to kill, in which order: everything once before anything twice."""
    found: list[str] = []
    while len(found) < count:
        turn = list(TARGETS[master])
        rng.shuffle(turn)
        found += turn
    return found[:count]


def main() -> int:
    """Go through all combinations until so many processes have been killed; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first round; the next has one more"
    )
    parser.add_argument("--design", choices=DESIGNS, help="only this one")
    parser.add_argument("--master", choices=TARGETS, help="only this one")
    parser.add_argument(
        "--partitioning", choices=("rows", "keys"), help="of two streams, and only of these"
    )
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # nothing it has started outlives it
        signal.signal(number, signal.default_int_handler)
    designs = [given.design] if given.design else list(DESIGNS)
    if given.partitioning:
        designs = ["files"]
    masters = [given.master] if given.master else list(TARGETS)
    killed, failed = 0, 0
    _say("| seed | design | master | killed | starts: driver, server | rows | lost | doubled | s |")
    _say("|---|---|---|---|---|---|---|---|---|")
    for number, (master, design) in enumerate(cycle(product(masters, designs))):
        if killed >= given.kills:
            break
        seed, began = given.seed + number, time.monotonic()
        targets = targets_of(master, min(5, given.kills - killed), Random(seed))
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            chaos = Chaos(Path(folder), design, master, seed)
            chaos.partitioning = given.partitioning or "rows"
            chaos.run(targets)
            found = chaos.outcome()
        killed += len(chaos.killed)
        failed += not found.is_exact
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(chaos.killed).items())
        _say(
            f"| {seed} | {design} | {master} | {kinds} | {chaos.starts}, {chaos.server.starts} | "
            f"{found.rows} | {found.lost} | {found.doubled} | {time.monotonic() - began:.0f} |"
        )
    _say(f"{killed} killed; {failed} rounds with rows lost or doubled")
    return int(failed > 0)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
