"""Rows of a relation that are kept in memory (HR, paper 5): all rows of a key, or none.

With single rows, as paper 5 has it, a hit would end a tuple before it has met the other rows of its
key. An entry without rows says that the relation has none of this key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ..relation.border import PageRows
from .frequency import Frequency
from .hash_table import HashTable

#: Bytes of an entry beside its rows: places in the table of hashes, start, count, bytes.
ENTRY_BYTES = 64
#: Share of the cache that is emptied at once.
SLACK = 0.1
#: Powers of two that scores may span.
_OCTAVES = 48
#: Share of the cache up to which parts, in which entries came, are put together; so little more
#: than the cache is in memory while that is done.
_PART = 1 / 32


class KeyGroups:
    """Rows grouped by key: rows of one hash lie side by side.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (groups,)
        Distinct.
    starts, counts : ndarray of int64, shape (groups,)
        Rows of each group in ``batch``.
    batch : RecordBatch
    """

    def __init__(
        self, hashes: np.ndarray, starts: np.ndarray, counts: np.ndarray, batch: pa.RecordBatch
    ) -> None:
        self.hashes, self.starts, self.counts, self.batch = hashes, starts, counts, batch

    def __len__(self) -> int:
        return len(self.hashes)

    def rows_of(self, groups: np.ndarray) -> np.ndarray:
        """Rows of some groups in ``batch``, group by group."""
        counts = self.counts[groups]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        return np.arange(total) + np.repeat(self.starts[groups] - (ends - counts), counts)

    def pick(self, groups: np.ndarray) -> KeyGroups:
        """Some of the groups, with their rows copied."""
        rows = self.rows_of(groups)
        counts = self.counts[groups]
        batch = self.batch.take(pa.array(rows))
        return KeyGroups(self.hashes[groups], np.cumsum(counts) - counts, counts, batch)

    @staticmethod
    def of_keys(keys: np.ndarray, rows: PageRows) -> KeyGroups:
        """Groups of keys among rows of pages, some without rows; both ascend by hash."""
        starts = np.searchsorted(rows.hashes, keys)
        ends = np.searchsorted(rows.hashes, keys, side="right")
        return KeyGroups(keys, starts, ends - starts, rows.batch)

    @staticmethod
    def none(schema: pa.Schema) -> KeyGroups:
        """No groups, of rows with this schema."""
        no_rows = np.zeros(0, np.int64)
        empty = pa.RecordBatch.from_pylist([], schema)
        return KeyGroups(no_rows.view(np.uint64), no_rows, no_rows, empty)

    @staticmethod
    def concat(parts: list[KeyGroups]) -> KeyGroups:
        """The groups of several parts, which have none in common."""
        first = np.cumsum([0, *(part.batch.num_rows for part in parts)])
        return KeyGroups(
            np.concatenate([part.hashes for part in parts]),
            np.concatenate([part.starts + by for part, by in zip(parts, first, strict=False)]),
            np.concatenate([part.counts for part in parts]),
            pa.concat_batches([part.batch for part in parts]),
        )


class Cache(ABC):
    """The cache (HR) of a look-up: groups of rows that are kept in memory.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the rows.
    most_bytes : int
        Most bytes of all entries.
    """

    def __init__(self, schema: pa.Schema, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._none = KeyGroups.none(schema)
        self._parts: list[KeyGroups] = []  # entries are numbered through them
        self._firsts = np.zeros(1, np.int64)  # number of the first entry of each, and the next
        self._bytes = np.zeros(0, np.int64)
        self._table = HashTable()
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the entries, of their rows, and of the sketch that chooses them."""
        return self.used_bytes

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """The entry of each hash, -1 where there is none."""
        return self._table.find(hashes)

    def groups(self, entries: np.ndarray) -> KeyGroups:
        """The groups of some entries, with their rows.

        Parameters
        ----------
        entries : ndarray of int, ascending
        """
        cuts = np.searchsorted(entries, self._firsts)
        picked = [
            part.pick(entries[low:high] - first)
            for part, first, low, high in zip(
                self._parts, self._firsts, cuts, cuts[1:], strict=False
            )
            if high > low
        ]
        return KeyGroups.concat(picked) if picked else self._none

    @abstractmethod
    def came(self, hashes: np.ndarray) -> None:
        """Count the keys of rows of the stream, whether they are in the cache or not."""

    @abstractmethod
    def offer(self, groups: KeyGroups, matched: np.ndarray, row_bytes: float) -> None:
        """Take the groups worth keeping, of groups that were looked up and are not in the cache.

        Parameters
        ----------
        groups : KeyGroups
        matched : ndarray of int
            Number of rows of the stream that each has just answered.
        row_bytes : float
            Bytes of a row of the relation in memory.
        """

    def resize(self, most_bytes: int) -> None:
        """Change the size, which includes the sketch that chooses the entries."""
        self.most_bytes = most_bytes

    def drop(self, hashes: np.ndarray | None) -> None:
        """Forget keys that have changed in the relation; None forgets all."""
        if hashes is None:
            keep = np.zeros(0, np.int64)
        else:
            leaves = np.zeros(len(self), bool)
            entries = self.find(hashes)
            leaves[entries[entries >= 0]] = True
            keep = np.flatnonzero(~leaves)
        if len(keep) < len(self):
            self._keep(keep)

    def _add(self, groups: KeyGroups, sizes: np.ndarray) -> None:
        self._table.add(groups.hashes, len(self))
        self._put(groups)
        self._number()
        self._bytes = np.concatenate([self._bytes, sizes])
        self.used_bytes += int(sizes.sum())

    def _keep(self, entries: np.ndarray) -> None:
        """Keep only these entries, which ascend."""
        cuts = np.searchsorted(entries, self._firsts)
        parts, firsts = self._parts, self._firsts
        self._parts = []
        for part, (low, high) in enumerate(pairwise(cuts.tolist())):
            if high > low:
                self._put(parts[part].pick(entries[low:high] - firsts[part]))
            parts[part] = self._none  # its rows go
        self._number()
        self._bytes = self._bytes[entries]
        self._table.replace(self._hashes())
        self.used_bytes = int(self._bytes.sum())

    def _put(self, groups: KeyGroups) -> None:
        """Add a part behind the others."""
        last = self._parts[-1] if self._parts else groups
        if self._parts and last.batch.nbytes + groups.batch.nbytes <= _PART * self.most_bytes:
            self._parts[-1] = KeyGroups.concat([last, groups])
        else:
            self._parts.append(groups)

    def _number(self) -> None:
        """Number the entries through the parts."""
        self._firsts = np.cumsum([0, *(len(part) for part in self._parts)])

    def _hashes(self) -> np.ndarray:
        return np.concatenate([self._none.hashes, *(part.hashes for part in self._parts)])

    @staticmethod
    def sizes(groups: KeyGroups, row_bytes: float) -> np.ndarray:
        """Bytes that each group takes in a cache."""
        return (groups.counts * row_bytes).astype(np.int64) + ENTRY_BYTES


class NoCache(Cache):
    """Keeps nothing."""

    def came(self, hashes: np.ndarray) -> None:
        pass

    def offer(self, groups: KeyGroups, matched: np.ndarray, row_bytes: float) -> None:
        pass


class FrequencyCache(Cache):
    """Cache of ``auto``: keeps the groups that came most often lately per byte.

    A group is taken if it scores above the last one dropped; once the cache is full, the lowest
    ones leave together.
    """

    def __init__(self, schema: pa.Schema, most_bytes: int, keys: int) -> None:
        super().__init__(schema, most_bytes)
        self._frequency = Frequency(keys)
        self._least = 0.0

    @property
    def memory_bytes(self) -> int:
        return super().memory_bytes + self._frequency.memory_bytes

    def resize(self, most_bytes: int) -> None:
        self.most_bytes = max(0, most_bytes - self._frequency.memory_bytes)
        self._least = 0.0
        if self.used_bytes > self.most_bytes:
            none = np.zeros(0, np.int64)
            self._make_room(none.astype(np.float32), none, none)

    def came(self, hashes: np.ndarray) -> None:
        self._frequency.note(hashes)

    def offer(self, groups: KeyGroups, matched: np.ndarray, row_bytes: float) -> None:
        sizes = self.sizes(groups, row_bytes)
        score = self._frequency.estimate(groups.hashes) / sizes
        wanted = np.flatnonzero((score > self._least) & (sizes <= self.most_bytes * SLACK))
        if not len(wanted):
            return
        if self.used_bytes + int(sizes[wanted].sum()) > self.most_bytes:
            wanted = self._make_room(score, sizes, wanted)
        if len(wanted):
            self._add(groups.pick(wanted), sizes[wanted])

    def _make_room(self, score: np.ndarray, sizes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Drop the lowest of entries and groups, so that a part of the cache is free."""
        held = self._frequency.estimate(self._hashes()) / self._bytes
        all_scores = np.concatenate([held, score[wanted]])
        all_sizes = np.concatenate([self._bytes, sizes[wanted]])
        order = _descending(all_scores)
        room = self.most_bytes * (1 - SLACK)
        fitting = order[: np.searchsorted(np.cumsum(all_sizes[order]), room, side="right")]
        self._least = float(all_scores[fitting[-1]]) if len(fitting) else self._least
        kept = np.sort(fitting[fitting < len(held)])
        accepted = np.sort(fitting[fitting >= len(held)]) - len(held)
        if len(kept) < len(held):
            self._keep(kept)
        return wanted[accepted]


def _descending(scores: np.ndarray) -> np.ndarray:
    """Positive numbers and zeros from the greatest one down, to a thousandth.

    NumPy sorts words of 16 bits by their digits, ten times as fast as floats.
    """
    with np.errstate(divide="ignore"):
        code = np.log2(scores)
    code = np.clip((code + _OCTAVES / 2) * ((1 << 16) / _OCTAVES), 0, (1 << 16) - 1)
    return np.argsort((1 << 16) - 1 - code.astype(np.uint16), kind="stable")
