"""``penstock_join`` in Spark SQL: a table function over both sides in one table.

Spark gives a table function one table, so it has the rows of both sides, with a column ``side``.
The columns of its result must be declared, so it gives the ids of the pairs, to be joined with the
tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from penstock.errors import SchemaError, UsageError

from .sources import register_sources
from .task import local_property, partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.udtf import UserDefinedTableFunction

#: Default name of the function.
NAME = "penstock_join"

#: Columns that its table needs: the side, 0 for l and 1 for r; an integer that identifies the row.
SIDE, ID = "side", "id"

#: Columns of its result.
RETURNS = "left_id bigint, right_id bigint"


def register(spark: SparkSession, name: str = NAME) -> None:
    """Make an inner join callable from Spark SQL, and the data sources known to the session.

    The sources are ``penstock_replay`` and ``penstock_batches``; see docs/spark-sources.md.

    The function takes a table with the rows of ``l`` (side 0) and ``r`` (side 1), a condition over
    ``l`` and ``r`` with their time window, and the name of the time column. It gives the ids of the
    pairs. It runs in one task, on the CPU device; :func:`penstock.spark_bridge.sql` uses many.

    Parameters
    ----------
    spark : SparkSession
    name : str

    Examples
    --------
    >>> register(spark)  # doctest: +SKIP
    >>> spark.sql(\"\"\"
    ...     SELECT * FROM penstock_join(
    ...         TABLE(SELECT 0 AS side, id, ts, x FROM orders
    ...               UNION ALL SELECT 1, id, ts, x FROM gps) WITH SINGLE PARTITION,
    ...         'abs(l.x - r.x) < 5 AND r.ts BETWEEN l.ts - 60 AND l.ts + 60', 'ts')
    ... \"\"\")  # doctest: +SKIP
    """
    from pyspark.sql.functions import arrow_udtf

    made = arrow_udtf(PenstockJoin, returnType=RETURNS)
    spark.udtf.register(name, cast("UserDefinedTableFunction", made))
    register_sources(spark)


class PenstockJoin:
    """The handler: Spark makes one per partition."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._call: tuple[str, str] | None = None

    def eval(self, rows: pa.RecordBatch, condition: Any, time: Any) -> None:
        """Take rows; a join needs all of them.

        Raises
        ------
        UsageError
            Spark runs the function in several tasks, which would miss pairs.
        SchemaError
        """
        if self._call is None:
            _require_one_task()
            for name in (SIDE, ID):
                if name not in rows.schema.names:
                    raise SchemaError(
                        f"the table of penstock_join needs a column {name}: TABLE(SELECT 0 AS "
                        "side, id, ... FROM l UNION ALL SELECT 1, id, ... FROM r)"
                    )
            self._call = _constant(condition), _constant(time)
        self._batches.append(rows)

    def terminate(self) -> Iterator[pa.Table]:
        """Join them."""
        if self._call is None:
            return
        from penstock.host.join.table.table_join import TableJoin
        from penstock.query.compiler import compile_query

        from .devices import shared_device
        from .time_zone import KEY

        condition, time = self._call
        both = pa.Table.from_batches(self._batches)
        rest, side = both.drop_columns([SIDE]), both.column(SIDE).to_numpy()
        tables = {name: rest.filter(pa.array(side == k)) for k, name in enumerate("lr")}
        text = f"SELECT l.{ID} AS left_id, r.{ID} AS right_id FROM l JOIN r ON {condition}"
        schemas, zone = dict.fromkeys("lr", rest.schema), local_property(KEY)
        query = compile_query(text, schemas, time=dict.fromkeys("lr", time), time_zone=zone)
        wanted = pa.schema([("left_id", pa.int64()), ("right_id", pa.int64())])
        for batch in TableJoin(query, tables, shared_device("cpu")):
            yield pa.Table.from_batches([batch]).cast(wanted)


def _require_one_task() -> None:
    # If all rows are in the first partition, no pair is missed.
    if partition() > 0:
        raise UsageError(
            "penstock_join runs in several tasks, each with some of the rows, and would miss "
            "pairs; write TABLE(...) WITH SINGLE PARTITION"
        )


def _constant(value: Any) -> str:
    """A constant argument, which Spark gives as a value or an array."""
    return str(value[0].as_py() if isinstance(value, pa.Array | pa.ChunkedArray) else value)
