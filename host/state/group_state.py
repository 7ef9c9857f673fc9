"""The groups of a query on one of several workers: folded here, merged where they are led."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError
from penstock.plan.closing import time_key
from penstock.plan.group_query import GroupQuery

from ..device.fields import MalformedError
from ..devices.cpu.operations import NotCompilable
from ..emit.groups.closing import Limit
from .blocks import BlockWriter, read_block
from .compiled import CompiledContributions
from .contributions import MOST_FEEDS, ROW_BITS, ColumnContributions, Contributions
from .intake import Renumbering
from .layout import EntryLayout
from .merger import EntryMerger
from .output import GroupRows
from .panes import Panes
from .probing import leaders
from .store import LogStore
from .texts import Texts

_log = logging.getLogger("penstock.state")

#: Partitions of the keys; worker r of n leads those with ``p * n // PARTITIONS == r``.
PARTITIONS = 1 << 12
#: Rows whose contributions are computed together: they fit the second cache.
CHUNK_ROWS = 1 << 14
#: Rows after which the loops of the query are compiled: so many take NumPy and the loops that work
#: by tables a third of a second, and compiling takes two, once; then the machine code is kept.
COMPILED_FROM_ROWS = 1 << 20
#: An epoch with more entries per row than this did not gain from folding first.
USEFUL_ENTRIES_PER_ROW = 0.8
#: Epochs after one of those that append contributions without looking for equal keys.
APPENDING_EPOCHS = 16


@dataclass(frozen=True)
class FoldedRows:
    """What became of a batch's rows.

    Parameters
    ----------
    rows : int
        Folded into groups.
    filtered : int
        Left out by WHERE.
    without_time : int
        In no window, since their time is NULL.
    """

    rows: int
    filtered: int
    without_time: int


class GroupState:
    """The groups that one worker holds: those that it leads, and changes for other leaders.

    It knows no threads, processes or files. With one worker, rows are folded into the groups that
    it leads; with several, into a log of changes, which :meth:`seal` cuts by leader.

    Parameters
    ----------
    query : GroupQuery
    schema : pyarrow.Schema
        Of the source's batches.
    rank, size : int
        This worker, and how many there are.

    Raises
    ------
    QueryError
        A key cannot be grouped, or a sum may need more digits than a decimal has.
    UsageError
        There is no such rank.
    """

    def __init__(
        self, query: GroupQuery, schema: pa.Schema, *, rank: int = 0, size: int = 1
    ) -> None:
        if not 1 <= size <= PARTITIONS or not 0 <= rank < size:
            raise UsageError(
                f"worker {rank} of {size} cannot be: ranks count from 0, and there are at most "
                f"{PARTITIONS} workers"
            )
        self.query, self.rank, self.size = query, rank, size
        aggregation = query.aggregation
        found = None if query.source.time is None else time_key(query)
        layout = EntryLayout(
            aggregation.keys, None if found is None else found.index, aggregation.aggregates
        )
        self._layout = layout
        self._output = GroupRows(query, layout, {query.source.side: schema})
        self._digest = layout.digest(self._output.schema)
        self._columns = ColumnContributions(query, layout)
        self._schema = schema
        self._compiled: CompiledContributions | None = None
        self._until_compiled: int | None = COMPILED_FROM_ROWS
        self._texts = Texts()
        self._merger = EntryMerger(layout)
        self._led = Panes(self._merger)
        #: The changes since the last seal, and the log of the epoch before, used in turns.
        self._changes = [LogStore(self._merger), LogStore(self._merger)] if size > 1 else []
        self._writers = [BlockWriter(self._digest, rank, self._texts) for _ in range(size)]
        self._others: dict[int, Renumbering] = {}
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
        """Groups that are led here."""
        return self._led.entries

    @property
    def nbytes(self) -> int:
        """Bytes of all groups, changes, indexes and texts."""
        others = sum(one.nbytes for one in self._others.values())
        writers = sum(one.nbytes for one in self._writers)
        changes = sum(log.nbytes for log in self._changes)
        return self._led.nbytes + changes + self._texts.nbytes + others + writers

    def fold(self, batch: pa.RecordBatch, feed: int = 0, first: int = 0) -> FoldedRows:
        """Fold the rows of a batch.

        If it fails, nothing was folded.

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
        if self._until_compiled is not None and self._until_compiled <= 0:
            self.compile()
        if not 0 <= feed < MOST_FEEDS or not 0 <= first < (1 << ROW_BITS) - batch.num_rows:
            raise UsageError(f"row {first} of feed {feed} has no number; count both from 0")
        made = self._contributions(batch, (feed << ROW_BITS) + first)
        rows = filtered = without_time = 0
        for part in made:
            self._add(part)
            rows += len(part.entries)
            filtered += part.filtered
            without_time += part.without_time
        if self._until_compiled is not None:
            self._until_compiled -= batch.num_rows
        self._rows += rows
        self.pending_bytes += batch.nbytes
        return FoldedRows(rows, filtered, without_time)

    def seal(self) -> list[list[memoryview]]:
        """End the epoch: the changes of each leader as blocks; those led here are merged at once.

        A receiver merges the blocks of a sender in their order, each once.

        Returns
        -------
        list of lists of memoryview
            By rank; that of this worker is empty.
        """
        out: list[list[memoryview]] = [[] for _ in range(self.size)]
        if self._changes:
            sealed = self._changes[0]
            self._changes.reverse()
            for rank, entries in enumerate(self._by_leader(sealed.entries)):
                if rank == self.rank:
                    self._led.merge(entries, self._texts.hashes)
                else:
                    out[rank] = list(self._writers[rank].blocks(entries, self._layout.text_words))
            self._note_use(sealed.count)
            sealed.clear()
        self._rows = self.pending_bytes = 0
        return out

    def merge(self, sender: int, block: memoryview | bytes) -> int:
        """Merge a block of another worker into the groups that are led here.

        Returns
        -------
        int
            Entries of the block.

        Raises
        ------
        MalformedError
            The block is cut, damaged, of another query or sender, or out of order.
        """
        read = read_block(block, self._digest, self._layout.words)
        if read.sender != sender or read.part:
            raise MalformedError(f"a block of groups does not come from worker {sender}, as said")
        known = self._others.setdefault(sender, Renumbering(self._texts))
        entries = known.entries(read, self._layout.text_words)
        self._led.merge(entries, self._texts.hashes)
        return len(entries)

    def release(self, limit: Limit) -> pa.RecordBatch:
        """Return output rows of the groups whose time key is below a limit, and forget them.

        They are in the order of the time key, then of the other keys.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        return self._output.rows(self._led.release(limit, self._texts.hashes), self._texts)

    def finish(self) -> pa.RecordBatch:
        """Return output rows of all groups that are led here, and forget them.

        The one group of a query without GROUP BY exists without rows, too, where it is led.

        Raises
        ------
        DataError
            A sum is beyond its type.
        """
        entries = self._led.release(math.inf, self._texts.hashes)
        if not self._layout.keys and not len(entries):
            nothing = self._layout.zero[None].copy()
            if self._leaders(nothing)[0] == self.rank:
                return self._output.rows(nothing, self._texts, is_empty=True)
        return self._output.rows(entries, self._texts)

    def save(self) -> list[memoryview]:
        """Return the groups that are led here as blocks, which later changes leave as they are."""
        writer = BlockWriter(self._digest, self.rank, self._texts)
        blocks: list[memoryview] = []
        for log in self._led.logs():
            blocks += writer.blocks(log, self._layout.text_words, part=2 if blocks else 1)
        return blocks

    def load(self, blocks: Iterable[memoryview | bytes], size_then: int) -> int:
        """Take over the groups of saved states that this worker leads now.

        Parameters
        ----------
        blocks : iterable of buffers
            From :meth:`save` of every worker then, each state's in its order.
        size_then : int
            How many workers there were; it need not be the same number now.

        Returns
        -------
        int
            Groups taken over.

        Raises
        ------
        MalformedError
            A block is cut, damaged, of another query, or out of order.
        """
        known, taken = None, 0
        for block in blocks:
            read = read_block(block, self._digest, self._layout.words)
            if read.part == 1:
                known = Renumbering(self._texts)
            if known is None or read.part not in (1, 2) or not 0 <= read.sender < size_then:
                raise MalformedError(
                    f"a saved state of {size_then} workers has a block that is out of its place"
                )
            entries = known.entries(read, self._layout.text_words)
            if self.size > 1:
                entries = entries[self._leaders(entries) == self.rank]
            self._led.merge(np.ascontiguousarray(entries), self._texts.hashes)
            taken += len(entries)
        return taken

    def compile(self) -> None:
        """Compile the loops of the query now, or load them where they are kept; once.

        It happens by itself after :data:`COMPILED_FROM_ROWS` rows.
        """
        if self._until_compiled is None:
            return
        self._until_compiled = None
        self._merger.compile()
        try:
            made = CompiledContributions(self.query, self._layout, self._schema, CHUNK_ROWS)
        except NotCompilable as cause:
            _log.info("contributions are computed column by column: %s", cause)
            return
        if made.is_safe:
            self._compiled = made

    def _contributions(self, batch: pa.RecordBatch, place: int) -> Iterable[Contributions]:
        if self._compiled is not None and self._compiled.fits(batch):
            return self._compiled.of(batch, self._texts, place)
        parts = (
            self._columns.of(batch.slice(start, CHUNK_ROWS), self._texts, place + start)
            for start in range(0, batch.num_rows, CHUNK_ROWS)
        )
        return list(parts) if self._columns.may_fail else parts

    def _add(self, part: Contributions) -> None:
        entries = part.entries
        if not self._changes:
            self._led.merge(entries, self._texts.hashes, part.times)
        elif self._appending:
            self._changes[0].append(entries)
        else:
            self._changes[0].merge(entries.reshape(-1), 0, len(entries), self._texts.hashes)

    def _note_use(self, entries: int) -> None:
        """Decide whether the next epoch folds first, from what the last one gained."""
        if self._appending:
            self._appending -= 1
        elif self._rows and entries > USEFUL_ENTRIES_PER_ROW * self._rows:
            self._appending = APPENDING_EPOCHS

    def _leaders(self, entries: np.ndarray) -> np.ndarray:
        """The rank that leads each entry, int16."""
        ranks = np.empty(len(entries), np.int16)
        leaders(
            entries.reshape(-1), 0, len(entries), self._layout.words, self._layout.key_table,
            self._texts.hashes, self.size, ranks,
        )  # fmt: skip
        return ranks

    def _by_leader(self, entries: np.ndarray) -> Iterator[np.ndarray]:
        """The entries that each rank leads."""
        ranks = self._leaders(entries)
        order = np.argsort(ranks, kind="stable")
        ends = np.searchsorted(ranks[order], np.arange(self.size), side="right")
        start = 0
        for end in ends:
            yield entries[order[start:end]]
            start = end
