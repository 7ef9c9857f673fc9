"""Types of Spark columns as Arrow types, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type

from penstock.errors import QueryError, SchemaError

if TYPE_CHECKING:  # data sources need the tables of types, in processes that start for each batch
    from penstock.expr.node import Expr
    from penstock.plan.query import JoinQuery

#: Arrow types of Spark types without parameters. Spark stores both kinds of timestamps in
#: microseconds. Those with a zone are instants, so any zone would do: UTC.
_ARROW: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
    spark.NullType: pa.null(),
}

#: Stands for a type that the bridge does not carry. A table may have such columns, but
#: :func:`check_used` refuses a query that uses them. (The null type would say that all is NULL.)
_PLACEHOLDER = pa.string()

#: Digits of Spark's largest decimal.
_DECIMAL_DIGITS = 38


def arrow_type(dtype: spark.DataType) -> pa.DataType | None:
    """Arrow type of a Spark type; None if the bridge does not carry it.

    What is in arrays, structs and maps may be NULL, whatever Spark says of it: the columns of both
    sides travel in common slots.
    """
    if isinstance(dtype, spark.DecimalType):
        return pa.decimal128(dtype.precision, dtype.scale)
    # Other collations compare text in ways that Penstock does not know.
    if isinstance(dtype, spark.StringType):
        return pa.string() if dtype.isUTF8BinaryCollation() else None
    if isinstance(dtype, spark.ArrayType):
        element = arrow_type(dtype.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(dtype, spark.MapType):
        key, value = arrow_type(dtype.keyType), arrow_type(dtype.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    if isinstance(dtype, spark.StructType):
        types = [arrow_type(field.dataType) for field in dtype]
        named = [(name, t) for name, t in zip(dtype.names, types, strict=True) if t is not None]
        # Arrow reads a struct by the names of its fields.
        return pa.struct(named) if len({name for name, _ in named}) == len(types) else None
    return _ARROW.get(type(dtype))


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Arrow schema of a DataFrame; columns of types that cannot be carried are text.

    Of several columns of one name it has the first; :func:`check_used` refuses to use them.
    """
    fields: dict[str, pa.Field] = {}
    for f in schema:
        dtype = arrow_type(f.dataType) or _PLACEHOLDER
        fields.setdefault(f.name, pa.field(f.name, dtype, f.nullable))
    return pa.schema(list(fields.values()))


def columns_from_spark(query: JoinQuery, side: str) -> list[str]:
    """Columns of a side that the query uses, without the column of a lookup's groups."""
    from penstock.plan.lookup import GROUP

    return [name for name in query.columns_of(side) if name != GROUP]


def check_used(query: JoinQuery, schemas: Mapping[str, spark.StructType]) -> None:
    """Refuse a query that uses a column of a type that cannot be carried, or an ambiguous one.

    Parameters
    ----------
    schemas : mapping of table name to StructType
        Without a relation's, which does not come from Spark.

    Raises
    ------
    SchemaError
    """
    for side in query.sides:
        if side.table not in schemas:
            continue
        fields = schemas[side.table].fields
        for name in columns_from_spark(query, side.side):
            alike = [f.dataType for f in fields if f.name == name]
            if len(alike) > 1:
                raise SchemaError(
                    f"table {side.table} has {len(alike)} columns named {name}; rename one of "
                    "them with withColumnRenamed or toDF"
                )
            if arrow_type(alike[0]) is None:
                raise SchemaError(
                    f"column {side.alias}.{name} has Spark type {alike[0].simpleString()}, which "
                    "cannot be sent to a device; leave it out of the query, or CAST it in "
                    "the DataFrame"
                )


def output_schema(computed: pa.Schema, query: JoinQuery | None = None) -> pa.Schema:
    """Arrow schema of the rows for Spark, from the schema of the join's output.

    Parameters
    ----------
    computed : pyarrow.Schema
    query : JoinQuery, optional
        Says which columns are never NULL; without it, any may be.

    Raises
    ------
    QueryError
        A value may be too large for every Spark type.
    """
    select = () if query is None else (query.aggregation or query).select
    never = {name for name, value in select if _is_never_null(value)}
    return pa.schema(
        [pa.field(one.name, _output_type(one), one.name not in never) for one in computed]
    )


def _is_never_null(value: Expr) -> bool:
    """Whether a value is never NULL, and Spark says so, too."""
    from penstock.expr.node import Op, walk

    # Spark says that these may give NULL, whatever they get.
    may = (Op.MOD, Op.DIV, Op.FUNCTION, Op.LOCAL, Op.INSTANT)
    return not value.type.nullable and all(one.op not in may for one in walk(value))


def _output_type(field: pa.Field) -> pa.DataType:
    dtype = field.type
    if pa.types.is_uint64(dtype):
        return pa.decimal128(20, 0)
    if pa.types.is_decimal(dtype) and dtype.precision > _DECIMAL_DIGITS:
        raise QueryError(
            f"output column {field.name} may need {dtype.precision} digits, and Spark's decimals "
            f"have {_DECIMAL_DIGITS}; CAST it, or its operands, to a smaller type"
        )
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", None if dtype.tz is None else "UTC")
    if pa.types.is_duration(dtype):
        return pa.duration("us")
    return dtype


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Spark schema of :func:`output_schema`."""
    fields = spark.StructType()
    for f in schema:
        fields.add(f.name, from_arrow_type(f.type, prefer_timestamp_ntz=True), f.nullable)
    return fields
