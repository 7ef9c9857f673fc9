"""Leaves a join to Spark where few pairs have equal keys, because Spark is faster there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.expr.node import Op
from penstock.plan.logic import conjuncts_of
from penstock.plan.query import LEFT, RIGHT, JoinKind, TimeWindow

from ..devices import NOTHING
from ..filters import tested
from ..inputs import TICKS, Input
from ..request import Request
from ..types import spark_schema
from .equal_keys import kept, pairs_of_equal_keys

#: Pairs of equal keys, per row of both sides, up to which Spark tests them all in less time than
#: Penstock takes to begin and to read the rows: some 100 ns a pair, and 2 us a row.
_FEW = 10

_HOW = {
    JoinKind.INNER: "inner",
    JoinKind.LEFT: "left",
    JoinKind.RIGHT: "right",
    JoinKind.FULL: "full",
    JoinKind.SEMI: "left_semi",
    JoinKind.ANTI: "left_anti",
}


@dataclass(frozen=True)
class NativeJoin:
    """A join that Spark runs itself, and whose rows are those that Penstock would give.

    Parameters
    ----------
    condition : Column
        Over the columns of both inputs' frames, which are named by side.
    keys : sequence of (str, str)
        Columns of the left and of the right side that the condition compares for equality.
    """

    condition: Column
    keys: Sequence[tuple[str, str]]

    @staticmethod
    def of_request(request: Request, inputs: Mapping[str, Input]) -> NativeJoin | None:
        """Write a join for Spark; None if Spark might give other rows, or a device is asked for."""
        query, device = request.query, request.device.resolve()
        resource = f"spark.task.resource.{request.conf.resource}.amount"
        if device.origin != NOTHING or request.spark.conf.get(resource, None):
            return None
        is_other = query.aggregation or query.scales or query.guards or query.nearest
        if is_other or request.compiled.ordering:
            return None
        if any(value.op is not Op.COLUMN for _, value in query.select):
            return None
        if not all(one.is_filtered and one.clock for one in inputs.values()):
            return None
        window = _in_window(query.window, inputs)

        def column(attr: tuple[str, str]) -> Column:
            return inputs[attr[0]].column_of_side(attr[1])

        conjuncts = conjuncts_of(query.predicate)
        tests = [test for one in conjuncts if (test := tested(one, column)) is not None]
        ties: list[dict[str, str]] = []
        for one in conjuncts:
            if one.op is Op.EQ and all(arg.op is Op.COLUMN for arg in one.args):
                ties.append(dict(arg.attr for arg in one.args))
        ties = [by_side for by_side in ties if len(by_side) == 2]
        if window is None or not ties or len(tests) < len(conjuncts):
            return None
        condition = reduce(and_, tests, window)
        return NativeJoin(condition, [(tie[LEFT], tie[RIGHT]) for tie in ties])

    def why_faster(self, request: Request, inputs: Mapping[str, Input]) -> str:
        """Say why Spark is faster, by a job that counts the keys; empty if it is not."""
        left, right = inputs[LEFT], inputs[RIGHT]
        keys = [(left.column(one), right.column(other)) for one, other in self.keys]
        equals = kept(
            left.table,
            right.table,
            repr(request.compiled),
            lambda: pairs_of_equal_keys(left.frame, right.frame, keys),
        )
        if equals is None or equals.pairs > _FEW * equals.rows:
            return ""
        return f"about {equals.pairs:.3g} pairs have equal keys, which Spark tests faster"

    def frame(self, request: Request, inputs: Mapping[str, Input], output: pa.Schema) -> DataFrame:
        """Return the rows of the join."""
        left, right = (inputs[side].frame.alias(side) for side in (LEFT, RIGHT))
        joined = left.join(right, self.condition, _HOW[request.query.kind])
        fields = spark_schema(output).fields
        columns = [
            inputs[value.attr[0]].column_of_side(value.attr[1]).cast(field.dataType)
            for (_, value), field in zip(request.query.select, fields, strict=True)
        ]
        return joined.select(*columns).toDF(*(field.name for field in fields))


def _in_window(window: object, inputs: Mapping[str, Input]) -> Column | None:
    """Test that both rows have times in the window; None if their ticks cannot be compared."""
    left, right = (inputs[side].clock for side in (LEFT, RIGHT))
    if not isinstance(window, TimeWindow) or not left or not right or left.factor != right.factor:
        return None
    low, high = window.offsets(RIGHT)
    before, after = F.col(f"{LEFT}.{TICKS}"), F.col(f"{RIGHT}.{TICKS}")
    shift, factor = left.offset - right.offset, left.factor
    tests = [before.isNotNull(), after.isNotNull()]
    # A bound beyond BIGINT admits all times, or none.
    if low is not None:
        least = -((-low - shift) // factor)
        tests.append(F.coalesce(after >= F.try_add(before, F.lit(least)), F.lit(least <= 0)))
    if high is not None:
        most = (high + shift) // factor
        tests.append(F.coalesce(after <= F.try_add(before, F.lit(most)), F.lit(most >= 0)))
    limit = 1 << 62
    known = [bound for bound in (low, high, shift) if bound is not None]
    return reduce(and_, tests) if all(abs(bound) < limit for bound in known) else None
