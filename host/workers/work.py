"""What the members of a stream do with its rows: a job's query, compiled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock.plan.query import Side

from ..emit.groups.closing import Limit
from ..grouping.intake import RowIntake
from ..windows.source import Span
from .counts import EpochState


class Work(ABC):
    """A compiled query: how rows come in, what each worker makes of them, what leaves.

    Feeds are numbered so that ``feed % len(dealt)`` is the source that a feed is of.

    Attributes
    ----------
    sides : sequence of Side
        The sources, by number.
    dealt : sequence of pyarrow.Schema
        Columns of each source that workers get.
    hidden, output : pyarrow.Schema
        Of what workers give, with the columns that the order needs; of what callers get.
    fingerprint : str
        Checksum of what the query computes, whatever its text looks like.
    shares_steps : bool
        Whether all workers take the same steps, each a share of them.
    """

    sides: Sequence[Side]
    dealt: Sequence[pa.Schema]
    hidden: pa.Schema
    output: pa.Schema
    fingerprint: str
    shares_steps = False

    @abstractmethod
    def intake(
        self,
        schemas: Mapping[str, pa.Schema],
        *,
        disorder: Span | Mapping[str, Span],
        idle_s: float | None,
    ) -> RowIntake:
        """Return what judges the rows of the sources, whose schemas are given by table."""

    @abstractmethod
    def limit(self, time: int) -> Limit:
        """Return what is complete once no row below a time comes: never falls."""

    def heavy(self, tables: Mapping[str, pa.Table]) -> tuple[int, ...]:
        """Return the cells of keys that have so many rows of tables that workers share each."""
        return ()

    def share(self, board: int, count: int) -> None:  # noqa: B027
        """Let the state made next share memory with those of other workers of this host.

        Parameters
        ----------
        board : int
            Descriptor from :func:`.joining.runs.create_board`, which all of them map.
        count : int
            How many workers of the host there are, this one among them.
        """

    @abstractmethod
    def state(self, rank: int) -> EpochState:
        """Make the state of a worker."""

    @abstractmethod
    def close(self) -> None:
        """Close what states need; what is asked of plain values goes on."""
