"""A join of two whole tables: a bounded stream of result batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

import pyarrow as pa

from penstock.errors import QueryError
from penstock.host.completeness.run import WindowRun
from penstock.host.pair_join import PairJoin
from penstock.host.probe import Prober
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
        window_side = join.form.window
        window, stream = self.sides[window_side], self.sides[other(window_side)]
        prober = Prober(join.form, self.device, self.stats, names=self.names, pruning=self.pruning)
        keys = prober.keys(window.columns, len(window))
        run = WindowRun(window.time, keys)
        with (
            closing(prober),
            closing(prober.probe(run, stream.columns, join.start, join.end)) as found,
        ):
            yield from self.restored(other(window_side), found)

    def _range_joins(self) -> list[RangeJoin]:
        query, left, right = self.query, self.sides[LEFT], self.sides[RIGHT]
        if isinstance(query.window, TimeWindow):
            form = _cheaper_form(query, self.sides, self.band)
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


def _cheaper_form(query: JoinQuery, sides: Mapping[str, SideRows], band: bool) -> JoinForm:
    """The direction with fewer tests per pair, then the one whose window is longer."""
    forms: list[JoinForm] = []
    refusal: QueryError | None = None
    for side in (RIGHT, LEFT):
        try:
            forms.append(join_form(query.predicate, side, band=band))
        except QueryError as error:  # a prefix has a form in one direction only
            refusal = error
    if refusal is not None and not forms:
        raise refusal
    return min(forms, key=lambda form: (form.cost, -len(sides[form.window])))
