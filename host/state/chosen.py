"""Choice of how contributions are computed: column by column, or by a loop of the query."""

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
    """A loop that is compiled when enough rows have come, and the count of these rows.

    Parameters
    ----------
    make : callable
        Compiles the loop.
    """

    def __init__(self, make: Callable[[], CompiledContributions]) -> None:
        self._make = make
        self._is_open, self._is_sought = True, False
        self.compiled: CompiledContributions | None = None
        #: Rows that were computed without the loop, for want of it.
        self.rows = 0

    @property
    def is_due(self) -> bool:
        """Whether enough rows have come for compiling to be worth its time."""
        return self._is_open and self.rows >= COMPILED_FROM_ROWS

    @property
    def is_load_due(self) -> bool:
        """Whether to look for machine code that an earlier run has kept."""
        return self._is_open and not self._is_sought and self.rows >= LOADED_FROM_ROWS

    def compile(self) -> None:
        """Compile the loop, or load kept machine code; only the first call does anything."""
        if not self._is_open:
            return
        self._is_sought = True
        try:
            loop = self._make()
        except NotCompilable as cause:
            _log.info("contributions are computed column by column: %s", cause)
        else:
            self.compiled = loop if loop.is_safe else None
        self._is_open = False


class ChosenContributions:
    """Maker of contributions that uses a compiled loop once there is one and the values fit it.

    There are two loops: one for columns without NULL, and one for any, which takes longer for each
    row and is compiled only if many rows come in batches with NULLs.

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
        """Compile both loops, or load kept machine code."""
        self._without_null.compile()
        self._general.compile()

    def compile_due(self) -> None:
        """Compile the loops that are due, or load kept machine code."""
        for loop in (self._without_null, self._general):
            if loop.is_due or loop.is_load_due:
                loop.compile()

    def make(
        self,
        batch: pa.RecordBatch,
        texts: Texts,
        place: int,
        target: Callable[[], Target] | None,
    ) -> Iterable[Contributions]:
        """Make the contributions of a batch; each may be read until the next one is asked for.

        Errors are raised before the first.

        Parameters
        ----------
        texts : Texts
            Gets the texts that are new.
        place : int
            Number of the batch's first row in its feed, with the feed in the upper bits.
        target : callable or None
            Returns the log store to merge rows into at once; None to make entries of all rows.

        Raises
        ------
        DataError
            A CAST met a value that does not fit, or a time exceeds 64 bits.
        SchemaError
            The batch lacks a column.
        """
        for loop in (self._without_null, self._general):
            if loop.compiled is not None and loop.compiled.fits(batch):
                return loop.compiled.make(batch, texts, place, target)
        is_general = any(has_null(batch.column(n)) for n in self._names if n in batch.schema.names)
        loop = self._general if is_general else self._without_null
        loop.rows += batch.num_rows
        return [
            self._columns.make(batch.slice(start, CHUNK_ROWS), texts, place + start)
            for start in range(0, batch.num_rows, CHUNK_ROWS)
        ]
