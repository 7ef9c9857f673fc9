"""A stream beside a static DataFrame, which is stored as a relation when the query first starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import QueryError, UsageError
from penstock.host.emit.open_delivery import joined_schema
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.store.location import Location
from penstock.plan.lookup import LookupPlan
from penstock.plan.plan import plan
from penstock.plan.query import JoinQuery, Side
from penstock.plan.shown import form_facts
from penstock.uses import QueryKind

from ..conf import Conf
from ..devices import DeviceChoice
from ..explaining import devices, show
from ..inputs import SlotRows
from ..lookup.build_relation import relation
from ..lookup.join import LookupCall, LookupSettings
from ..request import JoinOptions, device_of, entered, one_join, query_options
from ..stream_frame import After, StreamFrame, as_they_are
from ..types import arrow_schema, check_used, output_schema, spark_schema
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
    text : str
    frames : mapping of table name to DataFrame
        The stream, and the columns of the static one that the query reads.
    name : str
        Of the static table.
    options : JoinOptions
    arguments : LookupSettings
    query : JoinQuery
    device : DeviceChoice
    order : dict
        ``key`` or ``cluster``: columns of the static table by which its rows are found.
    after : callable
        Computes the output from the joined rows, row by row.
    """

    spark: SparkSession
    text: str
    frames: Mapping[str, DataFrame]
    name: str
    options: JoinOptions
    arguments: LookupSettings
    query: JoinQuery
    device: DeviceChoice
    order: Mapping[str, tuple[str, ...]]
    after: After = as_they_are

    @staticmethod
    def checked(
        spark: SparkSession,
        text: str,
        tables: Mapping[str, DataFrame],
        name: str,
        options: JoinOptions,
        arguments: LookupSettings,
    ) -> StaticJoin:
        """Check a call.

        Raises
        ------
        QueryError, SchemaError, UsageError, DeviceError
        """
        chosen = query_options(
            spark, text, options, QueryKind.STATIC, unique=arguments.unique, relation=name
        )
        device = device_of(spark, options, Conf.read(spark))
        frames = dict(tables)
        schemas = {one: arrow_schema(frame.schema) for one, frame in frames.items()}
        query = one_join(text, schemas, chosen, ends=False)
        check_used(query, {one: frame.schema for one, frame in frames.items()})
        inner = LookupPlan(query, name, ()).inner
        static = frames[inner.table]
        read = [*SlotRows(query, inner, static).slot_of] or static.columns[:1]
        frames[inner.table] = static.select(*(F.col(f"`{one}`") for one in read))
        columns = pa.schema([schemas[inner.table].field(one) for one in read])
        order, apart = _order(query, name, inner, columns), entered(options, None)
        return StaticJoin(spark, text, frames, inner.table, apart, arguments, query, device, order)

    @property
    def sparkSession(self) -> SparkSession:
        return self.spark

    def joined(self) -> DataFrame:
        inputs = {s.side: arrow_schema(self.frames[s.table].schema) for s in self.query.sides}
        schema: pa.Schema = output_schema(joined_schema(self.query, inputs))
        return self.spark.createDataFrame([], spark_schema(schema))

    @property
    def writeStream(self) -> StaticJoinWriter:
        """Writer that sets the output and starts the query, as a DataFrame's does."""
        return StaticJoinWriter(self)

    def explained(self, *, extended: bool = False) -> str:
        ((kind, columns),) = self.order.items()
        by = f"found by {kind} {', '.join(columns)}"
        facts = [
            ("join", f"{self.query.kind.value.lower()} of a stream and {self.name}, a DataFrame"),
            ("relation", f"{self.name} is stored under the checkpoint when the query first"),
            ("", f"starts, and read from there by later starts; its rows are {by}"),
            ("time zone", f"{self.query.time_zone}, spark.sql.session.timeZone of the call"),
            *form_facts(plan(self.query)),
            *devices(self.device),
        ]
        return show(facts, extended=extended)

    def frame(self, checkpoint: str) -> DataFrame:
        """The streaming DataFrame of a query with a checkpoint.

        Raises
        ------
        UsageError
            The relation under the checkpoint lacks columns.
        FileError
            It cannot be written or read.
        """
        stored = RelationTable(self.stored(checkpoint), refresh="start")
        tables = {**self.frames, self.name: stored}
        call = LookupCall.checked(self.spark, self.text, tables, self.options, self.arguments)
        return self.after(call.frame())

    def stored(self, checkpoint: str) -> str:
        """Store the static DataFrame, if no earlier start has; return its location."""
        folder = f"{checkpoint.rstrip('/')}/{FOLDER}/{_STATIC}"
        is_local = Location.parse(folder).path is not None
        if is_local:
            folder = file_store(folder).root
        note, frame = f"{folder}/{self.name}", self.frames[self.name]
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
