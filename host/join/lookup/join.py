"""Joins batches of rows with the rows of a relation that have their key."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...lookup.cache import KeyGroups
from ...lookup.calibrate import calibrate
from ...lookup.lookup import Answers, Counts, Lookup, PageRequest
from ...lookup.memory import MemorySplit, split_of
from ...lookup.model import ANSWERED, UnitCosts
from ...lookup.tuner import Tuner
from ...relation.border import PageRows, Version
from ...rows.gather import order_of
from .answer import in_group
from .lookup_join import RelationJoin
from .sought import Seals, has_own_hashes, seals_of_groups, sought_hashes, sought_keys, sought_seals

#: Share of the cache where keys are asked for: each one costs more than a row that waits saves,
#: and no model shares the memory out later.
_ASKED_SHARE = 0.8


@dataclass
class _Stretch:
    first: int
    batch: pa.RecordBatch
    left: int


class StreamRows:
    """Batches of rows, numbered from 0 on; a batch goes when all of its rows were dropped."""

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque()
        self._end = 0
        self.nbytes = 0

    def add(self, batch: pa.RecordBatch) -> np.ndarray:
        """Keep rows; returns their numbers."""
        ids = np.arange(self._end, self._end + batch.num_rows)
        if batch.num_rows:
            self._stretches.append(_Stretch(self._end, batch, batch.num_rows))
        self._end += batch.num_rows
        self.nbytes += batch.nbytes
        return ids

    def rows(self, ids: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows by number, all still held; all columns by default."""
        firsts, stretch = self._places(ids)
        parts = np.flatnonzero(np.bincount(stretch, minlength=len(firsts)))
        if len(parts) == 1:
            one = self._stretches[parts[0]]
            return pa.Table.from_batches([_selected(one, columns).take(pa.array(ids - one.first))])
        used = [self._stretches[k] for k in parts]
        starts = np.cumsum([0, *(one.batch.num_rows for one in used)])
        rows = ids - firsts[stretch] + starts[np.searchsorted(parts, stretch)]
        return pa.Table.from_batches([_selected(one, columns) for one in used]).take(pa.array(rows))

    def drop(self, ids: np.ndarray) -> None:
        """Forget rows, each once."""
        firsts, stretch = self._places(ids)
        for part, count in enumerate(np.bincount(stretch, minlength=len(firsts)).tolist()):
            self._stretches[part].left -= count
        while self._stretches and not self._stretches[0].left:
            self.nbytes -= self._stretches.popleft().batch.nbytes

    def _places(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first number of each stretch, and the stretch of each row."""
        firsts = np.array([one.first for one in self._stretches])
        return firsts, np.searchsorted(firsts, ids, side="right") - 1


def _selected(stretch: _Stretch, columns: Sequence[str] | None) -> pa.RecordBatch:
    return stretch.batch if columns is None else stretch.batch.select(columns)


class LookupJoin(RelationJoin):
    """Finds the rows of a relation by its key."""

    lookup: Lookup

    def _start(self) -> None:
        self._tuner = Tuner(self.options.algorithm, self._costs)
        self._rows = StreamRows()
        #: Pages that are being read, which a thread does.
        self._reading: tuple[PageRequest, Future[PageRows]] | None = None
        #: Which keys were asked for, where a server is asked for keys that may share a hash.
        self._seals = None if has_own_hashes(self.plan, self.relation.key_hash) else Seals()
        self._reader = ThreadPoolExecutor(1, "penstock-pages")
        self._answered: list[Answers] = []
        self._answered_rows = self._answered_bytes = 0
        #: Numbers, hashes and validity of keys of rows that were not looked up yet.
        self._incoming: deque[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = deque()

    def _open(self, version: Version, *, goes_on: bool) -> None:
        index, algorithm, width = version.index, self.options.algorithm, self._row_bytes
        memory = self.options.memory_bytes
        if goes_on:
            split = split_of(
                version,
                memory,
                width,
                algorithm,
                goes_on=True,
                cache_share=self.split.cache_share,
                filtered=self.lookup.lacks is not None,
            )
            cache, counts = self.lookup.cache, self.lookup.counts
            cache.drop(version.changed_since(self.version.number))
        else:
            share = _ASKED_SHARE if version.asks_keys else None
            split = split_of(version, memory, width, algorithm, cache_share=share)
            # More than fit: how often the keys outside came is counted, too.
            keys = int(split.cache * version.rows / max(1, version.bytes))
            cache, counts = algorithm.cache(self._inner_schema, split.cache, keys), None
        keyed = slice(0, len(index.first))
        # Pages are taken in while the next ones are read.
        choice = algorithm.choice(index.bytes[keyed], index.rows[keyed], split.request_bytes)
        self.lookup = Lookup(index, cache, choice, counts)
        self.version = version
        self._share(split)

    def _share(self, split: MemorySplit) -> None:
        """Share the memory out."""
        self.split = split
        self._room = split.rows_of(self._row_bytes)
        self.lookup.cache.resize(split.cache)
        self.lookup.lacks = self.version.filters() if split.filter else None

    def _tune(self) -> None:
        """Share the memory out otherwise, if that is faster."""
        if self.version.asks_keys:  # the model is about pages
            return
        counts, cached = self.lookup.counts, len(self.lookup.cache)
        better = self._tuner.better(
            self.version, self.options.memory_bytes, self.split, counts, cached, self._row_bytes
        )
        if better is not None:
            self._share(better)

    def _costs(self) -> UnitCosts:
        return calibrate(self.version, self._inner_columns)

    @property
    def counts(self) -> Counts:
        return self.lookup.counts

    @property
    def waiting(self) -> int:
        return self.lookup.unanswered

    @property
    def cached(self) -> int:
        return len(self.lookup.cache)

    @property
    def _kept_bytes(self) -> int:
        return self.lookup.cache.memory_bytes

    @property
    def _held_bytes(self) -> int:
        return self._rows.nbytes + self._answered_bytes + self.lookup.waiting.memory_bytes

    # -- rows in ----------------------------------------------------------------------------------

    def finish(self) -> Iterator[pa.RecordBatch]:
        yield from self._settle()
        yield from self._give()
        self._tuner.settled(self.lookup.counts)
        self.version.settled()

    def _settle(self) -> Iterator[pa.RecordBatch]:
        yield from self._make_room()
        yield from self._read_until(0)

    def _accept(self, batch: pa.RecordBatch) -> None:
        hashes, valid = sought_hashes(self.plan, self.relation.key_hash, batch)
        ids = self._rows.add(batch)
        self._arrived(ids)
        self._room = self.split.rows_of(batch.nbytes / max(1, batch.num_rows))
        step = min(ANSWERED, self._room)
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            self._incoming.append((ids[part], hashes[part], None if valid is None else valid[part]))

    def _make_room(self) -> Iterator[pa.RecordBatch]:
        """Look up the rows that were taken; a page that cannot be read leaves them for later."""
        while self._incoming:
            ids, hashes, valid = self._incoming[0]
            yield from self._read_until(max(0, self._room - len(ids)))
            self._incoming.popleft()
            if valid is not None:
                none = ids[~valid]
                self.null_keys += len(none)
                self._take(Answers(none, np.full(len(none), -1), self._no_groups()))
                ids, hashes = ids[valid], hashes[valid]
            if self.version.asks_keys and self._seals is not None and len(ids):
                self._drop_others(self._seals, hashes, self._seals_of(ids))
            self._take(self.lookup.admit(ids, hashes))
            if self.options.ordered:
                yield from self._read_until(0)
                yield from self._give()
            yield from self._fit()
        self._tune()

    def _fit(self) -> Iterator[pa.RecordBatch]:
        """Let rows leave until the held ones fit into their share of memory."""
        while self._held_bytes > self.split.rows and (self._answered or self.waiting):
            while self.waiting and self._answered_bytes < self.split.answered_bytes:
                yield from self._read_once(self.lookup.occupied)
            yield from self._give()

    def _read_until(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Read pages until at most ``rows`` rows wait."""
        while self.lookup.occupied > rows:
            yield from self._read_once(rows)

    def _read_once(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Take pages in; read the next ones meanwhile if more than ``rows`` rows still wait."""
        self._reading = self._reading or self._ask()
        if self.version.asks_keys and not self.options.ordered:
            yield from self._give()  # while the server works
        request, read = self._reading
        self._reading = None
        try:
            pages = read.result()
        except BaseException:
            self.lookup.take_back(request)
            raise
        waiting = self.lookup.waiting.rows
        if waiting and waiting + len(request.ids) > rows:
            self._reading = self._ask()
        if self.version.asks_keys and self._seals is not None:
            seals = seals_of_groups(self._seals_of(request.ids), request.group)
            self._drop_others(self._seals, request.key_hashes, seals)
            self._seals.note(request.key_hashes, seals, self.lookup.cache.find)
        self._take(self.lookup.arrived(request, pages))
        is_much = (
            self._answered_rows >= ANSWERED or self._answered_bytes >= self.split.answered_bytes
        )
        if is_much and not self.options.ordered:
            yield from self._give()

    def _seals_of(self, ids: np.ndarray) -> np.ndarray:
        return sought_seals(self.plan, self._rows.rows(ids, self.plan.sought_key_columns))

    def _drop_others(self, known: Seals, hashes: np.ndarray, seals: np.ndarray) -> None:
        """Forget cached rows of hashes that belong to other keys than the requested ones."""
        outdated = known.outdated(hashes, seals)
        if len(outdated):
            self.lookup.cache.drop(outdated)

    def _ask(self) -> tuple[PageRequest, Future[PageRows]]:
        request = self.lookup.ask()
        version, columns, hashes = self.version, self._inner_columns, request.key_hashes
        if not version.asks_keys:
            return request, self._reader.submit(version.read, request.pages, columns, hashes)
        rows = self._rows.rows(request.ids, self.plan.sought_key_columns)
        keys = sought_keys(self.plan, rows, request.group)
        return request, self._reader.submit(version.read_keys, request.pages, columns, hashes, keys)

    # -- rows out ---------------------------------------------------------------------------------

    def _take(self, answers: Answers) -> None:
        if len(answers.ids):
            groups = answers.groups
            if groups.batch.num_rows > groups.counts.sum():  # rows of other groups are not kept
                groups = groups.pick(np.arange(len(groups)))
            self._answered.append(Answers(answers.ids, answers.group, groups))
            self._answered_rows += len(answers.ids)
            self._answered_bytes += groups.batch.nbytes

    def _give(self) -> Iterator[pa.RecordBatch]:
        """Join the answered rows with the rows that they may match."""
        if not self._answered:
            return
        parts = self._answered
        firsts = np.cumsum([0, *(len(part.groups) for part in parts)])
        group = np.concatenate(
            [
                np.where(part.group < 0, -1, part.group + by)
                for part, by in zip(parts, firsts, strict=False)
            ]
        )
        groups = KeyGroups.concat([part.groups for part in parts])
        ids = np.concatenate([part.ids for part in parts])
        order = order_of(group + 1, len(groups) + 1)  # as they are joined: they are copied once
        ids, group = ids[order], group[order]
        rows = self._rows.rows(ids)
        candidates = in_group(groups.batch, np.repeat(np.arange(len(groups)), groups.counts))
        answer = self._answering.begin(rows, ids, group)
        # All of it or nothing, so that a device that fails loses no row and doubles none.
        batches = [*answer.add(candidates), *answer.finish()]
        self._rows.drop(ids)
        self._answered, self._answered_rows, self._answered_bytes = [], 0, 0
        yield from self._counted(batches)
        self._left(ids)

    def _no_groups(self) -> KeyGroups:
        return KeyGroups.none(self._inner_schema)
