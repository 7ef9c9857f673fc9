"""Damages one file of a streaming join's checkpoint, and sees what becomes of the join's rows.

``python -m tests.spark_bridge.kit.damage --trials 300`` (``make damage``) does so with checkpoints
of a join, whole ones and such of a query that ended within a batch. A join that goes on from
a damaged one gives the exact rows, or says what is wrong; it neither gives other rows nor hangs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import penstock
from penstock.errors import PenstockError
from penstock.spark_bridge import stream
from penstock.spark_bridge.streaming import compaction
from tests.kit.effort import effort
from tests.spark_bridge.kit.apps import session
from tests.spark_bridge.kit.streams import (
    cut,
    drawn,
    put,
    rows_of,
    stream_of,
    table,
    written,
)

KINDS = ("swap", "edit", "truncate", "delete", "copy")

#: Batches before the damage, and with those that come after it.
BEFORE, BATCHES = effort((5, 6), (3, 4))

#: Seconds after which a query is said to hang: it takes about two, where a machine is free.
PATIENCE_S = 300

#: Folders of a checkpoint whose files Penstock writes.
OURS = ("penstock",)

#: The window reaches over several batches, so that what lies in it matters.
TEXT = (
    "SELECT a.n AS a, b.n AS b FROM a LEFT JOIN b ON abs(a.x - b.x) < 2 "
    "AND b.t BETWEEN a.t - INTERVAL 20 SECONDS AND a.t + INTERVAL 20 SECONDS"
)
_NAMES = ["a", "b"]
#: What Spark says where a machine has too much to do; it has nothing to do with the damage.
_BUSY = "Python worker failed to connect back"
_TRIES = 3
#: Number and time of a row that comes last and lets out what waits; it meets nothing.
_LAST = (-1, 9999, -9)


@contextmanager
def settings(spark: Any) -> Iterator[None]:
    """One partition, and files that are merged."""
    values = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    before = {key: spark.conf.get(key, None) for key in values}
    most, compaction.MOST_FILES = compaction.MOST_FILES, 4
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        compaction.MOST_FILES = most
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


@dataclass(frozen=True)
class Trial:
    """What was damaged, and what came of it.

    Parameters
    ----------
    damage : str
    outcome : str
        "exact" or "refused", which are good; "wrong", "unclear" (an error that does not say what
        is wrong) or "hangs".
    said : str
        The error, or how many rows are wrong.
    seed : int, optional
        Repeats it.
    """

    damage: str
    outcome: str
    said: str = ""
    seed: int | None = None

    @property
    def is_good(self) -> bool:
        return self.outcome in ("exact", "refused")


class Checkpoints:
    """Checkpoints of one join, and the rows that it should give.

    Parameters
    ----------
    spark : SparkSession
        With :func:`settings`.
    folder : Path
        Empty.
    """

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        sides = {
            k: cut(drawn(seed, 15 * BATCHES, disorder=5), BATCHES) for seed, k in enumerate("ab")
        }
        whole = {side: table([r for part in own for r in part]) for side, own in sides.items()}
        self.expected = rows_of(penstock.sql(TEXT, whole), _NAMES)
        for side, own in sides.items():
            written(folder / side, [table(part) for part in own[:BEFORE]])
        tables = {side: stream_of(spark, folder / side) for side in sides}
        self.joined = stream(spark, TEXT, tables, lanes=1)
        #: By the name of a checkpoint, the rows of each batch that it has let out.
        self.let_out: dict[str, dict[int, pa.Table]] = {"whole": {}}
        assert self._run(folder / "whole", self.let_out["whole"], within=self._torn)
        assert self.let_out.keys() == {"whole", "torn"}
        for side, own in sides.items():
            for number in range(BEFORE, BATCHES):
                put(folder / side, number, table([*own[number], _LAST]))

    def _torn(self, batch: int) -> None:
        """Copy the checkpoint as a query leaves it that ends within the last batch."""
        if batch == BEFORE - 1:
            shutil.copytree(self.folder / "whole", self.folder / "torn")
            self.let_out["torn"] = dict(self.let_out["whole"])

    def _run(
        self,
        checkpoint: Path,
        found: dict[int, pa.Table],
        within: Callable[[int], None] | None = None,
    ) -> bool:
        """Go on to the end of the sources; False if that does not come."""

        def keep(rows: Any, batch: int) -> None:
            got = rows.toArrow()
            if within is not None:
                within(batch)
            found[batch] = got

        writer = self.joined.writeStream.foreachBatch(keep).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        if query.awaitTermination(PATIENCE_S):
            return True
        query.stop()
        return False

    def tried(self, seed: int) -> Trial:
        """Damage a copy of one checkpoint, and go on from it."""
        rng = Random(seed)
        name = rng.choice(sorted(self.let_out))
        trial = self.gone_on(name, lambda checkpoint: struck(checkpoint, rng))
        return replace(trial, seed=seed)

    def gone_on(self, name: str, strike: Callable[[Path], Damage]) -> Trial:
        """Go on from a checkpoint that something has been done to."""
        checkpoint = self.folder / f"{name}-{uuid.uuid4().hex}"
        shutil.copytree(self.folder / name, checkpoint)
        damage = strike(checkpoint)
        try:
            for _ in range(_TRIES):
                found = dict(self.let_out[name])
                outcome, said = self._outcome(checkpoint, found, damage.is_ours)
                if outcome == "exact" or _BUSY not in said:
                    break
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
        return Trial(f"{name}: {damage.text}", outcome, said)

    def _outcome(
        self, checkpoint: Path, found: dict[int, pa.Table], is_ours: bool
    ) -> tuple[str, str]:
        try:
            if not self._run(checkpoint, found):
                return "hangs", ""
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            # Of its own files Spark says what is wrong, of ours we do, and what to do.
            is_clear = is_penstocks(error) if is_ours else is_sparks(error) or is_penstocks(error)
            return "refused" if is_clear else "unclear", said
        parts = pa.concat_tables(found.values())
        rows = Counter(row for row in rows_of(parts, _NAMES) if row[0] != -1)
        wanted = Counter(self.expected)
        if rows == wanted:
            return "exact", ""
        return "wrong", f"{(wanted - rows).total()} rows lost, {(rows - wanted).total()} too many"


def is_penstocks(error: Exception) -> bool:
    """An error that says what to do, or the one of Spark that has its text."""
    return isinstance(error, PenstockError) or "penstock.errors." in str(error)


def is_sparks(error: Exception) -> bool:
    """An error that comes from Spark, as Python has it."""
    return isinstance(error, (PySparkException, Py4JError))


@dataclass(frozen=True)
class Damage:
    """What was done to a file, and whether it is one of Penstock's."""

    text: str
    is_ours: bool


def struck(checkpoint: Path, rng: Random) -> Damage:
    """Damage one file. Folders are as likely as each other, then their files."""
    groups: dict[Path, list[Path]] = {}
    for path in sorted(checkpoint.rglob("*")):
        if path.is_file():
            groups.setdefault(path.parent, []).append(path)
    kind = rng.choice(KINDS)
    several = [own for own in groups.values() if len(own) > 1]
    group = rng.choice(several if kind in ("swap", "copy") else sorted(groups.values()))
    path = rng.choice(group)
    shown = path.relative_to(checkpoint)
    text = _damaged(path, kind, group, rng)
    return Damage(f"{kind} {shown}{text}", shown.parts[0] in OURS)


def _damaged(path: Path, kind: str, group: Sequence[Path], rng: Random) -> str:
    if kind in ("swap", "copy"):
        # Mostly of the same kind: what can be taken for it.
        others = [one for one in group if one != path]
        alike = [one for one in others if one.suffix == path.suffix]
        other = rng.choice(alike or others)
        content = path.read_bytes(), other.read_bytes()
        path.write_bytes(content[1])
        if kind == "swap":
            other.write_bytes(content[0])
        return f" with {other.name}"
    if kind == "delete":
        path.unlink()
        return ""
    content = bytearray(path.read_bytes())
    if kind == "truncate":
        size = rng.randrange(len(content)) if content else 0
        path.write_bytes(content[:size])
        return f" to {size} of {len(content)}"
    for _ in range(rng.randint(1, 4) if content else 0):
        place = rng.randrange(len(content))
        content[place] ^= rng.randint(1, 255)
    path.write_bytes(content)
    return ""


def main() -> int:
    """Go through seeds; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first trial; the next has one more"
    )
    given = parser.parse_args()
    bad, outcomes = 0, Counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        patient = {"spark.python.authenticate.socketTimeout": "120s"}
        spark = session(folder, patient, "local[2,3]")
        with settings(spark):
            checkpoints = Checkpoints(spark, folder)
            for seed in range(given.seed, given.seed + given.trials):
                began = time.monotonic()
                trial = checkpoints.tried(seed)
                outcomes[trial.outcome] += 1
                bad += not trial.is_good
                said = trial.said.replace("\n", " ")[: 300 if trial.is_good else 3000]
                sys.stdout.write(
                    f"{seed} {trial.damage}: {trial.outcome} "
                    f"({time.monotonic() - began:.1f} s) {said}\n"
                )
                sys.stdout.flush()
        spark.stop()
    for outcome, count in sorted(outcomes.items()):
        sys.stdout.write(f"{outcome}: {count}\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
