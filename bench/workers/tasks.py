"""What workers have to do in a benchmark, whatever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.host.workers.compiling import compiled
from penstock.host.workers.job import Job as WorkersJob
from penstock.host.workers.work import Work
from penstock.host.workers.worker_loop import EPOCH_BYTES
from penstock.query.options import QueryOptions
from penstock.sim.workloads.workload import Workload

#: Batches of sources, by number, in the order in which they come.
Inputs = list[tuple[int, pa.RecordBatch]]


@dataclass(frozen=True)
class Sent:
    """What of a source is sent where rows are spread over workers.

    Parameters
    ----------
    columns : tuple of str
        The key first.
    filtered_by : str
        Rows are sent where this column is 0; all rows if empty.
    """

    columns: tuple[str, ...]
    filtered_by: str = ""


class Task(ABC):
    """A query over rows in memory, of which each worker has as many.

    Attributes
    ----------
    name : str
    rows : int
        Of each worker, of all sources.
    """

    name: str
    rows: int
    is_table: bool = False

    @property
    def short(self) -> str:
        """The name alone, without a size."""
        return self.name.partition(",")[0]

    @cached_property
    def workload(self) -> Workload:
        """The rows of the first worker."""
        return self.made_for(0)

    @property
    def sql(self) -> str:
        """The query in Penstock's SQL."""
        return self.workload.query()

    @abstractmethod
    def made_for(self, worker: int) -> Workload:
        """The rows of a worker."""

    @abstractmethod
    def tables(self, worker: int) -> dict[str, pa.Table]:
        """The columns that the query reads of one worker's rows, by stream."""

    @property
    @abstractmethod
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Columns that the query reads, by stream, in the order of sources."""

    @abstractmethod
    def inputs(self, worker: int) -> Inputs:
        """Rows of one worker: the columns that the query reads, of the whole record."""

    @abstractmethod
    def hand_input(self, inputs: Inputs) -> Any:
        """Rows as the loop by hand takes them."""

    @abstractmethod
    def by_hand(self, arrays: Any) -> pa.Table:
        """What the loop by hand makes of them."""

    @property
    @abstractmethod
    def sent(self) -> Sequence[Sent]:
        """What UpPar sends, by source."""

    @property
    def sent_sql(self) -> str:
        """The query over rows that were filtered."""
        return self.sql

    @property
    def sent_schemas(self) -> dict[str, pa.Schema]:
        """Columns that are sent, by stream."""
        return {
            name: pa.schema([schema.field(column) for column in own.columns])
            for (name, schema), own in zip(self.schemas.items(), self.sent, strict=True)
        }

    def work(self, size: int) -> Work:
        """What each of so many workers does."""
        return self._work(self.sql, self.schemas, size)

    def sent_work(self) -> Work:
        """What one worker does with the rows that are sent to it."""
        return self._work(self.sent_sql, self.sent_schemas, 1)

    def _work(self, sql: str, schemas: Mapping[str, pa.Schema], size: int) -> Work:
        job = WorkersJob(
            sql, schemas, QueryOptions(), size, False, 0.0, EPOCH_BYTES, None, False, self.is_table
        )
        return compiled(job)
