"""Delivers the output of joins of whole tables, where no row has to wait for a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT, JoinQuery, other

from ..execute.chunk import Chunk
from ..execute.pairs import Pairs, joined
from ..rows.picked import Nobody, Picked
from ..rows.sides import Arrival
from ..windows.probe import Probe, Watermarks, WindowStep
from ..windows.run import Snapshot
from .delivery import NO_NUMBERS, AfterBatch, RowDelivery
from .making import Making
from .output import RowsByArrival, by_arrival
from .restore import BATCH_ROWS, base_rows

#: Least rows of a batch: if matches are rare, a batch per task would cost more than finding its
#: rows.
LEAST_ROWS = 1 << 16


class TablePairs(RowDelivery):
    """Delivers pairs, and at the end the rows that an outer join preserves.

    Parameters
    ----------
    query, schemas
        As for :class:`RowDelivery`.
    output_rows : int
        Most rows of an output batch.
    """

    def __init__(
        self,
        query: JoinQuery,
        schemas: Mapping[str, pa.Schema],
        *,
        output_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(query, schemas)
        self.output_rows = output_rows
        self._preserved: dict[str, Arrival] = {}
        self._timeless: tuple[Arrival, ...] = ()
        self._probe: Probe | None = None
        self._waiting: list[Pairs] = []
        #: By preserved side, flags of its tuples that are in a pair.
        self.matched: dict[str, np.ndarray] = {}

    def begin(self, batch: int, step: WindowStep, watermarks: Watermarks) -> AfterBatch:
        self._preserved = {a.side: a for a in step.entered}
        self.matched = {side: np.zeros(len(a.ids), bool) for side, a in self._preserved.items()}
        self._timeless = step.timeless
        return self.close

    def rows(self, chunk: Chunk) -> Iterator[Making]:
        probe = chunk.order.bound.probe
        if self._probe is not probe:
            yield from self._waited()
        self._probe = probe
        for pairs in filter(len, chunk.pairs):
            self._waiting.append(pairs)
            if sum(map(len, self._waiting)) >= LEAST_ROWS:
                yield from self._waited()

    def _waited(self) -> Iterator[Making]:
        """Tell how to make rows of the pairs that waited until they are a batch."""
        waiting, self._waiting = self._waiting, []
        if self._probe is not None and waiting:
            yield from self.pairs(self._probe.stream, self._probe.window, joined(waiting))

    def last_rows(self) -> Iterator[Making]:
        return self._waited()

    def note(self, chunk: Chunk) -> None:
        for pairs in chunk.pairs:
            self.noted(chunk.order.bound.probe.stream.side, pairs)

    def pairs(self, stream: Arrival, window: Snapshot, pairs: Pairs) -> Iterator[Making]:
        """Tell how to make rows of pairs; arguments as for :func:`.base_rows`."""
        for at in range(0, len(pairs), self.output_rows):
            some = pairs.pick(slice(at, at + self.output_rows))
            yield Making(len(some), partial(self._matches, stream, window, some))

    def _matches(self, stream: Arrival, window: Snapshot, pairs: Pairs) -> RowsByArrival:
        batch = self.restorer.restore(base_rows(stream, window, pairs))
        return RowsByArrival(batch, NO_NUMBERS, NO_NUMBERS)

    def noted(self, side: str, pairs: Pairs) -> None:
        """Note that both tuples of each pair are matched; ``side`` is the stream tuples'."""
        if side in self.matched:
            self.matched[side][pairs.stream] = True
        if other(side) in self.matched:
            self.matched[other(side)][pairs.positions] = True

    def unmatched(self) -> Iterator[tuple[Arrival, np.ndarray]]:
        """Yield preserved tuples that are in no pair."""
        for arrival in self._timeless:
            if arrival.side in self._preserved:
                yield arrival, np.arange(len(arrival.ids))
        for side, arrival in self._preserved.items():
            yield arrival, np.flatnonzero(~self.matched[side])

    def close(self) -> Iterator[RowsByArrival]:
        """Make the rows that follow the last pair."""
        for arrival, tuples in self.unmatched():
            yield from self.alone(arrival, tuples)


class OrderedPairs(TablePairs):
    """Delivers pairs, and rows that an outer join preserves, in the order of arrival.

    Pairs wait, not rows: their numbers are sorted, and then each row is made once, in its place.
    Parameters as for :class:`TablePairs`.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        super().__init__(query, schemas)
        #: Later and earlier arrival numbers of rows, and rows of each side's base; -1 for none.
        self._waiting_rows: list[tuple[np.ndarray, ...]] = []
        self._bases: dict[str, pa.RecordBatch | pa.Table] = {}

    def pairs(self, stream: Arrival, window: Snapshot, pairs: Pairs) -> Iterator[Making]:
        ids = stream.ids[pairs.stream], window.ids[pairs.positions - window.first]
        picked = base_rows(stream, window, pairs)
        for side, one in picked.items():
            self._bases[side] = one.base
        rows = (_narrow(picked[side].rows, picked[side].base) for side in (LEFT, RIGHT))
        self._waiting_rows.append((np.maximum(*ids), np.minimum(*ids), *rows))
        return iter(())

    def last_rows(self) -> Iterator[Making]:
        yield from super().last_rows()
        for arrival, tuples in self.unmatched():
            self._add_alone(arrival, tuples)
        if not self._waiting_rows:
            return
        order, rows = self._sorted()
        for at in range(0, len(order), self.output_rows):
            some = order[at : at + self.output_rows]
            yield Making(len(some), partial(self._in_order, rows, some))

    def _sorted(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the order of all rows, and their rows of each side's base."""
        later, earlier, left, right = zip(*self._waiting_rows, strict=True)
        self._waiting_rows = []
        order = by_arrival(np.concatenate(later), np.concatenate(earlier))
        return order, {LEFT: np.concatenate(left), RIGHT: np.concatenate(right)}

    def close(self) -> Iterator[RowsByArrival]:
        return iter(())

    def _add_alone(self, arrival: Arrival, tuples: np.ndarray) -> None:
        """Let tuples without a match wait for their place in the order."""
        side, ids = arrival.side, arrival.ids[tuples]
        self._bases[side] = arrival.base
        none = np.full(len(tuples), -1, np.int32)
        rows = {side: _narrow(arrival.at(tuples), arrival.base), other(side): none}
        self._waiting_rows.append((ids, ids, rows[LEFT], rows[RIGHT]))

    def _in_order(self, rows: Mapping[str, np.ndarray], order: np.ndarray) -> RowsByArrival:
        picked: dict[str, Picked | Nobody] = {}
        for side, of_base in rows.items():
            if side in self._bases:
                lacks = other(side) in self._preserved
                picked[side] = Picked(self._bases[side], of_base[order], lacks=lacks)
            else:
                picked[side] = Nobody(self._schemas[side], len(order))
        return RowsByArrival(self.restorer.restore(picked), NO_NUMBERS, NO_NUMBERS)


def _narrow(rows: np.ndarray, base: pa.RecordBatch | pa.Table) -> np.ndarray:
    """Return rows of a base in 32 bits if they fit."""
    return rows.astype(np.int32) if base.num_rows < 1 << 31 else rows
