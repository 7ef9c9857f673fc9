"""Chooses how contributions of rows are made: column by column, or by a loop of the query."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import pyarrow as pa

from penstock.plan.group_query import GroupQuery

from ..devices.cpu.operations import NotCompilable
from .compiled import CompiledContributions
from .contributions import ColumnContributions, Contributions
from .layout import EntryLayout
from .store import Target
from .texts import Texts

_log = logging.getLogger("penstock.state")

#: Rows whose contributions are made together: their entries fit the second cache.
CHUNK_ROWS = 1 << 15
#: Rows after which the loops of the query are compiled: so many take NumPy and the loops that work
#: by tables a third of a second, and compiling takes two, once; then the machine code is kept.
COMPILED_FROM_ROWS = 1 << 20
#: Rows after which machine code is loaded where it is kept, which takes a tenth of a second.
LOADED_FROM_ROWS = 1 << 13


class ChosenContributions:
    """Makes contributions by the compiled loop, once there is one and the values fit it.

    Parameters
    ----------
    query : GroupQuery
    layout : EntryLayout
    schema : pyarrow.Schema
        Of the batches.
    """

    def __init__(self, query: GroupQuery, layout: EntryLayout, schema: pa.Schema) -> None:
        self._query, self._layout, self._schema = query, layout, schema
        self._columns = ColumnContributions(query, layout)
        self._loop: CompiledContributions | None = None
        self._is_open, self._is_sought = True, False
        self._rows = 0

    @property
    def is_due(self) -> bool:
        """Whether so many rows have come that compiling is worth its time."""
        return self._is_open and self._rows >= COMPILED_FROM_ROWS

    def is_load_due(self) -> bool:
        """Whether to look for machine code that is kept; once."""
        is_due = self._is_open and not self._is_sought and self._rows >= LOADED_FROM_ROWS
        self._is_sought |= is_due
        return is_due

    def compile(self) -> None:
        """Compile the loop, or load it where it is kept; once."""
        if not self._is_open:
            return
        try:
            loop = CompiledContributions(self._query, self._layout, self._schema, CHUNK_ROWS)
        except NotCompilable as cause:
            _log.info("contributions are computed column by column: %s", cause)
        else:
            self._loop = loop if loop.is_safe else None
        self._is_open = False

    def of(
        self,
        batch: pa.RecordBatch,
        texts: Texts,
        place: int,
        target: Callable[[], Target] | None,
    ) -> Iterable[Contributions]:
        """The contributions of a batch, each valid until the next; a failure comes before all.

        Parameters
        ----------
        texts : Texts
            Gets the texts that are new.
        place : int
            Of the batch's first row.
        target : callable or None
            Gives what rows may be merged into at once; None if they may not.

        Raises
        ------
        DataError
            A CAST met a value that does not fit, or a time exceeds 64 bits.
        SchemaError
            The batch lacks a column.
        """
        self._rows += batch.num_rows
        if self._loop is not None and self._loop.fits(batch):
            return self._loop.of(batch, texts, place, target)
        return [
            self._columns.of(batch.slice(start, CHUNK_ROWS), texts, place + start)
            for start in range(0, batch.num_rows, CHUNK_ROWS)
        ]
