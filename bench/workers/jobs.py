"""What is grouped: YSB, CM, NB7 and RO, as rows in memory, and what all contenders must answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.peers.turns import Answer
from bench.workers import hand
from bench.workers.tasks import Inputs, Sent, Task
from penstock.errors import PenstockError
from penstock.sim.workloads import CM, NB7, RO, YSB
from penstock.sim.workloads.workload import Workload

#: Rows of a batch of input.
BATCH_ROWS = 1 << 16

#: Rows per second of event time: 14 s of it are 1 GB of YSB's records, one window as printed.
PER_SECOND = 1_000_000


@dataclass(frozen=True)
class Job(Task):
    """Groups of one stream.

    Parameters
    ----------
    name : str
    rows : int
        Of each worker.
    window_s : int
        0 for none: the stream is a table.
    stream, key : str
        Names of the table and of its first key.
    read : tuple of str
        Columns that the query reads, the key first, then ``t``, if there are windows.
    made : callable
        The workload, from ``seconds``, ``rate`` and ``seed``.
    where, aggregate : str
        In SQL; no condition if empty.
    loop : callable
        The same by hand.
    groups : int
        Most groups of a window.
    per_second : int
        Rows of a second of event time.
    batch_rows : int
        Rows of a batch of input.
    """

    name: str
    rows: int
    window_s: int
    stream: str
    key: str
    read: tuple[str, ...]
    made: Callable[..., Workload]
    where: str
    aggregate: str
    loop: Callable[..., int]
    groups: int
    per_second: int = PER_SECOND
    batch_rows: int = BATCH_ROWS

    @property
    def window_ms(self) -> int:
        return 1000 * self.window_s

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        return {self.stream: self.schema}

    @property
    def is_table(self) -> bool:
        return not self.window_s

    def inputs(self, worker: int) -> Inputs:
        return [(0, batch) for batch in self.batches(worker)]

    @property
    def sent(self) -> list[Sent]:
        """A column that is only filtered by is not sent."""
        if self.where:
            return [Sent(self.read[:2], self.read[2])]
        return [Sent(self.read)]

    @property
    def sent_sql(self) -> str:
        """The query over rows that were filtered."""
        window = f"window(t, '{self.window_s} seconds')"
        keys = [self.key] if self.is_table else [self.key, window]
        shown = [self.key] if self.is_table else [self.key, f"{window}.start AS w"]
        return (
            f"SELECT {', '.join(shown)}, {self.aggregate} AS value "
            f"FROM {self.stream} GROUP BY {', '.join(keys)}"
        )

    @property
    def schema(self) -> pa.Schema:
        """Of the columns that the query reads."""
        whole = self.workload.schemas[self.stream]
        return pa.schema([whole.field(name) for name in self.read])

    def batches(self, worker: int) -> list[pa.RecordBatch]:
        """Rows of one worker: the columns that the query reads, of the whole record."""
        made = self.made_for(worker).batches(self.stream, rows=self.batch_rows)
        return [batch.select(list(self.read)) for batch in made]

    def tables(self, worker: int) -> dict[str, pa.Table]:
        return {self.stream: pa.Table.from_batches(self.batches(worker))}

    def made_for(self, worker: int) -> Workload:
        seconds = self.rows / self.per_second
        return self.made(seconds=seconds, rate=self.per_second, seed=1 + worker)

    def arrays(self, batches: list[pa.RecordBatch]) -> list[tuple[npt.NDArray, ...]]:
        """Columns as the loop by hand takes them."""
        if self.is_table:
            return [tuple(batch[name].to_numpy() for name in self.read) for batch in batches]
        ints = [in_ms(pa.Table.from_batches([batch])) for batch in batches]
        return [tuple(own[name].to_numpy() for name in self.read) for own in ints]

    def begin(self, arrays: list[tuple[npt.NDArray, ...]]) -> int:
        """Begin of the one window that the rows are in, in ms; 0 without windows."""
        if self.is_table:
            return 0
        return int(arrays[0][1][0]) // self.window_ms * self.window_ms

    def hand_input(self, inputs: Inputs) -> list[tuple[npt.NDArray, ...]]:
        return self.arrays([batch for _, batch in inputs])

    def by_hand(self, arrays: list[tuple[npt.NDArray, ...]]) -> pa.Table:
        """All groups, of rows that are in one window."""
        found = hand.give(self.folded_by_hand(arrays), self.begin(arrays))
        return found.drop("w") if self.is_table else found

    def folded_by_hand(self, arrays: list[tuple[npt.NDArray, ...]]) -> npt.NDArray[np.int64]:
        """The table of the rows' one window."""
        begin = self.begin(arrays)
        return hand.fold(self.loop, arrays, self.groups, begin, begin + self.window_ms)


def ysb(rows: int, window_s: int = 600, ads: int = 10_000_000, skew: float = 0.0) -> Job:
    """Views of each of ten million keys, even or by Zipf's law."""
    return Job(
        name=f"YSB, {window_s} s",
        rows=rows,
        window_s=window_s,
        stream="ads",
        key="ad",
        read=("ad", "t", "kind"),
        made=partial(YSB, ads=ads, window_s=window_s, skew=skew),
        where="kind = 0",
        aggregate="count(*)",
        loop=hand.count_views,
        groups=min(ads, rows // 3 + rows // 30),
    )


def nb7(rows: int, window_s: int = 60, auctions: int = 1_000_000) -> Job:
    """The highest price at each auction, most bids at few."""
    return Job(
        name=f"NB7, {window_s} s",
        rows=rows,
        window_s=window_s,
        stream="bids",
        key="auction",
        read=("auction", "t", "price"),
        made=partial(NB7, auctions=auctions, window_s=window_s),
        where="",
        aggregate="max(price)",
        loop=hand.highest_prices,
        groups=min(auctions, rows),
    )


def cm(rows: int, window_s: int = 2, jobs: int = 100_000) -> Job:
    """The mean CPU of each job, most events of few."""
    return Job(
        name=f"CM, {window_s} s",
        rows=rows,
        window_s=window_s,
        stream="tasks",
        key="job",
        read=("job", "t", "cpu"),
        made=partial(CM, jobs=jobs, window_s=window_s),
        where="",
        aggregate="avg(cpu)",
        loop=hand.sum_parts,
        groups=min(jobs, rows),
    )


def in_one_window(job: Job) -> Job:
    """The same, with all rows of a worker in one window, as the loop by hand needs them."""
    if job.is_table:
        return job
    return replace(job, per_second=max(job.per_second, -(-job.rows // job.window_s)))


def ro(rows: int, keys: int = 100_000_000, skew: float = 0.0) -> Job:
    """Occurrences of each of 100 million keys."""
    return Job(
        name="RO",
        rows=rows,
        window_s=0,
        stream="reads",
        key="key",
        read=("key",),
        made=partial(RO, keys=keys, skew=skew),
        where="",
        aggregate="count(*)",
        loop=hand.count_keys,
        groups=min(keys, rows),
    )


def in_ms(table: pa.Table) -> pa.Table:
    """The same with ``t`` as whole milliseconds; nothing is copied."""
    place = table.schema.get_field_index("t")
    return table.set_column(place, "t", table["t"].cast(pa.int64()))


def result(table: pa.Table) -> pa.Table:
    """The columns as whole numbers, but for means, and times in ms, whatever their names."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz))
        is_mean = pa.types.is_floating(column.type)
        columns.append(column.cast(pa.float64() if is_mean else pa.int64()))
    return pa.table(columns, names=[str(number) for number in range(len(columns))])


_MIXERS = tuple(
    np.uint64(mixer)
    for mixer in (
        0x9E3779B97F4A7C15,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x27D4EB2F165667C5,
        0xD6E8FEB86659FD93,
    )
)


def answer(table: pa.Table) -> Answer:
    """What two contenders must agree on, in whatever order: numbers of groups, and a checksum."""
    mixed = np.zeros(table.num_rows, np.uint64)
    for column, mixer in zip(result(table).columns, _MIXERS, strict=False):
        # A product and a shift: a sum of xors alone could cancel out.
        mixed = (mixed ^ column.to_numpy().view(np.uint64)) * mixer
        mixed ^= mixed >> np.uint64(32)
    return Answer(table.num_rows, int(mixed.sum(dtype=np.uint64)))


def agree(answers: dict[str, Answer]) -> None:
    """See that contenders gave the same rows.

    Raises
    ------
    PenstockError
        If they differ.
    """
    if len(set(answers.values())) > 1:
        raise PenstockError(f"contenders gave different groups: {answers}; one of them is wrong")
