"""Folding of rows into groups, after a look-up if the query has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from penstock.plan.group_query import GroupQuery

from ..emit.groups.closing import Limit
from ..join.lookup.lookup_join import RelationJoin
from ..state import GroupState


class GroupFolding:
    """Groups of the rows of one source, folded as the rows come.

    Parameters
    ----------
    query : GroupQuery
    schema : pyarrow.Schema
        Of the rows that come in.
    lookup : RelationJoin, optional
        Of ``query.lookup``, ordered; its output is folded, batch by batch.

    Attributes
    ----------
    timeless, filtered : int
        Rows so far that are in no group: without an event time, or left out by WHERE.
    """

    def __init__(
        self, query: GroupQuery, schema: pa.Schema, lookup: RelationJoin | None = None
    ) -> None:
        self._lookup = lookup
        self._state = GroupState(query, schema if lookup is None else lookup.schema)
        self.timeless = self.filtered = 0
        # Rows folded of each feed: they decide between equal values of min_by.
        self._rows: Counter[int] = Counter()
        #: After an error, the feed of rows that the look-up has taken and not answered.
        self._unanswered: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._state.schema

    @property
    def entries(self) -> int:
        """Groups that have not been released."""
        return self._state.entries

    @property
    def nbytes(self) -> int:
        """Bytes of the groups."""
        return self._state.nbytes

    @property
    def is_settled(self) -> bool:
        """Whether every row that was taken is in its group."""
        return self._unanswered is None

    def fold(self, batch: pa.RecordBatch, feed: int = 0) -> None:
        """Fold the next rows of a feed.

        Raises
        ------
        DataError
            A value breaks a promise of its column.
        FileError
            The relation cannot be read. If ``is_settled`` is false, the rows were taken, and
            :meth:`settle` folds them once it can be read again.
        """
        if self._lookup is None:
            self._add(batch, feed)
            return
        before = self._lookup.batches_in
        answers = self._lookup.push(batch)
        try:
            for rows in answers:
                self._unanswered = feed
                self._add(rows, feed)
        finally:
            if self._lookup.batches_in > before:
                self._unanswered = feed
        self.settle()

    def settle(self) -> None:
        """Fold the answers to earlier rows that the look-up still owes after an error."""
        if self._lookup is None or self._unanswered is None:
            return
        for rows in self._lookup.finish():
            self._add(rows, self._unanswered)
        self._unanswered = None

    def _add(self, rows: pa.RecordBatch, feed: int) -> None:
        folded = self._state.fold(rows, feed, self._rows[feed])
        self._rows[feed] += rows.num_rows
        self.timeless += folded.without_time
        self.filtered += folded.filtered

    def release(self, limit: Limit) -> pa.RecordBatch:
        """Return the groups whose time key is below a limit, by time key, and forget them.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        return self._state.release(limit)

    def trim(self) -> None:
        """Free the memory of groups that were released."""
        self._state.trim()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield all groups, and forget them.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        yield self._state.finish()
