"""How a case runs: as tables or streams, with which layout in memory, pruning and pace."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa

from penstock import Flow, Pruning, Running

TINY = Pruning(least_pairs=1, run_rows=(2, 8), always=True)
"""Sizes by which even tables of a few rows are pruned."""


def sliced(table: pa.Table) -> pa.Table:
    """The table as a part of a longer one, so that its arrays have offsets."""
    longer = pa.concat_tables([table, table, table]).combine_chunks()
    return longer.slice(table.num_rows, table.num_rows)


def chunked(table: pa.Table) -> pa.Table:
    """The table in three chunks, one of them empty."""
    return pa.concat_tables([table.slice(0, 1), table.slice(0, 0), table.slice(1)])


def noisy(table: pa.Table) -> pa.Table:
    """The table with bytes under its NULLs that mean nothing."""
    columns = []
    for column in table.combine_chunks().columns:
        array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        fixed = pa.types.is_integer(array.type) or pa.types.is_temporal(array.type)
        fixed = fixed or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)
        if fixed and array.null_count:
            size = array.type.bit_width // 8
            data = np.frombuffer(array.buffers()[1], np.uint8)[: len(array) * size]
            data = data.reshape(len(array), size).copy()
            data[array.is_null().to_numpy(zero_copy_only=False)] = 0x55
            validity = array.is_valid().buffers()[1]
            buffers = [validity, pa.py_buffer(data.tobytes())]
            array = pa.Array.from_buffers(array.type, len(array), buffers)
        columns.append(array)
    return pa.table(columns, schema=table.schema)


LAYOUTS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "sliced": sliced,
    "chunked": chunked,
    "noisy": noisy,
}


@dataclass(frozen=True)
class Mode:
    """How a case runs.

    Parameters
    ----------
    stream
        Seed of the cuts of streams; None for tables.
    layout
        A name of :data:`LAYOUTS`, or "".
    disorder
        Steps of time by which rows of a stream may be behind others.
    """

    stream: int | None = None
    pruning: bool | Pruning = True
    layout: str = ""
    disorder: int = 0
    ordered: bool = False
    task_evaluations: int | None = None
    latency_s: float = 0.0

    def __str__(self) -> str:
        words = ["tables"]
        if self.stream is not None:
            words = [f"streams cut by seed {self.stream}"]
            if self.disorder:
                words.append("in disorder")
            if self.latency_s:
                words.append("with a latency target")
        if self.pruning is not True:
            words.append("without pruning" if self.pruning is False else "with tiny pruning")
        return ", ".join(words + ([self.layout] if self.layout else []))

    def flow(self) -> Flow:
        running = Running(
            ordered=self.ordered, task_evaluations=self.task_evaluations, pruning=self.pruning
        )
        return Flow(latency_s=self.latency_s, running=running)

    def laid_out(self, table: pa.Table) -> pa.Table:
        return LAYOUTS[self.layout](table) if self.layout else table

    def span(self, step: int, numeric: bool) -> int | datetime.timedelta:
        """The disorder, as an argument of ``penstock.stream``."""
        if numeric:
            return self.disorder * step
        return datetime.timedelta(microseconds=max(1, step // 1000) * self.disorder)


def random_mode(rng: Random, at: int, streams: bool) -> Mode:
    """How a data set runs: every fourth as streams."""
    layout = rng.choice(["", "", "", "", *LAYOUTS])
    pruning = rng.choice([True, False, TINY, TINY])
    if not streams or at % 4 != 3:
        return Mode(pruning=pruning, layout=layout)
    return Mode(
        stream=rng.randrange(1 << 30),
        pruning=pruning,
        layout=layout,
        disorder=rng.choice([0, 0, 1, 4]),
        ordered=rng.random() < 0.3,
        task_evaluations=rng.choice([None, None, 7]),
        latency_s=0.004 if rng.random() < 0.05 else 0.0,
    )
