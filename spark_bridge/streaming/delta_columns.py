"""Checks that the rows of an output fit into a Delta table: columns, partitions, rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as spark

from penstock.errors import SchemaError, UsageError

from ..types import arrow_type

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: Types of joins that Delta does not have.
_LACKING = (pa.duration("us").id, pa.null().id)

#: Types that partition columns may have: their texts in Delta's log are the same everywhere.
_PARTITIONED = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_boolean,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def arrow_of(schema: spark.StructType) -> pa.Schema:
    """Arrow schema of rows for Delta, in which every column may be NULL.

    Raises
    ------
    SchemaError
        Delta has no type for a column, or does not tell two apart.
    """
    twice = [name for name, n in Counter(f.name.lower() for f in schema).items() if n > 1]
    if twice:
        raise SchemaError(f"a Delta table cannot have two columns {twice[0]}; rename one with AS")
    fields = []
    for one in schema:
        dtype = arrow_type(one.dataType)
        if dtype is None or not _is_known(dtype):
            raise SchemaError(
                f"a Delta table has no type for column {one.name}, {one.dataType.simpleString()}; "
                "CAST it, or leave it out"
            )
        fields.append(pa.field(one.name, dtype))
    return pa.schema(fields)


def _is_known(dtype: pa.DataType) -> bool:
    """Whether Delta has a type, and those inside of it."""
    inner = [dtype.field(k).type for k in range(dtype.num_fields)]
    return dtype.id not in _LACKING and all(map(_is_known, inner))


def check_partitions(by: Sequence[str], schema: pa.Schema) -> None:
    """Refuse partition columns that a new table cannot have.

    Raises
    ------
    UsageError
    """
    for name in by:
        if name not in schema.names:
            raise UsageError(
                f"partitionBy names {name}, and the output has {', '.join(schema.names)}"
            )
        dtype = schema.field(name).type
        if not any(kind(dtype) for kind in _PARTITIONED):
            raise UsageError(
                f"column {name} is {dtype}, and a Delta table is partitioned by text, integers, "
                "booleans, dates and timestamps; CAST it, or leave it out"
            )
    if len(by) == len(schema.names):
        raise UsageError("partitionBy names all columns; leave one for the files")


def require_fitting(table: DeltaTable, schema: pa.Schema, by: Sequence[str], where: str) -> None:
    """Refuse a table that rows do not fit into.

    Parameters
    ----------
    table : deltalake.DeltaTable
    schema : pyarrow.Schema
        Of the rows.
    by : sequence of str
        Partition columns; empty for the table's own.
    where : str
        The table, for the message.

    Raises
    ------
    UsageError
    """
    from deltalake import Schema

    existing, wanted = (_types(s) for s in (table.schema(), Schema.from_arrow(schema)))
    if existing != wanted:
        names = [n for n in {**wanted, **existing} if existing.get(n) != wanted.get(n)]
        changes = "; ".join(
            f"{n} is {existing.get(n, 'missing')} there and {wanted.get(n, 'missing')} here"
            for n in names
        )
        raise UsageError(
            f"the Delta table {where} has other columns ({changes}); write the same columns, or "
            "choose another path"
        )
    its = table.metadata().partition_columns
    if by and list(by) != its:
        raise UsageError(
            f"the Delta table {where} is partitioned by {', '.join(its) or 'nothing'}, not by "
            f"{', '.join(by)}; leave partitionBy out, or choose another path"
        )
    rules = _rules(table)
    if rules:
        raise UsageError(
            f"the Delta table {where} has rules that Penstock does not keep ({', '.join(rules)}); "
            "write it inside foreachBatch, or choose another path"
        )


def _rules(table: DeltaTable) -> list[str]:
    """Names of a table's rules for its rows or files; Penstock checks none of these rules."""
    configuration = table.metadata().configuration
    rules = [key for key in configuration if key.startswith("delta.constraints.")]
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        rules.append("delta.columnMapping.mode")
    for one in json.loads(table.schema().to_json())["fields"]:
        rules += [f"{one['name']}: {key}" for key in one["metadata"] if key.startswith("delta.")]
    return rules


def _types(schema: Any) -> dict[str, str]:
    """Types of a Delta schema's columns by name; what may be NULL inside of one does not count."""
    return {
        one["name"]: _shown(_plain(one["type"])) + ("" if one["nullable"] else " NOT NULL")
        for one in json.loads(schema.to_json())["fields"]
    }


def _plain(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return {one["name"]: _plain(one["type"]) for one in kind["fields"]}
    return {k: _plain(v) for k, v in kind.items() if not k.lower().endswith("containsnull")}


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)
