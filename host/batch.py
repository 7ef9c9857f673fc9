"""A join of two whole tables: a bounded stream of result batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.host.completeness.run import WindowRun
from penstock.host.completeness.source import Span
from penstock.host.device.base import Device
from penstock.host.output import Restorer
from penstock.host.probe import Prober
from penstock.host.ranges import arrival_order, rows_ranges, time_ranges
from penstock.host.sides import SideRows
from penstock.host.table_join import TableJoin
from penstock.query.plan import LEFT, RIGHT, JoinQuery, TimeWindow, other
from penstock.rewrite.forms import JoinForm, join_form

#: Rows of one output batch.
BATCH_ROWS = 1 << 20
#: Results are gathered to as many rows before they are restored: where matches are rare, a batch
#: for each result would cost more than finding its rows.
LEAST_ROWS = 1 << 16


@dataclass(frozen=True)
class RangeJoin:
    """One direction of the join: stream tuples with ranges into the other side."""

    form: JoinForm
    start: np.ndarray
    end: np.ndarray

    @property
    def pairs(self) -> int:
        return int((self.end - self.start).sum())


class BatchJoin(TableJoin):
    """Gives the pairs that join, in batches."""

    def __init__(
        self,
        query: JoinQuery,
        tables: Mapping[str, pa.Table],
        device: Device,
        *,
        band: bool = True,
        disorder: Span | Mapping[str, Span] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        query.require_pairs("a join that gives pairs")
        super().__init__(
            query, tables, device, band=band, disorder=disorder, on_progress=on_progress
        )
        self.joins = _range_joins(query, self.sides, band)
        self.pairs_in_window = sum(join.pairs for join in self.joins)
        self.restorer = Restorer(query, {side: t.schema for side, t in self.tables.items()})

    @property
    def schema(self) -> pa.Schema:
        return self.restorer.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for join in self.joins:
            yield from self._run(join)
        self.stats.stop()

    def _run(self, join: RangeJoin) -> Iterator[pa.RecordBatch]:
        window_side = join.form.window
        window, stream = self.sides[window_side], self.sides[other(window_side)]
        prober = Prober(join.form, self.device, self.stats, names=self.names)
        keys = prober.keys(window.columns, len(window))
        run = WindowRun(window.time, keys)
        waiting: list[tuple[np.ndarray, np.ndarray]] = []
        with (
            closing(prober),
            closing(prober.probe(run, stream.columns, join.start, join.end)) as found,
        ):
            for i, j in found:
                self.progressed()
                waiting.append((i, j))
                if sum(len(i) for i, _ in waiting) >= LEAST_ROWS:
                    yield from self._restored(window_side, waiting)
                    waiting = []
            yield from self._restored(window_side, waiting)

    def _restored(
        self, window_side: str, found: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[pa.RecordBatch]:
        """Output rows of some results, in batches."""
        if not sum(len(i) for i, _ in found):
            return
        stream_side = other(window_side)
        rows = {
            stream_side: self.sides[stream_side].row[np.concatenate([i for i, _ in found])],
            window_side: self.sides[window_side].row[np.concatenate([j for _, j in found])],
        }
        for at in range(0, len(rows[LEFT]), BATCH_ROWS):
            part = slice(at, at + BATCH_ROWS)
            batch = self.restorer.restore(self.tables, rows[LEFT][part], rows[RIGHT][part])
            self.stats.rows += batch.num_rows
            yield batch


def _range_joins(query: JoinQuery, sides: Mapping[str, SideRows], band: bool) -> list[RangeJoin]:
    left, right = sides[LEFT], sides[RIGHT]
    if isinstance(query.window, TimeWindow):
        form = _cheaper_form(query, sides, band)
        stream, window = sides[other(form.window)], sides[form.window]
        ranges = time_ranges(stream.time, window.time, *query.window.offsets(form.window))
        return [RangeJoin(form, *ranges)]
    before_left, before_right = arrival_order(left.time, right.time)
    return [
        RangeJoin(
            join_form(query.predicate, RIGHT, band=band),
            *rows_ranges(before_left, query.window.right),
        ),
        RangeJoin(
            join_form(query.predicate, LEFT, band=band),
            *rows_ranges(before_right, query.window.left),
        ),
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
