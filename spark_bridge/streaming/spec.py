"""A streaming join as it travels to the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import UsageError
from penstock.host.prune.sizes import Pruning
from penstock.plan.query import JoinQuery

from ..compiled import Compiled
from ..devices import DeviceChoice
from ..key_choice import Wanted, require_keys, why_not_by_keys
from ..rows import from_slots, used_schema

if TYPE_CHECKING:
    from ..request import Request
    from .waiting_rows import WaitRule

#: How lanes of a stream get rows.
PARTITIONINGS = ("auto", "rows", "keys")

#: New rows of a micro-batch from which on ``auto`` deals by keys. A lane that reads all of fewer
#: rows is done sooner than one that reads its own from parts of files.
LEAST_ROWS = 1 << 15

#: Column of the rows on their way to the tasks that says which side they are of.
IS_RIGHT = "is_right"


@dataclass(frozen=True)
class Rules:
    """Settings of lanes that own keys; they may change from start to start.

    Parameters
    ----------
    planner : str
    tolerance : float
    cells : int
        Of hashes, or about as many ranges of a band.
    wanted : Wanted or None
    least_rows : int
        Micro-batches of fewer new rows are shared out by place.
    """

    planner: str
    tolerance: float
    cells: int
    wanted: Wanted | None
    least_rows: int = 0

    @staticmethod
    def for_request(request: Request, partitioning: str | None) -> Rules | None:
        """Decide whether lanes of a stream own keys; None if they own none.

        Raises
        ------
        UsageError
            The partitioning is unknown, or impossible.
        """
        query, wanted, conf = request.query, request.wanted, request.conf
        if partitioning is None:
            partitioning = "auto" if wanted is None else "keys"
        if partitioning not in PARTITIONINGS:
            raise UsageError(
                f"partitioning of a stream must be one of {', '.join(PARTITIONINGS)}, not "
                f"{partitioning!r}"
            )
        if partitioning == "keys":
            require_keys(query, wanted, stepwise=True)
        if partitioning == "rows" or why_not_by_keys(query, wanted, stepwise=True) is not None:
            return None
        planner, tolerance, cells = conf.routing_planner, conf.routing_tolerance, conf.routing_cells
        return Rules(planner, tolerance, cells, wanted, LEAST_ROWS if partitioning == "auto" else 0)


@dataclass(frozen=True)
class JoinSpec:
    """A streaming join, with all that its tasks need to know.

    Parameters
    ----------
    compiled : Compiled
    disorder : mapping of side to int
        How far below its source's largest time a row may lie, in the window's unit.
    slots : mapping of side to mapping of column to slot
        The slot of each column in the rows that Spark sends.
    output : pyarrow.Schema
    device : DeviceChoice
    pruning : Pruning or None
    idle_s : float, optional
        Seconds after which output no longer waits for a source that sends nothing.
    routing : Rules, optional
        How lanes get keys; None shares rows out by place.
    waiting : WaitRule, optional
        Rows of the join that wait until their groups are complete.
    """

    compiled: Compiled
    disorder: Mapping[str, int]
    slots: Mapping[str, Mapping[str, str]]
    output: pa.Schema
    device: DeviceChoice
    pruning: Pruning | None
    idle_s: float | None = None
    routing: Rules | None = None
    waiting: WaitRule | None = None

    def query(self) -> JoinQuery:
        """The compiled query, over tables named by side."""
        return self.compiled.query()

    def side_table(self, side: str, rows: pa.Table) -> pa.Table:
        """Rows of one side as they came from Spark, with the columns that the query needs."""
        return from_slots(rows, self.slots[side], self.compiled.by_side()[side])

    def side_schema(self, side: str) -> pa.Schema:
        """Schema of the columns of one side that the query needs."""
        return used_schema(self.slots[side], self.compiled.by_side()[side])

    def whole(self, side: str, tables: Iterable[pa.Table]) -> pa.Table:
        """One table of any number of tables of :meth:`side_schema`; each column is one chunk."""
        none = self.side_schema(side).empty_table()
        return pa.concat_tables([none, *tables]).combine_chunks()

    @property
    def names(self) -> dict[str, str]:
        """The query's alias of each side."""
        return self.query().names
