"""A checked call of the bridge: a query over DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from penstock import arguments
from penstock.errors import QueryError, UsageError
from penstock.host.emit.open_delivery import joined_schema
from penstock.plan.lookup import require_complete
from penstock.plan.query import JoinQuery
from penstock.query.compiler import compile_query
from penstock.query.dialect import refused
from penstock.query.options import QueryOptions, Rows, Within
from penstock.query.parse import tree_of, with_room
from penstock.query.rewriting import without_with
from penstock.uses import Entrance, QueryKind, Way

from .arrival_sort import PLACE, Ordering, with_places
from .compiled import GROUP_IN_SPARK, Compiled
from .conf import Conf
from .devices import DeviceChoice
from .inputs import identifier
from .key_choice import Wanted, wanted_keys
from .resources import await_slot, check_resources
from .session_settings import of_session
from .stream_frame import StreamFrame
from .types import arrow_schema, check_used, output_schema

if TYPE_CHECKING:
    from penstock.host.join.lookup.relation_source import RelationTable
    from penstock.host.prune.sizes import Pruning
    from penstock.host.windows.source import Span

#: Beside the options of a call: what its caller wrote, and for a part of a query, no window.
_ENTRANCE, ALL_ROWS = "entrance", "all_rows"
#: Tables of a session that an error names.
_MOST_NAMES = 20
#: Options that are not the query's, or are not taken as they are.
_APART = ("device", "device_options", "keys", _ENTRANCE)


class CommonOptions(TypedDict, total=False):
    """Keyword arguments of every call: :class:`penstock.query.options.QueryOptions`, the device.

    ``device`` names a device that the executors have, such as ``"cpu"`` or
    ``"remote?address=unix:///run/penstock.sock"``; docs/spark/tables.md says which one is the
    default. ``device_options`` are arguments of the device's class. The CPU device gets
    ``threads=1``, since Spark already runs a task per core. ``keys`` has a column or columns of
    each side, by alias: lanes then own keys, of the conjunct over these columns.
    """

    within: Within | None
    params: Mapping[str, Any] | None
    scale: Mapping[str, int] | None
    device: str | None
    device_options: Mapping[str, Any] | None
    keys: Mapping[str, str | Sequence[str]] | None


class JoinOptions(CommonOptions, total=False):
    """Keyword arguments of calls that name the tables in the query."""

    time: Mapping[str, str] | None
    rows: Rows | None


@dataclass(frozen=True, kw_only=True)
class CallSettings:
    """Arguments of a call beside the query's options.

    Parameters
    ----------
    lanes, partitioning, ordered, memory_bytes, pins
        As for :func:`penstock.spark_bridge.sql`.
    unique, disorder, idle, pruning
        As for :func:`penstock.spark_bridge.stream`.
    is_stream : bool
        Whether the call takes streams only.

    Raises
    ------
    UsageError
    """

    lanes: int | None = None
    partitioning: str | None = None
    ordered: bool = False
    memory_bytes: int | None = None
    pins: str | None = None
    unique: Mapping[str, str | Sequence[str]] | None = None
    disorder: Span | Mapping[str, Span] | None = None
    idle: timedelta | None = None
    pruning: bool | Pruning | None = None
    is_stream: bool = False

    def __post_init__(self) -> None:
        if self.lanes is not None:
            arguments.whole("lanes", self.lanes, 1)
        if self.idle is not None and self.idle <= timedelta(0):
            raise UsageError(f"idle must be a time above 0, not {self.idle}")


@dataclass(frozen=True, kw_only=True)
class Request:
    """A query over DataFrames with its options, device and settings, checked.

    Parameters
    ----------
    spark : SparkSession
    frames : mapping of table name to DataFrame
        Of an ordered query with the columns of its order.
    query : JoinQuery
    compiled : Compiled
        The query as it travels.
    device : DeviceChoice
    conf : Conf
    wanted : Wanted or None
        The argument ``keys`` of the call.
    """

    spark: SparkSession
    frames: Mapping[str, DataFrame]
    query: JoinQuery
    compiled: Compiled
    device: DeviceChoice
    conf: Conf
    wanted: Wanted | None

    @staticmethod
    def checked(
        spark: SparkSession,
        text: str,
        frames: Mapping[str, DataFrame],
        options: JoinOptions,
        chosen: QueryOptions,
        *,
        ordered: bool = False,
        ends: bool = True,
        relations: Mapping[str, pa.Schema] | None = None,
    ) -> Request:
        """Check a call.

        Parameters
        ----------
        spark : SparkSession
        text : str
        frames : mapping of table name to DataFrame
        options : JoinOptions
            Of the call.
        chosen : QueryOptions
            Made of them by :func:`query_options`.
        ordered : bool
            Whether Spark sorts the output.
        ends : bool
            As for :func:`one_join`.
        relations : mapping of table name to pyarrow.Schema, optional
            Tables that are no DataFrames.

        Raises
        ------
        QueryError, SchemaError, UsageError, DeviceError
        """
        conf = Conf.read(spark)
        choice = DeviceChoice.read(options.get("device"), options.get("device_options"), conf)
        check_resources(spark, conf)
        schemas = {name: arrow_schema(frame.schema) for name, frame in frames.items()}
        schemas |= relations or {}
        query = one_join(text, schemas, chosen, ends=ends)
        check_used(query, {name: frame.schema for name, frame in frames.items()})
        ordering = None
        if ordered:
            ordering = Ordering(places=not any(f.isStreaming for f in frames.values()))
            query = ordering.extend(query)
            if ordering.places:
                frames = with_places(frames)
                schemas = {name: schema.append(PLACE) for name, schema in schemas.items()}
        await_slot(spark, conf)
        return Request(
            spark=spark,
            frames=frames,
            query=query,
            compiled=Compiled(text, schemas, chosen, ordering),
            device=choice,
            conf=conf,
            wanted=wanted_keys(query, options.get("keys")),
        )

    @property
    def is_streaming(self) -> bool:
        """Whether some DataFrame of the query is a stream."""
        return any(self.frames[side.table].isStreaming for side in self.query.sides)


def query_options(
    spark: SparkSession,
    text: str,
    options: JoinOptions,
    *ways: QueryKind | Way,
    unique: Mapping[str, str | Sequence[str]] | None = None,
    relation: str | None = None,
) -> QueryOptions:
    """Merge a call's options with the session's, for a query that runs in these ways.

    Raises
    ------
    UsageError
    TypeError
        There is no such option.
    """
    for name in options.keys() - JoinOptions.__optional_keys__ - {_ENTRANCE, ALL_ROWS}:
        raise TypeError(f"got an unexpected keyword argument {name!r}")
    chosen: dict[str, Any] = {name: one for name, one in options.items() if name not in _APART}
    entrance = options.get(_ENTRANCE)
    return QueryOptions(
        **chosen,
        **of_session(spark, text),
        unique=unique,
        relation=relation,
        entrance=None if entrance is None else entrance.also(*ways),
    )


def one_join(
    text: str, schemas: Mapping[str, pa.Schema], options: QueryOptions, *, ends: bool = True
) -> JoinQuery:
    """Compile a query that is one join.

    Parameters
    ----------
    ends : bool
        Whether the inputs end: they are no streaming DataFrames.

    Raises
    ------
    BeyondError
        The query is more than that, or has groups that a stream never completes.
    QueryError, SchemaError
    """
    query = compile_query(text, schemas, options, instead=GROUP_IN_SPARK, takes_nearest=ends)
    query.require_no_sessions("Spark's bridge")
    if not ends:
        require_complete(query, options.relation)
    return query


def result_schema(
    query: JoinQuery, schemas: Mapping[str, pa.Schema], *, nullable: bool = False
) -> pa.Schema:
    """Arrow schema of a query's rows for Spark, from the schemas of its tables by name.

    With ``nullable``, any column may be NULL.

    Raises
    ------
    QueryError
    """
    inputs = {side.side: schemas[side.table] for side in query.sides}
    return output_schema(joined_schema(query, inputs), None if nullable else query)


def entered(options: JoinOptions, entrance: Entrance | None) -> JoinOptions:
    """Add to options the call that they come from; None for options of a part of a query."""
    return cast("JoinOptions", {**options, _ENTRANCE: entrance})


def frames_of(spark: SparkSession, tables: Mapping[str, DataFrame | str]) -> dict[str, DataFrame]:
    """The DataFrames of tables, as :func:`frame_of` gives each."""
    return {name: frame_of(spark, name, table) for name, table in tables.items()}


def with_catalog(
    spark: SparkSession, text: str, tables: Mapping[str, DataFrame | str | RelationTable] | None
) -> tuple[str, Mapping[str, DataFrame | str | RelationTable]]:
    """Add the session's tables and views that a query reads beside the tables that are given.

    Returns
    -------
    text : str
        The query, in which tables have one name, without a catalog or database.
    tables : mapping of name to table

    Raises
    ------
    QueryError
        There is no such table, or the query reads two of one name.
    """
    known: dict[str, DataFrame | str | RelationTable] = dict(tables or {})
    by_caller = {name.lower() for name in known}
    try:
        reads = list(with_room(lambda: without_with(tree_of(text)), text).find_all(exp.Table))
    except QueryError:
        return text, known  # who reads the query says so
    places: dict[str, str] = {}
    for table in reads:
        parts, name = table.parts, table.name.lower()
        is_given = len(parts) == 1 and {name, table.alias.lower()} & by_caller
        if is_given or not all(isinstance(part, exp.Identifier) for part in parts):
            continue
        place = ".".join(identifier(part.name) for part in parts)
        if name in by_caller or places.get(name, place).lower() != place.lower():
            raise refused(
                f"there are two tables named {table.name}: write another name here, and give "
                f"tables={{NAME: {place!r}}}",
                table,
            )
        if name not in places:
            if not spark.catalog.tableExists(place):
                named = f"the tables given are {', '.join(tables)}; " if tables else ""
                raise refused(
                    f"unknown table {table.name}: {named}{_names_in(spark)}",
                    table,
                )
            places[name], known[table.name] = place, spark.table(place)
        if len(parts) > 1:  # positions of errors stay
            first, last = parts[0].meta["start"], parts[-1].meta["start"]
            text = text[:first] + " " * (last - first) + text[last:]
    return text, known


def _names_in(spark: SparkSession) -> str:
    """Say which tables and views a session has, in its current database."""
    names = sorted(one.name for one in spark.catalog.listTables())
    more = ", ..." if len(names) > _MOST_NAMES else ""
    return f"the session has {', '.join(names[:_MOST_NAMES]) or 'none'}{more}"


def static_table(frames: Mapping[str, DataFrame]) -> str | None:
    """Name of the table that is no stream beside one that is; None if both are alike."""
    ends = {name: not frame.isStreaming for name, frame in frames.items()}
    if len(ends) != 2 or len(set(ends.values())) == 1:
        return None
    return next(name for name, does_end in ends.items() if does_end)


def frame_of(spark: SparkSession, name: str, table: DataFrame | str) -> DataFrame:
    """The DataFrame of a table, given as such or by name.

    Raises
    ------
    UsageError
        There is none.
    """
    if isinstance(table, str):
        if not spark.catalog.tableExists(table):
            raise UsageError(
                f"table {name}: there is no table or view named {table} "
                f"({_names_in(spark)}); create it, or give a DataFrame"
            )
        table = spark.table(table)
    if isinstance(table, StreamFrame):
        raise UsageError(
            f"table {name} is a join of streams, which runs micro-batch by micro-batch: start it, "
            "and read what it has written by spark.readStream"
        )
    # Spark Connect's DataFrame is a class beside the classic one; both have this base.
    if not isinstance(table, DataFrame):
        raise UsageError(
            f"table {name} is a {type(table).__name__}; give a Spark DataFrame, or the name of a "
            "table or view"
        )
    return table
