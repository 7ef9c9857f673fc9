"""Parts of checkpoints of one worker of a join: saving its rows, and loading them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import FOREVER, NEVER

from ..output_order import FEED, PLACE
from ..protocol.border import Buffer
from .blocks import read_block, write_block
from .heavy import HeavyCells
from .held import HeldRows
from .sharing import Placing

#: Head of a saved state: the time up to which rows have been joined, whether the input has ended,
#: and the number among this worker's checkpoints.
_SAVED = struct.Struct("<q?3xI")
#: Separates blocks of rows that are written once from blocks that each checkpoint writes anew.
_ANEW = b""


#: Files of earlier checkpoints that a checkpoint names; beyond, all rows are written anew.
MOST_FILES = 64


class SavedRows:
    """Index of the rows that a worker's earlier checkpoints hold, so that each is written once.

    At a cut a worker has all of its rows of a feed up to some place, and none behind it. So a row
    is in no file yet if it lies behind the last saved place of its feed.
    """

    def __init__(self) -> None:
        #: Number of the checkpoint that is being made, from 0 on.
        self.number = -1
        self._places: dict[int, int] = {}
        self._new_places: dict[int, int] = {}
        #: Last time of each side's rows, by number of the checkpoint whose file holds them.
        self._last: dict[int, dict[str, int]] = {}

    def begin(self, first: Mapping[str, int]) -> list[int]:
        """Begin a checkpoint; returns the earlier ones whose files it needs.

        Parameters
        ----------
        first : mapping of str to int
            The first time of each side's rows that are still held, of those that hold any.
        """
        self.number += 1
        self._last = {
            number: last
            for number, last in self._last.items()
            if any(time >= first[side] for side, time in last.items() if side in first)
        }
        if len(self._last) >= MOST_FILES:
            self._last, self._places = {}, {}
        self._last[self.number] = {}
        self._new_places = dict(self._places)
        return [*self._last][:-1]

    def fresh(
        self, side: str, rows: pa.RecordBatch, times: np.ndarray, is_own: np.ndarray
    ) -> pa.RecordBatch:
        """Return the rows that no earlier file holds, and note that this checkpoint has them.

        Parameters
        ----------
        times : int64 array
            Event times of the rows.
        is_own : bool array
            Which rows this worker saves.
        """
        feeds, of_feeds = np.unique(rows.column(FEED).to_numpy(), return_inverse=True)
        places = rows.column(PLACE).to_numpy()
        known = np.array([self._places.get(feed, -1) for feed in feeds.tolist()], np.int64)
        new = np.flatnonzero(is_own & (places > known[of_feeds]))
        if not len(new):
            return rows.slice(0, 0)
        for number, feed in enumerate(feeds.tolist()):
            last = int(places[new][of_feeds[new] == number].max(initial=-1))
            self._new_places[feed] = max(last, self._new_places.get(feed, -1))
        last_times = self._last[self.number]
        last_times[side] = max(int(times[new].max()), last_times.get(side, NEVER))
        return rows.take(pa.array(new))

    def end(self) -> None:
        """End the checkpoint: it has all rows that are held."""
        self._places = self._new_places


class Parts:
    """Saves a worker's rows in its parts of checkpoints, each row once, and loads them again.

    Parameters
    ----------
    held : HeldRows
    placing : Placing
    heavy : HeavyCells
    schemas : list of pyarrow.Schema
        Of shipped rows, by source.
    """

    def __init__(
        self, held: HeldRows, placing: Placing, heavy: HeavyCells, schemas: list[pa.Schema]
    ) -> None:
        self._held, self._placing, self._heavy = held, placing, heavy
        self._schemas, self._sides = schemas, (LEFT, RIGHT)
        self._saved = SavedRows()
        #: Loaded parts that wait for :meth:`settle`: number of the checkpoint, and blocks of rows.
        self._restored: list[tuple[int, list[Any]]] = []

    def save(self) -> list[Buffer | int]:
        """Return this worker's rows as blocks; of rows that others also hold, only its share.

        Rows with a time are written in one checkpoint; later ones name that checkpoint as long as
        some of its rows are held.
        """
        held, pending = self._held, self._held.pending
        if held.leaves_by_session:
            earlier = self._saved.begin({})
            written, anew = [], [(s, b) for s in self._sides for b in pending.batches(s)]
        else:
            timed = {side: held.timed(side) for side in self._sides}
            first = {s: min(int(t.min()) for _, t in some) for s, some in timed.items() if some}
            earlier = self._saved.begin(first)
            written = [
                (side, self._saved.fresh(side, rows, times, self._placing.saves(side, rows)))
                for side, some in timed.items()
                for rows, times in some
            ]
            anew = [
                (side, rows.filter(pa.array(self._placing.saves(side, rows))))
                for side in self._sides
                for rows in pending.without_time(side)
            ]
        self._saved.end()
        head = _SAVED.pack(min(held.before, FOREVER - 1), held.has_ended, self._saved.number)
        head += np.array(self._heavy.cells, "<i8").tobytes()
        return [*earlier, head, *self._blocks(written), _ANEW, *self._blocks(anew)]

    def _blocks(self, rows: Iterable[tuple[str, pa.RecordBatch]]) -> list[Buffer]:
        return [write_block(self._sides.index(s), b) for s, b in rows if b.num_rows]

    def load(self, blocks: Iterable[Any]) -> None:
        """Load a worker's saved part: its heavy cells at once, its rows at :meth:`settle`."""
        head, *of_rows = blocks
        time, has_ended, number = _SAVED.unpack_from(head)
        self._held.before = max(self._held.before, FOREVER if has_ended else time)
        self._heavy.begin(np.frombuffer(head, "<i8", offset=_SAVED.size).tolist())
        # Which rows belong here is known only once the heavy cells of all parts are.
        self._restored.append((number, of_rows))

    def settle(self) -> None:
        """Hold those loaded rows that belong to this worker now."""
        restored, self._restored = self._restored, []
        if not restored:
            return
        newest, anew = max(number for number, _ in restored), []

        def written() -> Iterator[tuple[str, pa.RecordBatch]]:
            for number, blocks in restored:
                every = iter(blocks)
                yield from map(self._belonging, takewhile(len, every))
                if number == newest:
                    anew.extend(map(self._belonging, every))

        self._held.restore(written())
        for side, batch in anew:
            self._held.pending.add(side, batch)

    def _belonging(self, block: Any) -> tuple[str, pa.RecordBatch]:
        """Read the rows of a block that belong to this worker."""
        _, source, rows = read_block(block, self._schemas)
        side = self._sides[source]
        return side, self._placing.belonging(side, rows)
