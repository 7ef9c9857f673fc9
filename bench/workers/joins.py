"""What is joined: NB8 and NB11, as rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.workers import hand_joins
from bench.workers.jobs import BATCH_ROWS, PER_SECOND
from bench.workers.tasks import Inputs, Sent, Task
from penstock.sim.workloads import NB8, NB11
from penstock.sim.workloads.nb_joins import PER_SELLER
from penstock.sim.workloads.workload import Workload

#: Sellers of one worker have numbers below this, so that each has rows of one worker alone. They
#: are led by any worker all the same.
SELLERS = 1 << 40


@dataclass(frozen=True)
class JoinJob(Task):
    """A stream whose rows have a seller, and the sellers.

    Parameters
    ----------
    name : str
    rows : int
        Of each worker: four of the stream, then one seller, and so on.
    stream : str
    read : tuple of str
        Columns of the stream that the query reads, the seller first, then ``t``.
    made : callable
        The workload, from ``seconds``, ``rate`` and ``seed``.
    loop : callable
        The same by hand.
    window_s, gap_s : int
        Of the windows, or of the sessions; the other is 0.
    """

    name: str
    rows: int
    stream: str
    read: tuple[str, ...]
    made: Callable[..., Workload]
    loop: Callable[..., pa.Table]
    window_s: int = 0
    gap_s: int = 0

    @property
    def is_by_session(self) -> bool:
        """Whether rows are joined that are in one session."""
        return bool(self.gap_s)

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        columns = {self.stream: self.read, "sellers": ("id", "t")}
        return {
            name: pa.schema([self.workload.schemas[name].field(column) for column in read])
            for name, read in columns.items()
        }

    @property
    def sent(self) -> list[Sent]:
        return [Sent(tuple(schema.names)) for schema in self.schemas.values()]

    def tables(self, worker: int) -> dict[str, pa.Table]:
        made, found = self.made_for(worker), {}
        for name, schema in self.schemas.items():
            rows = pa.Table.from_batches(
                [batch.select(schema.names) for batch in made.batches(name, rows=BATCH_ROWS)]
            )
            sellers = pc.add(rows[0], worker * SELLERS)
            found[name] = rows.set_column(0, schema.field(0), sellers)
        return found

    def inputs(self, worker: int) -> Inputs:
        """Batches of both sources, of about the same time one after the other."""
        found = []
        for source, rows in enumerate(self.tables(worker).values()):
            batches = rows.to_batches(BATCH_ROWS if source == 0 else BATCH_ROWS // PER_SELLER)
            found += [(place, source, batch) for place, batch in enumerate(batches)]
        found.sort(key=lambda own: own[:2])
        return [(source, batch) for _, source, batch in found]

    def hand_input(self, inputs: Inputs) -> list[hand_joins.Columns]:
        sides: list[list[tuple[npt.NDArray, ...]]] = [[], []]
        for source, batch in inputs:
            whole = [column.cast(pa.int64()).to_numpy() for column in batch.columns]
            sides[source].append(tuple(whole))
        return [[np.concatenate(own) for own in zip(*side, strict=True)] for side in sides]

    def by_hand(self, arrays: list[hand_joins.Columns]) -> pa.Table:
        """All pairs."""
        left, right = arrays
        return self.loop(left, right)

    def made_for(self, worker: int) -> Workload:
        rate = PER_SECOND * PER_SELLER / (PER_SELLER + 1)
        return self.made(seconds=self.rows / PER_SECOND, rate=rate, seed=1 + worker)


def nb8(rows: int) -> JoinJob:
    """Auctions with their sellers, in windows of twelve hours."""
    return JoinJob(
        "NB8, 12 h",
        rows,
        "auctions",
        ("seller", "t", "id"),
        NB8,
        hand_joins.auctions,
        window_s=43_200,
    )


def nb11(rows: int, gap_s: int = 10) -> JoinJob:
    """Bids with their sellers, in sessions."""
    return JoinJob(
        f"NB11, {gap_s} s",
        rows,
        "bids",
        ("seller", "t", "auction", "price"),
        partial(NB11, gap_s=gap_s),
        partial(hand_joins.bids, gap=1000 * gap_s),
        gap_s=gap_s,
    )
