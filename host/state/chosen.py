"""Chooses how contributions of rows are made: column by column, or by a loop of the query."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

import pyarrow as pa

from penstock.plan.group_query import GroupQuery

from ..devices.cpu.operations import NotCompilable
from .compiled import CompiledContributions, has_null
from .contributions import ColumnContributions, Contributions
from .entry_layout import EntryLayout
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


class _Loop:
    """A compiled loop, once there is one: for batches without NULL, or for all.

    Parameters
    ----------
    make : callable
        Compiles it.
    """

    def __init__(self, make: Callable[[], CompiledContributions]) -> None:
        self._make = make
        self._is_open, self._is_sought = True, False
        self.found: CompiledContributions | None = None
        #: Rows that it would have been for.
        self.rows = 0

    @property
    def is_due(self) -> bool:
        """Whether so many rows have come that compiling is worth its time."""
        return self._is_open and self.rows >= COMPILED_FROM_ROWS

    @property
    def is_load_due(self) -> bool:
        """Whether to look for machine code that is kept."""
        return self._is_open and not self._is_sought and self.rows >= LOADED_FROM_ROWS

    def compile(self) -> None:
        """Compile it, or load it where it is kept; once."""
        if not self._is_open:
            return
        self._is_sought = True
        try:
            loop = self._make()
        except NotCompilable as cause:
            _log.info("contributions are computed column by column: %s", cause)
        else:
            self.found = loop if loop.is_safe else None
        self._is_open = False


class ChosenContributions:
    """Makes contributions by a compiled loop, once there is one and the values fit it.

    A loop for columns without NULL is compiled first. Only where many rows come in batches with
    NULLs there is a second one, which takes longer for each row.

    Parameters
    ----------
    query : GroupQuery
    layout : EntryLayout
    schema : pyarrow.Schema
        Of the batches.
    """

    def __init__(self, query: GroupQuery, layout: EntryLayout, schema: pa.Schema) -> None:
        self._columns = ColumnContributions(query, layout)
        self._names = [name for name in self._columns.computed if schema.field(name).nullable]
        self._without_null, self._general = (
            _Loop(partial(CompiledContributions, query, layout, schema, CHUNK_ROWS, without_null=w))
            for w in (True, False)
        )

    @property
    def is_due(self) -> bool:
        """Whether so many rows have come that compiling is worth its time."""
        return self._without_null.is_due or self._general.is_due

    @property
    def is_load_due(self) -> bool:
        """Whether to look for machine code that is kept."""
        return self._without_null.is_load_due or self._general.is_load_due

    def compile(self) -> None:
        """Compile all loops, or load them where they are kept; once."""
        self._without_null.compile()
        self._general.compile()

    def compile_due(self) -> None:
        """Compile the loops that are due, or load them; once."""
        for loop in (self._without_null, self._general):
            if loop.is_due or loop.is_load_due:
                loop.compile()

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
        for own in (self._without_null, self._general):
            if own.found is not None and own.found.fits(batch):
                return own.found.of(batch, texts, place, target)
        is_general = any(has_null(batch.column(n)) for n in self._names if n in batch.schema.names)
        own = self._general if is_general else self._without_null
        own.rows += batch.num_rows
        return [
            self._columns.of(batch.slice(start, CHUNK_ROWS), texts, place + start)
            for start in range(0, batch.num_rows, CHUNK_ROWS)
        ]
