"""The methods of ``DataStreamWriter`` that the writers of all joins of streams have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from penstock.errors import UsageError

from ..sources.batches import NAME as BATCHES
from ..sources.batches import writing_refused

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: Writes rows of a micro-batch, given its number; may be called again for the same batch.
Sink = Callable[[DataFrame, int], None]


class JoinWriter(DataStreamWriter):
    """Like Spark's ``DataStreamWriter``, for a join.

    Parameters
    ----------
    need : str
        Why the query needs a checkpoint, for the message.
    """

    def __init__(self, need: str) -> None:
        self._need = need
        self._options: dict[str, str] = {}
        self._by: tuple[str, ...] = ()
        self._format: str | None = None
        self._name: str | None = None
        self._trigger: dict[str, Any] = {}
        self._function: Sink | None = None

    def format(self, source: str) -> Self:
        """``delta``, or a format of files that Spark can write; see docs/spark/streams.md."""
        self._format = source
        return self

    def option(self, key: str, value: Any) -> Self:
        """Set an option of the writer or of the format."""
        self._options[key] = str(value)
        return self

    def options(self, **options: Any) -> Self:
        """Set several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: str | list[str]) -> Self:
        """Columns by whose values a Delta table, or the folder of a micro-batch, is cut up."""
        names = [one if isinstance(one, list) else [one] for one in cols]
        self._by = tuple(name for some in names for name in some)
        return self

    def queryName(self, queryName: str) -> Self:
        """Name of the query among the session's active ones."""
        self._name = queryName
        return self

    def trigger(self, **trigger: Any) -> Self:  # type: ignore[override]
        """``processingTime=`` or ``availableNow=``, as for Spark's writer."""
        self._trigger = trigger
        return self

    def foreachBatch(self, func: Sink) -> Self:
        """A function of the output of a micro-batch and its number.

        It may be called again with the same rows and number after a crash.
        """
        self._function = func
        return self

    def start(self, path: str | None = None, *args: Any, **named: Any) -> StreamingQuery:
        """Start the query.

        Parameters
        ----------
        path : str, optional
            The same as ``option("path", path)``.
        *args, **named
            ``format``, ``outputMode``, ``partitionBy``, ``queryName``, in this order: the same as
            the methods; then options.

        Returns
        -------
        pyspark.sql.streaming.StreamingQuery

        Raises
        ------
        UsageError
            There is no checkpointLocation or path; or the checkpoint, or a folder of output,
            belongs to another query.
        FileError
            State of the query is gone or damaged, or a folder cannot be written.
        """
        if path is not None:
            self.option("path", path)
        return self._begun(None, *args, **named)

    def toTable(self, tableName: str, *args: Any, **named: Any) -> StreamingQuery:
        """Start the query, and make a table of the session's catalog over its output.

        Parameters
        ----------
        tableName : str
            Of a table that is made, or already lies over ``option("path", ...)``.
        *args, **named
            As for :meth:`start`.

        Returns
        -------
        pyspark.sql.streaming.StreamingQuery

        Raises
        ------
        UsageError, FileError
            As for :meth:`start`; or Spark cannot read the format.
        """
        return self._begun(tableName, *args, **named)

    def _begun(
        self,
        table: str | None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        """Call the methods that the arguments stand for, and start the query."""
        self.options(**options)
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if queryName is not None:
            self.queryName(queryName)
        checkpoint = self._options.get("checkpointLocation")
        if checkpoint is None:
            raise UsageError(
                f'{self._need}: .option("checkpointLocation", FOLDER), on a file system that the '
                "driver and all workers share, or in an object store"
            )
        if self._format == BATCHES and self._function is None:
            raise writing_refused()
        return self._started(checkpoint, table)

    def _named(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Give Spark's writer the name and the trigger of the query."""
        if self._name:
            writer = writer.queryName(self._name)
        return writer.trigger(**self._trigger) if self._trigger else writer

    def _started(self, checkpoint: str, table: str | None) -> StreamingQuery:
        """Start the query; ``table`` is the name of a table over its output."""
        raise NotImplementedError
