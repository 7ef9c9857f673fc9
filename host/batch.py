"""A join of two whole tables: a bounded stream of result batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing

import pyarrow as pa

from penstock.errors import QueryError
from penstock.host.device.base import Device
from penstock.host.pair_join import PairJoin
from penstock.host.ranges import arrival_order, rows_ranges
from penstock.host.sides import SideRows
from penstock.host.table_join import RangeJoin
from penstock.query.plan import LEFT, RIGHT, JoinQuery, TimeWindow, other
from penstock.rewrite.forms import JoinForm, join_form


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
            self.window_probe(join.form) as window,
            closing(window.probe(self.sides[side].columns, join.start, join.end)) as found,
        ):
            yield from self.restored(side, found)

    def _range_joins(self) -> list[RangeJoin]:
        query, left, right = self.query, self.sides[LEFT], self.sides[RIGHT]
        if isinstance(query.window, TimeWindow):
            resident = [s for s, own in self.stretches.items() if own and self.residence]
            form = _cheaper_form(query, self.sides, self.band, resident, self.device)
            return [RangeJoin(form, *self.ranges_of(other(form.window)))]
        before_left, before_right = arrival_order(left.time, right.time)
        ranges = {
            LEFT: rows_ranges(before_left, query.window.right),
            RIGHT: rows_ranges(before_right, query.window.left),
        }
        return [
            RangeJoin(
                join_form(query.predicate, other(side), band=self.band),
                *self.only_probing(side, *ranges[side]),
            )
            for side in (LEFT, RIGHT)
        ]


def _cheaper_form(
    query: JoinQuery,
    sides: Mapping[str, SideRows],
    band: bool,
    resident: Collection[str],
    device: Device,
) -> JoinForm:
    """The direction with fewer tests per pair, then the one whose window is longer.

    A window of which blocks are resident comes first where it would have to travel otherwise.
    """
    forms: list[JoinForm] = []
    refusal: QueryError | None = None
    for side in (RIGHT, LEFT):
        try:
            forms.append(join_form(query.predicate, side, band=band))
        except QueryError as error:  # a prefix has a form in one direction only
            refusal = error
    if refusal is not None and not forms:
        raise refusal

    def rank(form: JoinForm) -> tuple[bool, int, bool, int]:
        travels = form.window not in resident
        return device.keeps_windows and travels, form.cost, travels, -len(sides[form.window])

    return min(forms, key=rank)
