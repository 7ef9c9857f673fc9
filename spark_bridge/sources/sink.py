"""``penstock_batches``: a sink that commits batches by number, and a reader of committed ones.

The sink knows a batch by its writer (the query) and its number. Tasks get both from Spark and send
them with the names of the files that they wrote; the driver commits. See :mod:`.ledger`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyspark.sql.datasource as spark_api
from pyspark.sql import types as spark

from penstock.errors import DataError, UsageError
from penstock.sim.spark_replay.options import Options

from ..rows import cast_to
from ..task import local_property, partition
from ..types import arrow_schema
from .ledger import Ledger, check_writer
from .records import Batches, BatchFile

Message = spark_api.WriterCommitMessage

#: Name of the format.
NAME = "penstock_batches"

#: Properties that Spark passes on to the tasks of a streaming query.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"

#: About how many bytes a reader's task gets.
_PART_BYTES = 64 << 20


@dataclass
class Written(Message):
    """Files that a task wrote, and their batch."""

    writer: str
    batch: int
    files: list[BatchFile] = field(default_factory=list)
    query: str | None = None


class BatchesSource(spark_api.DataSource):
    """The sink; docs/spark-sources.md has its options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> spark.StructType:
        return spark.StructType.fromJson(json.loads(self._ledger.schema()))

    def reader(self, schema: spark.StructType) -> BatchesReader:
        return BatchesReader(self._ledger, schema)

    def streamReader(self, schema: spark.StructType) -> BatchesStreamReader:
        return BatchesStreamReader(self._ledger, schema)

    def writer(self, schema: spark.StructType, overwrite: bool) -> BatchesWriter:
        ledger = self._writable(schema, overwrite)
        writer, batch = self._options.text("writer"), self._options.whole("batch", None, least=0)
        if (writer is None) != (batch is None):
            raise UsageError(
                f"{NAME} recognises a repeated batch by the options writer and batch: give both, "
                "or none for rows that are written once"
            )
        return BatchesWriter(ledger, check_writer(writer or uuid.uuid4().hex), batch or 0)

    def streamWriter(self, schema: spark.StructType, overwrite: bool) -> BatchesStreamWriter:
        writer = self._options.text("writer")
        ledger = self._writable(schema, overwrite)
        return BatchesStreamWriter(ledger, None if writer is None else check_writer(writer))

    @property
    def _options(self) -> Options:
        return Options(self.options, NAME)

    @property
    def _ledger(self) -> Ledger:
        path = self._options.required("path", "a folder that driver and workers share")
        return Ledger.at(path)

    def _writable(self, schema: spark.StructType, overwrite: bool) -> Ledger:
        if overwrite:
            raise UsageError(
                f"{NAME} never changes a committed batch: write with mode('append'), or in output "
                "mode append"
            )
        ledger = self._ledger
        ledger.take_schema(schema.json())
        return ledger


@dataclass
class BatchesWriter(spark_api.DataSourceArrowWriter):
    """Rows of a batch DataFrame, as one batch."""

    ledger: Ledger
    name: str
    batch: int

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        files = self.ledger.write(self.name, self.batch, partition(), iterator)
        return Written(self.name, self.batch, files)

    def commit(self, messages: list[Message | None]) -> None:
        self.ledger.commit(self.name, self.batch, _files(messages))

    def abort(self, messages: list[Message | None]) -> None:
        self.ledger.discard(_files(messages))


@dataclass
class BatchesStreamWriter(spark_api.DataSourceStreamArrowWriter):
    """Rows of a streaming query, micro-batch by micro-batch.

    Parameters
    ----------
    ledger : Ledger
    name : str or None
        Of the writer; None for the query's number, which Spark's checkpoint keeps.
    """

    ledger: Ledger
    name: str | None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        query, batch = _told(_QUERY), int(_told(_BATCH))
        writer = self.name or query
        return Written(
            writer, batch, self.ledger.write(writer, batch, partition(), iterator), query
        )

    def commit(self, messages: list[Message | None], batchId: int) -> None:
        written = [m for m in messages if isinstance(m, Written)]
        if not written:
            return  # a batch without any task has no rows
        told = {(m.writer, m.batch) for m in written}
        writer = written[0].writer
        if told != {(writer, batchId)}:
            raise DataError(f"tasks of batch {batchId} wrote batches {sorted(told)}; report this")
        if self.name is not None:
            for query in {m.query for m in written if m.query}:
                self.ledger.take_writer(writer, query)
        self.ledger.commit(writer, batchId, _files(messages))

    def abort(self, messages: list[Message | None], batchId: int) -> None:
        self.ledger.discard(_files(messages))


def _files(messages: Iterable[Message | None]) -> list[BatchFile]:
    return [file for m in messages if isinstance(m, Written) for file in m.files]


def _told(key: str) -> str:
    """A property of the query that Spark passes on to its tasks.

    Raises
    ------
    UsageError
    """
    found = local_property(key)
    if not found:
        raise UsageError(
            f"Spark does not tell the tasks {key}; write inside foreachBatch, with the options "
            "writer and batch"
        )
    return found


class _Rows:
    """Reads committed files in a task; base of both readers."""

    def __init__(self, ledger: Ledger, schema: spark.StructType) -> None:
        self.ledger, self.schema = ledger, arrow_schema(schema)

    def parts(self, batches: Iterable[Batches]) -> list[spark_api.InputPartition]:
        parts: list[list[BatchFile]] = []
        size = _PART_BYTES
        for file in (file for some in batches for files in some.values() for file in files):
            if size + file.bytes > _PART_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(file)
            size += file.bytes
        return [spark_api.InputPartition(files) for files in parts]

    def read(self, partition: spark_api.InputPartition) -> Iterator[pa.RecordBatch]:
        for file in partition.value:
            for batch in self.ledger.rows(file):
                yield cast_to(batch.select(self.schema.names), self.schema)


class BatchesReader(_Rows, spark_api.DataSourceReader):
    """All committed rows."""

    def partitions(self) -> list[spark_api.InputPartition]:
        ledger = self.ledger
        return self.parts(ledger.records(one).between(-1, None) for one in ledger.writers())


class BatchesStreamReader(_Rows, spark_api.DataSourceStreamReader):
    """Committed batches as they come; an offset is the latest of each writer."""

    def initialOffset(self) -> dict:
        return {}

    def latestOffset(self) -> dict:  # type: ignore[override]
        latest = {w: self.ledger.records(w).latest() for w in self.ledger.writers()}
        return {writer: number for writer, number in latest.items() if number is not None}

    def partitions(self, start: dict, end: dict) -> Sequence[spark_api.InputPartition]:
        return self.parts(
            self.ledger.records(writer).between(start.get(writer, -1), last)
            for writer, last in sorted(end.items())
        )
