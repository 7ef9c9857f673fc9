"""The writer of a streaming join, which starts its query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.errors import UsageError

from ..metrics.listener import records_are
from ..session_settings import parallelism
from ..shown import is_classic
from ..stream_frame import After
from ..types import spark_schema
from .delta import NAME as DELTA
from .delta import DeltaSink
from .figures import FigureRecords
from .identity import check_folder
from .join_writer import JoinWriter, Sink
from .microbatch import MicroBatch
from .output_folders import FolderSink, require_distinct
from .place import QueryPlace
from .room import started
from .sinks import (
    CONSOLE,
    MEMORY,
    NOOP,
    ConsoleSink,
    MemorySink,
    delta_table_over,
    managed_table,
    noop,
    table_over,
)
from .spec import JoinSpec

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: Options of the writer itself; others go to the format.
_OWN = ("checkpointLocation", "storeLocation", "path", "latePath")


class StreamingJoinWriter(JoinWriter):
    """Like Spark's ``DataStreamWriter``, for a join of streams.

    A Delta table gets each micro-batch in one transaction, once. A file format writes one folder
    ``batch=<number>`` per micro-batch and overwrites it when the batch is repeated.
    ``foreachBatch`` gets the output and the batch's number, and must do the same. To try a query,
    there are the formats ``console``, ``memory`` and ``noop``; the default is parquet.

    Options are ``checkpointLocation``, ``storeLocation`` (for the join's own files, if not in the
    checkpoint), ``path``, ``latePath`` (for late rows), and those of the format.
    """

    def __init__(
        self,
        spark: SparkSession,
        spec: JoinSpec,
        rows: DataFrame,
        lanes: int | None,
        after: After,
    ) -> None:
        super().__init__("a join needs a checkpoint")
        self._spark, self._spec, self._rows, self._lanes = spark, spec, rows, lanes
        self._after = after
        self._table: str | None = None

    def outputMode(self, outputMode: str) -> StreamingJoinWriter:
        """Only ``append``: rows of the output never change."""
        if outputMode != "append":
            raise UsageError(f"a join has output mode append, not {outputMode!r}")
        return self

    def foreach(self, f: Any) -> NoReturn:
        """Refused: rows one by one cannot be written exactly once."""
        raise UsageError(
            "foreach calls a function for each row, also of a repeated micro-batch; give a "
            "function of a micro-batch and its number to foreachBatch"
        )

    def _started(self, checkpoint: str, table: str | None) -> StreamingQuery:
        self._table = table
        place = QueryPlace(checkpoint, self._options.get("storeLocation"))
        store = place.store
        sink = self._sink()
        late = self._late_sinks()
        folders = [one for one in (sink, *late.values()) if isinstance(one, FolderSink)]
        require_distinct(folders)
        number = check_folder(place, self._spec)
        is_new = store.latest() is None
        for folder in folders:
            folder.check(self._columns().names)
            folder.take(self._spark, number, is_new=is_new)
        sink = self._opened(sink, number, is_new=is_new)
        lanes = self._lanes or parallelism(self._spark)
        micro_batch = MicroBatch(self._spec, store, lanes, self._after, sink, late, place)
        writer = self._named(self._rows.writeStream).foreachBatch(micro_batch)
        writer = writer.option("checkpointLocation", checkpoint)
        query = started(writer.start, checkpoint)
        records_are(str(query.id), FigureRecords(store.folder).figures)
        return query

    def _late_sinks(self) -> dict[str, FolderSink]:
        """Sinks of late rows, by side."""
        if "latePath" not in self._options:
            return {}
        path = self._options["latePath"].rstrip("/")
        names = self._spec.names.items()
        return {side: FolderSink(f"{path}/{table}", "parquet") for side, table in names}

    def _sink(self) -> Sink:
        kind, is_batch = self._format or "parquet", self._function is not None
        if is_batch or kind in (CONSOLE, MEMORY, NOOP):
            shown = "foreachBatch" if is_batch else f"format {kind}"
            for call, value in (("partitionBy", self._by), ("toTable", self._table)):
                if value:
                    raise UsageError(
                        f"{call} is for format delta and file formats, not for {shown}; leave it "
                        "out"
                    )
        options = {k: v for k, v in self._options.items() if k not in _OWN}
        if self._function is not None:
            return self._function
        if kind == CONSOLE:
            return ConsoleSink.from_options(options)
        if kind == NOOP:
            return noop
        if kind == MEMORY:
            return self._memory()
        if self._table is not None:
            self._require_classic("toTable")
        if "path" not in self._options and self._table is not None and kind != DELTA:
            self._options["path"] = managed_table(
                self._spark, self._table, FolderSink("", kind, options, self._by), self._columns()
            )
        if "path" not in self._options:
            how = 'option("path", PATH)' if self._table else "start(PATH)"
            raise UsageError(
                f"format {kind} needs a folder for the output: {how}, or give a function to "
                "foreachBatch"
            )
        if kind == DELTA:
            return DeltaSink.from_options(self._options["path"], self._by, options)
        return FolderSink(self._options["path"], kind, options, self._by)

    def _memory(self) -> MemorySink:
        self._require_classic(f"format {MEMORY}")
        if self._name is None:
            raise UsageError("format memory makes a view of the query's name: queryName(NAME)")
        return MemorySink(self._spark, self._name, self._columns())

    def _opened(self, sink: Sink, query: str, *, is_new: bool) -> Sink:
        """Return the sink, ready for micro-batches: its view or table has been made."""
        if isinstance(sink, MemorySink):
            if not is_new:
                raise UsageError(
                    "the rows of format memory end with the program, and the checkpoint "
                    f"{self._options['checkpointLocation']} goes on after them; give a new "
                    "checkpointLocation"
                )
            sink.open()
        elif isinstance(sink, DeltaSink):
            sink = replace(sink, query=query)
            sink.open(self._columns())
            if self._table is not None:
                delta_table_over(self._spark, self._table, sink.location)
        elif isinstance(sink, FolderSink) and self._table is not None:
            return table_over(self._spark, self._table, sink, self._columns())
        return sink

    def _columns(self) -> StructType:
        return self._after(joined_rows(self._spark, self._spec)).schema

    def _require_classic(self, call: str) -> None:
        if not is_classic(self._spark):
            raise UsageError(
                f"{call} works on the session of the program, and through Spark Connect the output "
                "is written in another process; start(PATH) with a format of files"
            )


def joined_rows(spark: SparkSession, spec: JoinSpec) -> DataFrame:
    """A batch DataFrame without rows, with the columns of a join, or of its rows that wait."""
    ordering, output = spec.compiled.ordering, spec.output
    hidden = [] if ordering is None else ordering.hidden(spec.query())
    joined = spark_schema(pa.schema([f for f in output if f.name not in hidden]))
    rows = spark.createDataFrame([], joined)
    return rows if spec.waiting is None else spec.waiting.of_joined(rows)
