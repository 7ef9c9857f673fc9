"""The writer of a stream beside a static DataFrame: Spark's own, once the query starts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import DataStreamWriter

from penstock.errors import UsageError

from ..sources.batches import NAME as BATCHES
from ..sources.batches import writing_refused
from ..stream_frame import JoinWriter
from .delta import NAME as DELTA
from .delta import DeltaSink
from .room import started

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from .static import StaticJoin


class StaticJoinWriter(JoinWriter):
    """Spark's ``DataStreamWriter`` of a stream beside a static DataFrame, once it starts."""

    def __init__(self, join: StaticJoin) -> None:
        super().__init__()
        self._join = join
        self._calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._format = ""

    def _set(self, method: str, *args: Any, **named: Any) -> StaticJoinWriter:
        self._calls.append((method, args, named))
        return self

    def format(self, source: str) -> StaticJoinWriter:
        self._format = source
        return self if source == DELTA else self._set("format", source)

    def outputMode(self, outputMode: str) -> StaticJoinWriter:
        return self._set("outputMode", outputMode)

    def queryName(self, queryName: str) -> StaticJoinWriter:
        return self._set("queryName", queryName)

    def trigger(self, **trigger: Any) -> StaticJoinWriter:  # type: ignore[override]
        return self._set("trigger", **trigger)

    def foreachBatch(self, func: Any) -> StaticJoinWriter:
        return self._set("foreachBatch", func)

    def foreach(self, f: Any) -> StaticJoinWriter:
        return self._set("foreach", f)

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        """Store the static DataFrame, if this is the first start, and start the query.

        Raises
        ------
        UsageError, FileError
            As :meth:`StaticJoin.started_frame`; or there is no checkpointLocation.
        """
        if path is not None:
            self.option("path", path)
        self._settle(format, outputMode, partitionBy, queryName, options)
        return started(self._opened().start, self._options.get("checkpointLocation"))

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        """Start the query as :meth:`start` does, into a table of the session's catalog."""
        self._settle(format, outputMode, partitionBy, queryName, options)
        to_table = partial(self._opened().toTable, tableName)
        return started(to_table, self._options.get("checkpointLocation"))

    def _opened(self) -> DataStreamWriter:
        """Spark's writer, of a query whose static DataFrame is stored."""
        checkpoint = self._options.get("checkpointLocation")
        if checkpoint is None:
            raise UsageError(
                f"{self._join.name} is stored under the checkpoint of the query: "
                '.option("checkpointLocation", FOLDER), on a file system that the driver and all '
                "workers share"
            )
        if self._format == BATCHES:
            raise writing_refused()
        writer = self._join.started_frame(checkpoint).writeStream
        for method, args, named in self._calls:
            writer = getattr(writer, method)(*args, **named)
        if self._format == DELTA:
            sink = self._delta(checkpoint)
            return writer.option("checkpointLocation", checkpoint).foreachBatch(sink)
        if self._by:
            writer = writer.partitionBy(*self._by)
        return writer.options(**self._options)

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
