"""How large a run is, and the relation and calls that it has."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock
from penstock.host.relation import RelationOptions, build
from penstock.host.relation.folder.build import PAGE_BYTES
from penstock.sim.workloads import Calls

#: Rows of the stream that are answered together.
BATCH_ROWS = 1 << 16
MB = 1_000_000
#: Rows of a relation of more than which pages are longer than by default.
_MOST_SHORT = 30_000_000


@dataclass(frozen=True)
class Scale:
    """Sizes of a run.

    Parameters
    ----------
    rows : int
        Of the relation.
    memory_bytes : int
    warm, batches : int
        Batches before those that are timed, and in each timed round.
    rounds : int
    """

    rows: int
    memory_bytes: int
    warm: int
    batches: int
    rounds: int


FULL = Scale(20_000_000, 128 * MB, warm=60, batches=8, rounds=5)
QUICK = Scale(2_000_000, 13 * MB, warm=12, batches=3, rounds=3)


@dataclass(frozen=True)
class Data:
    """A relation in a folder, and calls that look it up.

    Parameters
    ----------
    rows : int
        Of the relation.
    folder : Path
        Where it is kept from run to run.
    cold : bool
        Whether the operating system forgets what was read after each batch.
    """

    rows: int
    folder: Path
    cold: bool = False

    @cached_property
    def relation(self) -> Path:
        """Where the relation is; built if it is missing."""
        path = self.folder / f"subscribers-{self.rows}.rel"
        if not (path / "relation.json").is_file():
            shutil.rmtree(path, ignore_errors=True)
            self.folder.mkdir(parents=True, exist_ok=True)
            # Each page has an entry in the index, which must leave room in the memory.
            page_bytes = PAGE_BYTES if self.rows <= _MOST_SHORT else 2 * PAGE_BYTES
            options = RelationOptions(key=("id",), page_bytes=page_bytes)
            build(Calls(subscribers=self.rows).reader("subscribers"), str(path), options)
        return path

    def subscribers(self) -> Iterator[pa.RecordBatch]:
        """The relation's rows."""
        return Calls(subscribers=self.rows).batches("subscribers")

    def calls(
        self, batches: int, *, exponent: float = 1.0, absent: float = 0.0, seed: int = 1
    ) -> list[pa.RecordBatch]:
        """Batches of calls."""
        rate = 1_000_000.0
        work = Calls(
            seconds=(batches + 1) * BATCH_ROWS / rate * 1.2,
            rate=rate,
            subscribers=self.rows,
            exponent=exponent,
            absent=absent,
            seed=seed,
        )
        found = work.batches("calls", rows=BATCH_ROWS)
        return [next(found) for _ in range(batches)]

    def drifted(self, batches: int) -> Iterator[pa.RecordBatch]:
        """Batches of calls after half of the subscribers have changed places with others."""
        for batch in self.calls(batches, seed=3):
            callers = batch.column("subscriber").to_numpy()
            moves = callers * 40_503 % 65_536 < 32_768
            moved = np.where(moves, (callers + self.rows // 2 + 1) % self.rows, callers)
            yield batch.set_column(2, batch.schema.field(2), pa.array(moved))

    def stream(self, algorithm: str, memory_bytes: int, latency_s: float | None = None):
        """A running join with the relation, as users start it."""
        table = penstock.relation(self.relation, algorithm=algorithm)
        flow = {} if latency_s is None else {"latency_s": latency_s}
        work = Calls(subscribers=self.rows)
        return penstock.stream(
            work.query(),
            {"calls": work.schemas["calls"], "subscribers": table},
            flow=penstock.Flow(memory_bytes=memory_bytes, **flow),
        )
