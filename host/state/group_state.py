"""Groups of a query on one worker, helper and leader at once: folded here, merged where led."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError
from penstock.kept_code import NotKeptError, only_kept
from penstock.plan.group_query import GroupQuery, time_key

from ..emit.groups.closing import Limit
from ..routing.base import WORKER_CELLS, base_homes
from .chosen import ChosenContributions
from .contributions import MOST_FEEDS, ROW_BITS, Contributions, FoldedRows
from .entry_layout import EntryLayout
from .exchange import Exchange
from .group_rows import GroupRows
from .merger import EntryMerger
from .panes import Panes
from .sessions import SessionParts
from .store import LogStore, Target
from .texts import Texts

#: With more entries per row than this, an epoch gained nothing from folding before sending.
USEFUL_ENTRIES_PER_ROW = 0.8
#: Number of epochs after such a one that append contributions without looking for equal keys.
APPENDING_EPOCHS = 16


class GroupState:
    """State backend of one worker: the groups that it leads, and changes for other leaders.

    It uses no threads, processes or files. A single worker folds rows into the groups that it
    leads; each of several folds them into a log of changes, which :meth:`seal` splits by leader.

    Parameters
    ----------
    query : GroupQuery
    schema : pyarrow.Schema
        Of the source's batches.
    rank, size : int
        This worker, and how many there are.
    ordered : bool
        Whether groups that are released together are sorted by their keys.

    Raises
    ------
    QueryError
        A key cannot be grouped, or a sum may need more digits than a decimal has.
    UsageError
        There is no such rank.
    """

    #: Whether few rows are merged by NumPy, rather than to compile loops.
    _interprets = False

    def __init__(
        self,
        query: GroupQuery,
        schema: pa.Schema,
        *,
        rank: int = 0,
        size: int = 1,
        ordered: bool = True,
    ) -> None:
        if not 1 <= size <= WORKER_CELLS or not 0 <= rank < size:
            raise UsageError(
                f"worker {rank} of {size} cannot be: ranks count from 0, and there are at most "
                f"{WORKER_CELLS} workers"
            )
        self.query, self.rank, self.size = query, rank, size
        self._homes = base_homes(WORKER_CELLS, size).astype(np.int16)
        aggregation = query.aggregation
        session = aggregation.session
        key = None if query.source.time is None else time_key(query)
        time = None if key is None else key.index
        layout = EntryLayout(
            aggregation.keys,
            time if session is None else session.key,
            aggregation.aggregates,
            schema,
            has_sessions=session is not None,
        )
        self._layout = layout
        self._output = GroupRows(query, layout, {query.source.side: schema}, ordered=ordered)
        self._contributions = ChosenContributions(query, layout, schema)
        self._merger = EntryMerger(layout, interprets=self._interprets)
        self._led = Panes(self._merger)
        self._sessions = None if session is None else SessionParts(session, layout, self._merger)
        #: Log of the changes since the last seal, and log of the epoch before; they alternate.
        self._changes = [LogStore(self._merger), LogStore(self._merger)] if size > 1 else []
        digest = layout.digest(self._output.schema)
        self._exchange = Exchange(layout, digest, rank, size)
        self._rows = 0
        self._appending = 0
        #: Bytes of the rows that were folded since the last seal.
        self.pending_bytes = 0

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output rows."""
        return self._output.schema

    @property
    def changed(self) -> int:
        """Entries in the log of changes."""
        return self._changes[0].count if self._changes else 0

    @property
    def entries(self) -> int:
        """Number of groups that are led here."""
        return self._led.entries

    @property
    def nbytes(self) -> int:
        """Bytes of all groups, changes, indexes and texts."""
        changes = sum(log.nbytes for log in self._changes)
        return self._led.nbytes + changes + self._exchange.nbytes

    def fold(self, batch: pa.RecordBatch, feed: int = 0, first: int = 0) -> FoldedRows:
        """Fold the rows of a batch into the groups led here, or into the changes.

        If it fails, nothing is folded.

        Parameters
        ----------
        feed : int
            Number of the feed.
        first : int
            Number of the batch's first row in it. ``min_by`` and ``max_by`` take the first of
            equal rows by (time, feed, row).

        Raises
        ------
        DataError
            A CAST met a value that does not fit, or a time exceeds 64 bits.
        SchemaError
            The batch lacks a column.
        """
        if self._contributions.is_due:
            self._compile_due()
        elif self._contributions.is_load_due:
            with only_kept(), suppress(NotKeptError):
                self._compile_due()
        if not 0 <= feed < MOST_FEEDS or not 0 <= first < (1 << ROW_BITS) - batch.num_rows:
            raise UsageError(f"row {first} of feed {feed} has no number; count both from 0")
        place, target = (feed << ROW_BITS) + first, None if self._appending else self._target
        parts = self._contributions.make(batch, self._texts, place, target)
        rows = filtered = without_time = 0
        for part in parts:
            self._add(part)
            rows += len(part.entries) + part.merged
            filtered += part.filtered
            without_time += part.without_time
        self._tidy()
        self._rows += rows
        self.pending_bytes += batch.nbytes
        return FoldedRows(rows, filtered, without_time)

    def trim(self) -> None:
        """Free the memory of released groups, which is otherwise kept for the next ones."""
        self._led.trim()

    def seal(self) -> list[list[memoryview]]:
        """End the epoch: return the changes as blocks by leader, and merge those led here.

        A leader must merge the blocks of a helper in their order, each once.

        Returns
        -------
        list of lists of memoryview
            By rank; this worker's is empty.
        """
        out: list[list[memoryview]] = [[] for _ in range(self.size)]
        if self._changes:
            sealed = self._changes[0]
            self._changes.reverse()
            parts = self._merger.by_leader(sealed.entries, self._texts.hashes, self._homes)
            for rank, entries in enumerate(parts):
                if rank == self.rank:
                    self._led.merge(entries, self._texts.hashes)
                else:
                    out[rank] = self._exchange.blocks(rank, entries)
            self._note_use(sealed.count)
            sealed.clear()
            self._exchange.tidy(self._led)
        self._rows = self.pending_bytes = 0
        return out

    def merge(self, sender: int, block: memoryview | bytes) -> int:
        """Merge a block of changes of another worker, a helper, into the groups led here.

        Returns
        -------
        int
            Entries of the block.

        Raises
        ------
        MalformedError
            The block is cut, damaged, of another query or sender, or out of order.
        """
        entries = self._exchange.entries(sender, block)
        self._led.merge(entries, self._texts.hashes)
        return len(entries)

    def release(self, limit: Limit) -> pa.RecordBatch:
        """Trigger: return output rows of groups whose time key is below a limit; forget them.

        If ordered, they are in the order of the time key, then of the other keys. A sum beyond its
        type is a DataError.
        """
        if self._sessions is None:
            entries = self._led.release(limit, self._texts.hashes)
        else:
            entries = self._sessions.release(self._led, limit, self._texts.hashes)
        try:
            return self._output.rows(entries, self._texts)
        finally:
            self._led.recycle()
            self._tidy()

    def finish(self) -> pa.RecordBatch:
        """Return output rows of all groups led here, and forget them.

        The one group of a query without GROUP BY exists without rows, too, where it is led.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        if not self._layout.keys and not self._led.entries:
            nothing = self._layout.zero[None].copy()
            if self._leaders(nothing)[0] == self.rank:
                return self._output.rows(nothing, self._texts, is_empty=True)
        return self.release(math.inf)

    def cut(self) -> None:
        """Do nothing: leaders of groups do not change at a cut."""

    def save(self) -> list[memoryview]:
        """Return the groups led here as blocks that later changes do not touch."""
        return self._exchange.saved(self._led.logs())

    def load(self, blocks: Iterable[memoryview | bytes], size_then: int) -> int:
        """Merge the groups of saved states whose leader this worker is now.

        Parameters
        ----------
        blocks : iterable of buffers
            From :meth:`save` of every worker that there was, each worker's in order.
        size_then : int
            How many workers there were, which may be more or fewer than now.

        Returns
        -------
        int
            Groups merged.

        Raises
        ------
        MalformedError
            A block is cut, damaged, of another query, or out of order.
        """
        count = 0
        for entries in self._exchange.loaded(iter(blocks), size_then):
            led = entries
            if self.size > 1:
                led = np.ascontiguousarray(entries[self._leaders(entries) == self.rank])
            self._led.merge(led, self._texts.hashes)
            count += len(led)
        return count

    def compile(self) -> None:
        """Compile the loops now instead of in a fold: see :data:`~.chosen.COMPILED_FROM_ROWS`."""
        self._merger.compile()
        self._contributions.compile()

    def _compile_due(self) -> None:
        # The contributions first: they note the attempt, so that not each batch tries again.
        self._contributions.compile_due()
        self._merger.compile()

    def _target(self) -> Target:
        return Target(self._changes[0]) if self._changes else self._led.target()

    def _add(self, part: Contributions) -> None:
        entries = part.entries
        if not self._changes:
            self._led.merge(entries, self._texts.hashes, part.times)
        elif self._appending:
            self._changes[0].append(entries)
        else:
            self._changes[0].merge(entries.reshape(-1), 0, len(entries), self._texts.hashes)

    @property
    def _texts(self) -> Texts:
        return self._exchange.texts

    def _tidy(self) -> None:
        """Forget unused texts; with several workers, changes refer to them until the next seal."""
        if not self._changes:
            self._exchange.tidy(self._led)

    def _leaders(self, entries: np.ndarray) -> np.ndarray:
        return self._merger.leaders(entries, self._texts.hashes, self._homes)

    def _note_use(self, entries: int) -> None:
        """Decide whether the next epoch folds before it sends, from the gain of the last one."""
        if self._appending:
            self._appending -= 1
        elif self._rows and entries > USEFUL_ENTRIES_PER_ROW * self._rows:
            self._appending = APPENDING_EPOCHS
