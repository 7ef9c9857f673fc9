"""Compiled query of a job, as the members of a stream use it."""

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
    """Compiled query: its intake, its state on each worker, and its output schema.

    Feeds are numbered so that ``feed % len(dealt_schemas)`` is the number of a feed's source.

    Attributes
    ----------
    sides : sequence of Side
        The sources, by number.
    dealt_schemas : sequence of pyarrow.Schema
        Columns of each source that workers get.
    hidden, output : pyarrow.Schema
        Of the output rows of workers, with hidden columns for the order; of the rows callers get.
    fingerprint : str
        Checksum of the compiled query.
    shares_steps : bool
        Whether all workers take the same steps, each computing a share.
    """

    sides: Sequence[Side]
    dealt_schemas: Sequence[pa.Schema]
    hidden: pa.Schema
    output: pa.Schema
    fingerprint: str
    shares_steps = False

    @abstractmethod
    def intake(self, disorder: Span | Mapping[str, Span], idle_s: float | None) -> RowIntake:
        """Make the intake of the sources."""

    @abstractmethod
    def limit(self, time: int) -> Limit:
        """Return the limit below which output is complete once no row below a time comes.

        It never falls as the time rises.
        """

    def heavy(self, tables: Mapping[str, pa.Table]) -> tuple[int, ...]:
        """Return the heavy cells of tables: with so many rows that workers share each cell."""
        return ()

    def share(self, board: int, count: int) -> None:  # noqa: B027
        """Let the next :meth:`state` share memory with other workers of this host.

        Parameters
        ----------
        board : int
            Descriptor from :func:`.joining.runs.create_board`, which all of them map.
        count : int
            How many workers of the host there are, this one among them.
        """

    @abstractmethod
    def state(self, rank: int) -> EpochState:
        """Make the state of the worker of a rank."""

    @abstractmethod
    def close(self) -> None:
        """Close resources of states; :meth:`limit`, :meth:`intake` and attributes still work."""
