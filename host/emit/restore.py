"""Makes output columns from base rows, copied or computed, and tests pairs on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.columns import Vector, evaluate_columns
from penstock.expr.node import PRESENT, Expr, Op
from penstock.plan.group_query import Grouped
from penstock.plan.query import JoinQuery, columns, other

from ..execute.chunk import Chunk
from ..execute.order import Pairs
from ..rows.columns import arrow_type, load, to_arrow
from ..rows.gather import word
from ..rows.picked import Nobody, Picked
from ..rows.plain import plain_type
from ..rows.sides import Arrival
from ..windows.probe import Probe
from ..windows.run import Snapshot

#: Most rows of one output batch.
BATCH_ROWS = 1 << 20
#: Plain numbers that are copied in the time of another value, about.
_WIDE = 16


class Restorer:
    """Builds the SELECT list of output rows.

    Parameters
    ----------
    query : JoinQuery or GroupQuery
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables; a selected column keeps its Arrow type.
    select : sequence of (str, Expr), optional
        Output columns over columns of the tables; by default those of a join.
    """

    def __init__(
        self,
        query: Grouped,
        schemas: Mapping[str, pa.Schema],
        select: Sequence[tuple[str, Expr]] | None = None,
    ) -> None:
        self.query = query
        self._schemas = schemas
        self.scales = {one.side: query.scale_of(one.side) for one in query.sides}
        is_join = isinstance(query, JoinQuery)
        self.select = select if select is not None else query.select if is_join else ()
        self.guards = query.guards if is_join and select is None else ()
        self._lacking = query.kind.null_supplying if is_join else frozenset()
        self.computed = [expr.op is not Op.COLUMN for _, expr in self.select]
        #: Values of a row, in plain numbers that are copied.
        fields, self.width = [], 0
        for (name, expr), computed in zip(self.select, self.computed, strict=True):
            if computed:
                dtype = arrow_type(expr.type, name, query.zone_label)
            else:
                dtype = plain_type(schemas[expr.attr[0]].field(expr.attr[1]).type)
            fields.append(pa.field(name, dtype))
            self.width += _WIDE if computed or word(dtype) is None else 1
        self.schema = pa.schema(fields)
        needed = [columns(expr) for _, expr in self.select if expr.op is not Op.COLUMN]
        needed += map(columns, self.guards)
        self.inputs = set().union(*needed) if needed else set()

    def restore(self, rows: Mapping[str, Picked | Nobody]) -> pa.RecordBatch:
        """Make output rows of base rows, by side; a side that is not needed may be absent."""
        by_column: dict[tuple[str, str], pa.Array] = {}

        def take(side: str, column: str) -> pa.Array:
            if (side, column) not in by_column:
                by_column[side, column] = rows[side].column(column)
            return by_column[side, column]

        vectors: dict[tuple[str, str | None], Vector] = {
            (side, PRESENT): Vector(rows[side].present) for side in self._lacking
        }
        for side, column in self.inputs:
            batch = pa.record_batch([take(side, column)], names=[column])
            alias = self.query.side(side).alias
            vectors[side, column] = load(batch, [column], self.scales[side], alias)[column]
        count = len(next(iter(rows.values())))
        for guard in self.guards:
            evaluate_columns(guard, vectors, count)
        arrays = [
            to_arrow(evaluate_columns(expr, vectors, count), expr.type, field.type)
            if computed
            else take(*expr.attr)
            for (_, expr), field, computed in zip(
                self.select, self.schema, self.computed, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def alone(self, side: str, rows: Picked) -> dict[str, Picked | Nobody]:
        """Return the base rows of output rows of one side, which leave without a match."""
        return {side: rows, other(side): Nobody(self._schemas[other(side)], len(rows))}

    def picked(
        self, side: str, base: pa.RecordBatch | pa.Table | None, rows: np.ndarray
    ) -> Picked | Nobody:
        """Pick rows of a side's base; -1 for none, and all are none without a base."""
        if base is None:
            return Nobody(self._schemas[side], len(rows))
        return Picked(base, rows, lacks=side in self._lacking)


def base_rows(stream: Arrival, window: Snapshot, pairs: Pairs) -> dict[str, Picked]:
    """Pick base rows of pairs: tuples of an arrival, and positions of the other side's run."""
    tuples = pairs.i if pairs.tuples is None else pairs.tuples
    return {
        stream.side: stream.picked(tuples, None if pairs.tuples is None else pairs.i),
        other(stream.side): window.rows.pick(pairs.j, pairs.first - window.first),
    }


class PairTester:
    """Keeps the pairs for which a query's predicate is TRUE.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.
    """

    def __init__(self, query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> None:
        self._restorer = Restorer(query, schemas, [("match", query.predicate)])

    def tested(self, chunk: Chunk) -> Chunk:
        """Return the chunk with only the matches among its pairs."""
        probe = chunk.order.bound.probe
        return replace(chunk, pairs=tuple(self._matches(probe, pairs) for pairs in chunk.pairs))

    def _matches(self, probe: Probe, pairs: Pairs) -> Pairs:
        if not len(pairs):
            return pairs
        rows = self._restorer.restore(base_rows(probe.stream, probe.window, pairs))
        is_match = pc.fill_null(rows.column(0), False)
        return pairs.pick(is_match.to_numpy(zero_copy_only=False))
