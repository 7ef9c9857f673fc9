"""The rows of both sides as one streaming DataFrame, in slots that both use."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from penstock.query.plan import RIGHT, JoinQuery
from penstock.spark_bridge.streaming.spec import IS_RIGHT, JoinSpec


def slots_of(query: JoinQuery, tables: Mapping[str, DataFrame]) -> dict[str, dict[str, str]]:
    """Where each column travels: the k-th of a type in the k-th slot of that type."""
    found: dict[str, dict[str, str]] = {}
    for side in query.sides:
        dtypes = {f.name: f.dataType.simpleString() for f in tables[side.table].schema}
        used: dict[str, int] = {}
        found[side.side] = {}
        for name in query.columns_of(side.side):
            number = used.get(dtypes[name], 0)
            used[dtypes[name]] = number + 1
            found[side.side][name] = f"{dtypes[name]} {number}"
    return found


def union_of(query: JoinQuery, tables: Mapping[str, DataFrame], spec: JoinSpec) -> DataFrame:
    """The rows of both sides, in one schema. Nothing is filtered: late rows count first."""
    types: dict[str, spark_types.DataType] = {}
    for side in query.sides:
        dtypes = {f.name: f.dataType for f in tables[side.table].schema}
        types |= {slot: dtypes[name] for name, slot in spec.slots[side.side].items()}
    parts = []
    for side in query.sides:
        frame = tables[side.table]
        # By position: names may hold dots, or differ in case only.
        position = {field.name: f"c{i}" for i, field in enumerate(frame.schema)}
        frame = frame.toDF(*position.values())
        column_in = {slot: name for name, slot in spec.slots[side.side].items()}
        columns = [F.lit(side.side == RIGHT).alias(IS_RIGHT)]
        for slot, dtype in types.items():
            own = column_in.get(slot)
            value = F.lit(None).cast(dtype) if own is None else F.col(position[own])
            columns.append(value.alias(slot))
        parts.append(frame.select(*columns))
    return parts[0].union(parts[1])
