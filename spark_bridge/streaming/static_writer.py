"""The writer of a stream beside a static DataFrame: Spark's own, once the query starts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from penstock.errors import UsageError

from .delta import NAME as DELTA
from .delta import DeltaSink
from .join_writer import JoinWriter
from .room import started
from .sinks import delta_table_over

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from .static import StaticJoin


class StaticJoinWriter(JoinWriter):
    """Spark's ``DataStreamWriter`` of a stream beside a static DataFrame, once it starts.

    The first start stores the static DataFrame.
    """

    def __init__(self, join: StaticJoin) -> None:
        super().__init__(f"{join.name} is stored under the checkpoint of the query")
        self._join = join
        self._calls: list[tuple[str, Any]] = []

    def outputMode(self, outputMode: str) -> Self:
        self._calls.append(("outputMode", outputMode))
        return self

    def foreach(self, f: Any) -> Self:
        self._calls.append(("foreach", f))
        return self

    def _started(self, checkpoint: str, table: str | None) -> StreamingQuery:
        writer = self._named(self._join.started_frame(checkpoint).writeStream)
        if self._function is not None:
            writer = writer.foreachBatch(self._function)
        for method, argument in self._calls:
            writer = getattr(writer, method)(argument)
        if self._format == DELTA:
            sink = self._delta(checkpoint)
            if table is not None:
                delta_table_over(self._join.spark, table, sink.location)
            writer = writer.option("checkpointLocation", checkpoint).foreachBatch(sink)
            return started(writer.start, checkpoint)
        if self._format is not None:
            writer = writer.format(self._format)
        if self._by:
            writer = writer.partitionBy(*self._by)
        writer = writer.options(**self._options)
        start = writer.start if table is None else partial(writer.toTable, table)
        return started(start, checkpoint)

    def _delta(self, checkpoint: str) -> DeltaSink:
        """A Delta table, which is there and gets each micro-batch once."""
        if "path" not in self._options:
            raise UsageError("format delta needs a folder for the table: start(PATH)")
        more = {k: v for k, v in self._options.items() if k not in ("checkpointLocation", "path")}
        sink = DeltaSink.from_options(self._options["path"], self._by, more)
        # The stored table's name is the query's alone, as long as its checkpoint is.
        sink = replace(sink, query=self._join.stored(checkpoint).rpartition("/")[2])
        sink.open(self._join.schema)
        return sink
