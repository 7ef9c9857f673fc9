"""Kills processes of a streaming join at random moments, and sees that no row is lost or doubled.

``python -m tests.spark_bridge.kit.chaos --kills 50`` (``make chaos``).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.dataset as ds

import penstock
from tests.spark_bridge.kit.chaos_app import QUERIES
from tests.spark_bridge.kit.streams import cut, drawn, rows_of, table, written

#: Seconds that a run may take from one kill to the next, or to its end.
PATIENCE_S = 300

#: How often progress is looked for, in seconds.
_POLL_S = 0.05

ROOT = Path(__file__).parents[3]


@dataclass
class Chaos:
    """One stream, its processes and what becomes of them.

    Parameters
    ----------
    folder : Path
        Empty.
    design, master : str
    batches : int
    seed : int
    """

    folder: Path
    design: str
    master: str
    batches: int
    seed: int = 0
    killed: list[str] = field(default_factory=list)
    starts: int = 0

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.sides = {
            side: cut(drawn(self.seed + k, 30 * self.batches, disorder=5), self.batches)
            for k, side in enumerate("ab")
        }
        for side, parts in self.sides.items():
            written(self.folder / side, [table(part) for part in parts])

    def run(self, targets: list[str]) -> None:
        """Strike each target once, "driver", "executor" or "worker"; then let the query end."""
        app = self._started()
        try:
            for target in targets:
                app = self._struck(app, target)
            code = app.wait(PATIENCE_S)
            while code != 0:  # the last strike may have ended it later
                app = self._started()
                code = app.wait(PATIENCE_S)
        finally:
            if app.poll() is None:  # or its number may be that of a stranger
                _kill(_tree(app.pid))
                app.wait(PATIENCE_S)

    def _struck(self, app: subprocess.Popen, target: str) -> subprocess.Popen:
        """Kill something at a random moment of the next batches; the app that runs then."""
        before = self._progress()
        deadline = time.monotonic() + PATIENCE_S
        # At least one more batch, so that there is an end; then anywhere in one.
        while self._progress() == before or not self._victims(app, target):
            if app.poll() is not None:
                if app.returncode == 0:
                    raise AssertionError(f"the stream ended before {target} was killed")
                app = self._started()
            if time.monotonic() > deadline:
                raise AssertionError(f"no batch, or no {target}, within {PATIENCE_S} s")
            _wait(app, _POLL_S)
        _wait(app, self.rng.uniform(0, 1.5))
        victims = self._victims(app, target)
        if victims:
            _kill(victims if target == "driver" else [self.rng.choice(victims)])
            self.killed.append(target)
        if target == "driver":
            app.wait(PATIENCE_S)
            return self._started()
        return app

    def _victims(self, app: subprocess.Popen, target: str) -> list[int]:
        tree = _tree(app.pid)
        if target == "driver":
            return tree
        name = "CoarseGrainedExecutorBackend" if target == "executor" else "pyspark.daemon"
        return [pid for pid in tree if name in _command(pid) and pid != app.pid]

    def _progress(self) -> int:
        """The batches that Spark has completed."""
        return len(list((self.folder / "checkpoint" / "commits").glob("[0-9]*")))

    def _started(self) -> subprocess.Popen:
        self.starts += 1
        given = [str(self.folder), self.design, self.master]
        log = open(self.folder / f"app{self.starts}.log", "wb")  # noqa: SIM115
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark_bridge.kit.chaos_app", *given],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
                start_new_session=True,
            )

    def check(self) -> int:
        """Compare the output with the join of the tables; how many rows there are.

        Raises
        ------
        AssertionError
        """
        text = QUERIES[self.design]
        whole = {side: table([r for part in parts for r in part]) for side, parts in
                 self.sides.items()}  # fmt: skip
        expected = penstock.sql(text, whole)
        folders = [self.folder / "output", self.folder / "rest"]
        parts = [_rows(folder, expected.schema) for folder in folders if folder.exists()]
        names = expected.column_names
        found, wanted = rows_of(pa.concat_tables(parts), names), rows_of(expected, names)
        assert len(found) == len(wanted), f"{len(found)} rows, not {len(wanted)}"
        assert found == wanted
        return len(found)


def _rows(folder: Path, schema: pa.Schema) -> pa.Table:
    files = [str(p) for p in folder.rglob("*.parquet") if not p.name.startswith((".", "_"))]
    # What a killed attempt left in Spark's temporary folders is no output.
    files = [name for name in files if "_temporary" not in name]
    return ds.dataset(files, schema=schema).to_table()


def _wait(app: subprocess.Popen, seconds: float) -> None:
    try:
        app.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _tree(pid: int) -> list[int]:
    """A process and all that it and they have started."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            after = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children.setdefault(int(after[1]), []).append(int(path.name))
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += children.get(one, [])
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def main() -> None:
    """Run rounds until so many processes have been killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--design", choices=[*QUERIES, "both"], default="both")
    given = parser.parse_args()
    designs = list(QUERIES) if given.design == "both" else [given.design]
    kills, round_ = 0, 0
    while kills < given.kills:
        design = designs[round_ % len(designs)]
        cluster = round_ // len(designs) % 2 == 1
        master = "local-cluster[2,1,1024]" if cluster else "local[2,3]"
        kinds = ["worker", "driver", "executor" if cluster else "worker"]
        rng = Random(given.seed + round_)
        targets = [rng.choice(kinds) for _ in range(min(5, given.kills - kills))]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            chaos = Chaos(Path(folder), design, master, 3 * len(targets) + 4, given.seed + round_)
            chaos.run(targets)
            rows = chaos.check()
        kills += len(chaos.killed)
        round_ += 1
        sys.stdout.write(
            f"{kills:3} killed ({', '.join(chaos.killed)}): {design}, {master}: "
            f"{chaos.starts} starts, {rows} rows, none lost, none twice\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
