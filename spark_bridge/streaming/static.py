"""A stream beside a static DataFrame, which is stored as a relation when the query first starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import QueryError, UsageError
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.store.location import Location
from penstock.plan.lookup import LookupPlan
from penstock.plan.query import JoinQuery, Side
from penstock.uses import QueryKind

from ..explaining import explanation, time_zone
from ..inputs import SlotRows, identifier
from ..lookup.build_relation import relation
from ..lookup.join import LookupCall
from ..request import CallSettings, JoinOptions, Request, entered, query_options, result_schema
from ..stream_frame import After, StreamFrame, as_they_are
from ..types import spark_schema
from .notes import put_note, read_note
from .place import FOLDER
from .static_writer import StaticJoinWriter
from .store import file_store

#: Folder of such relations beside the other files of a query.
_STATIC = "static"


@dataclass(frozen=True, repr=False, eq=False)
class StaticJoin(StreamFrame):
    """A stream that looks up rows of a static DataFrame; :func:`~.join.stream` makes it.

    Parameters
    ----------
    spark : SparkSession
    request : Request
        With the stream, and the columns of the static table that the query reads.
    name : str
        Of the static table.
    options : JoinOptions
    settings : CallSettings
    order : dict
        ``key`` or ``cluster``: columns of the static table by which its rows are found.
    after : callable
        Computes the output from the joined rows, row by row.
    """

    spark: SparkSession
    request: Request
    name: str
    options: JoinOptions
    settings: CallSettings
    order: Mapping[str, tuple[str, ...]]
    after: After = as_they_are

    @staticmethod
    def checked(
        spark: SparkSession,
        text: str,
        tables: Mapping[str, DataFrame],
        name: str,
        options: JoinOptions,
        settings: CallSettings,
    ) -> StaticJoin:
        """Check a call.

        Raises
        ------
        QueryError, SchemaError, UsageError, DeviceError
        """
        chosen = query_options(
            spark, text, options, QueryKind.STATIC, unique=settings.unique, relation=name
        )
        request = Request.checked(spark, text, tables, options, chosen, ends=False)
        query = request.query
        inner = LookupPlan(query, name, ()).inner
        static = tables[inner.table]
        read = [*SlotRows(query, inner, static).slot_of] or static.columns[:1]
        narrow = static.select(*(F.col(identifier(one)) for one in read))
        columns = pa.schema([request.compiled.schemas[inner.table].field(one) for one in read])
        order = _order(query, name, inner, columns)
        request = replace(request, frames={**tables, inner.table: narrow})
        return StaticJoin(spark, request, inner.table, entered(options, None), settings, order)

    @property
    def sparkSession(self) -> SparkSession:
        return self.spark

    def joined(self) -> DataFrame:
        request = self.request
        schema = result_schema(request.query, request.compiled.schemas, nullable=True)
        return self.spark.createDataFrame([], spark_schema(schema))

    @property
    def writeStream(self) -> StaticJoinWriter:
        """Writer that sets the output and starts the query, as a DataFrame's does."""
        return StaticJoinWriter(self)

    def explained(self, *, extended: bool = False) -> str:
        ((kind, columns),) = self.order.items()
        by, query = f"found by {kind} {', '.join(columns)}", self.request.query
        facts = [
            ("join", f"{query.kind.value.lower()} of a stream and {self.name}, a DataFrame"),
            ("relation", f"{self.name} is stored under the checkpoint when the query first"),
            ("", f"starts, and read from there by later starts; its rows are {by}"),
            time_zone(query),
        ]
        return explanation(query, facts, self.request.device, extended=extended)

    def started_frame(self, checkpoint: str) -> DataFrame:
        """The streaming DataFrame of a query with a checkpoint.

        Raises
        ------
        UsageError
            The relation under the checkpoint lacks columns.
        FileError
            It cannot be written or read.
        """
        stored = RelationTable(self.stored(checkpoint), refresh="start")
        request, tables = self.request, {**self.request.frames, self.name: stored}
        text = request.compiled.text
        call = LookupCall.checked(self.spark, text, tables, self.options, self.settings)
        return self.after(call.frame())

    def stored(self, checkpoint: str) -> str:
        """Store the static DataFrame, if no earlier start has; return its location."""
        folder = f"{checkpoint.rstrip('/')}/{FOLDER}/{_STATIC}"
        is_local = Location.parse(folder).path is not None
        if is_local:
            folder = file_store(folder).root
        note, frame = f"{folder}/{self.name}", self.request.frames[self.name]
        noted = read_note(self.spark, note)
        if noted is None:
            if is_local:
                Path(folder).mkdir(parents=True, exist_ok=True)
            # A build that was interrupted has left a folder that no note names.
            location = f"{folder}/{self.name}-{uuid4().hex}.rel"
            relation(
                self.spark,
                frame,
                location,
                key=self.order.get("key", ()),
                cluster=self.order.get("cluster", ()),
            )
            put_note(self.spark, note, json.dumps({"at": location, "has": frame.columns}))
            return location
        known = json.loads(noted)
        if missing := [one for one in frame.columns if one not in known["has"]]:
            raise UsageError(
                f"{self.name} was stored in {checkpoint} when the query first started, without "
                f"{', '.join(missing)}; begin with a new checkpoint"
            )
        return f"{folder}/{known['at'].rpartition('/')[2]}"  # a checkpoint may have been moved


def _order(
    query: JoinQuery, name: str, inner: Side, schema: pa.Schema
) -> dict[str, tuple[str, ...]]:
    """The order in which the relation's rows are found best: by equality, else by place."""

    def is_sought(column: str) -> bool:
        try:
            return LookupPlan(query, name, (column,)).sought_keys is not None
        except QueryError:
            return False  # compared with a value of another type, as a condition like others

    if key := tuple(filter(is_sought, schema.names)):
        return {"key": key}
    compared = set(query.join_columns_of(inner.side))
    numbers = [one.name for one in schema if one.name in compared and _is_number(one.type)]
    if cluster := tuple(numbers):
        return {"cluster": cluster}
    return {"key": tuple(schema.names[:1])}  # every row may match, in any order


def _is_number(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal)
    return any(one(kind) for one in kinds)
