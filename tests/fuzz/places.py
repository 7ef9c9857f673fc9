"""Random queries in Spark, and on two workers, which give the rows of one process.

``python -m tests.fuzz --twins 300 --place spark``, and ``--place workers``: the queries of
``tests.fuzz.twins``, each beside the answer of ``penstock.sql`` to the same tables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from logging import getLogger
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyarrow import parquet

from penstock.errors import DataError, QueryError
from penstock.host.workers import Workers
from penstock.query import compile_query
from tests.fuzz.twins import Case, Pair, plain
from tests.host.workers.kit.together import all_of, together

#: Gives the case that a place can run, and how it is asked there; None where it cannot.
Place = Callable[[Case], tuple[Case, Pair] | None]


def _in_spark(case: Case) -> Case:
    """A case of the types that Spark has, under ANSI mode as by its default."""
    tables = {}
    for name, table in case.tables.items():
        fields = [field.with_type(_of_spark(field.type)) for field in table.schema]
        tables[name] = table.cast(pa.schema(fields), safe=False)  # nanoseconds are cut
    return replace(case, tables=tables, zone=case.zone or "UTC", ansi=True)


def _of_spark(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}
        return wider.get(kind.bit_width, pa.decimal128(20, 0))
    return kind


def _widened(table: pa.Table, case: Case) -> pa.Table:
    """Integers as BIGINT; in SQL around joins, where Spark's functions type them, as decimals."""
    schemas = {name: case.tables[name].schema for name in case.query.tables}
    try:
        compile_query(case.query.text(), schemas, **case.options)
        wide, whole = pa.int64(), (pa.types.is_integer,)
    except QueryError:
        wide, whole = pa.decimal128(38, 0), (pa.types.is_integer, _is_decimal_of_scale_0)
    for place, field in enumerate(table.schema):
        if any(is_one(field.type) for is_one in whole):
            table = table.set_column(place, field.with_type(wide), table[place].cast(wide))
    return table


def _is_decimal_of_scale_0(dtype: pa.DataType) -> bool:
    return pa.types.is_decimal(dtype) and dtype.scale == 0


@contextmanager
def spark() -> Iterator[Place]:
    """A place that is one session of Spark, whose DataFrames read files."""
    from pyspark.errors import ArithmeticException, PythonException
    from pyspark.sql import SparkSession

    from penstock.spark_bridge import sql
    from penstock.spark_bridge.java import ensure_java
    from penstock.spark_bridge.types import output_schema, spark_schema

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").appName("twins")
    for key, value in (
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.sql.shuffle.partitions", "2"),
        # It is to live on a machine that has much else to do.
        ("spark.executor.heartbeatInterval", "600s"),
        ("spark.network.timeout", "3600s"),
        ("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    ):
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    getLogger("SQLQueryContextLogger").disabled = True

    def ask(form: str, case: Case) -> pa.Table:
        session.conf.set("spark.sql.session.timeZone", case.zone or "UTC")
        with TemporaryDirectory() as folder:
            frames = {}
            for name in case.query.tables:
                table, path = case.tables[name], f"{folder}/{name}.parquet"
                parquet.write_table(table, path, store_schema=False)
                frames[name] = session.read.schema(spark_schema(table.schema)).parquet(path)
            text = form.format(case.query.text())
            try:
                answer = sql(session, text, frames, time=case.options["time"]).toArrow()
            except (ArithmeticException, PythonException) as error:
                raise DataError(str(error)) from error
        return _widened(answer, case)

    def of_types(case: Case) -> pa.Table:
        """The plain answer in the types that docs/spark/tables.md promises."""
        table = plain(case)
        return _widened(table.cast(output_schema(table.schema)), case)

    def place(case: Case) -> tuple[Case, Pair] | None:
        if len(case.query.tables) == 1:  # it has no window, and is Spark's own
            return None
        return _in_spark(case), ("spark", of_types, partial(ask, "{}"))

    try:
        yield place
    finally:
        session.stop()


@contextmanager
def workers() -> Iterator[Place]:
    """A place of two workers: as threads where the query is one of streams, else as processes."""

    def place(case: Case) -> tuple[Case, Pair] | None:
        if case.query.can_stream:
            return case, ("workers", plain, _as_stream)
        if len(case.query.tables) > 1:
            return None
        return case, ("workers", plain, lambda one: one.ask(one.query.text(), workers=2))

    yield place


def _as_stream(case: Case) -> pa.Table:
    def of(rank: Workers) -> pa.Table:
        device = {"device": "cpu"} if len(case.query.tables) > 1 else {}
        return case.stream(case.query.text(), rank, workers=rank, **device)

    return pa.concat_tables(all_of(together(2, of)))


PLACES = {"spark": spark, "workers": workers}
