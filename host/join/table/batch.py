"""A join of two whole tables: a bounded stream of result batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing

import pyarrow as pa

from penstock.plan.plan import Evaluation
from penstock.plan.query import LEFT, RIGHT, TimeWindow, other
from penstock.plan.ranges import arrival_order

from ...device.base import Device
from ...rows.sides import SideRows
from .pair_join import PairJoin
from .table_join import RangeJoin


class BatchJoin(PairJoin):
    """Gives the pairs that join, in batches."""

    def _prepare(self) -> None:
        super()._prepare()
        self.joins = self._range_joins()
        self.pairs_in_window = sum(join.pairs for join in self.joins)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for join in self.joins:
            yield from self._run(join)
        yield from self.alone()
        self.stats.stop()

    def _run(self, join: RangeJoin) -> Iterator[pa.RecordBatch]:
        side = other(join.form.window)
        with (
            self.window_probe(join.evaluation) as window,
            closing(window.probe(self.sides[side].columns, join.start, join.end)) as found,
        ):
            yield from self.restored(side, found)

    def _range_joins(self) -> list[RangeJoin]:
        query, left, right = self.query, self.sides[LEFT], self.sides[RIGHT]
        if isinstance(query.window, TimeWindow):
            resident = [s for s, own in self.stretches.items() if own and self.residence]
            made = _cheaper(self.plan.candidates(), self.sides, resident, self.device)
            return [RangeJoin(made, *self.ranges_of(other(made.form.window)))]
        before_left, before_right = arrival_order(left.time, right.time)
        ranges = {
            LEFT: query.window.ranges(RIGHT, before_left),
            RIGHT: query.window.ranges(LEFT, before_right),
        }
        return [
            RangeJoin(self.plan.pairs(other(side)), *self.only_probing(side, *ranges[side]))
            for side in (LEFT, RIGHT)
        ]


def _cheaper(
    candidates: Sequence[Evaluation],
    sides: Mapping[str, SideRows],
    resident: Collection[str],
    device: Device,
) -> Evaluation:
    """The direction with fewer tests per pair, then the one whose window is longer.

    A window of which blocks are resident comes first where it would have to travel otherwise.
    """

    def rank(one: Evaluation) -> tuple[bool, int, bool, int]:
        window = one.form.window
        travels = window not in resident
        return device.keeps_windows and travels, one.form.cost, travels, -len(sides[window])

    return min(candidates, key=rank)
