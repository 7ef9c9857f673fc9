"""The one way from a query and its tables to rows: the kind of the query decides what runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast

from pyspark.sql import DataFrame, SparkSession

from penstock.around.parts import Part
from penstock.host.join.lookup.relation_source import RelationTable, relation_of

from .around import SparkParts
from .batch.join import BatchPlan
from .lookup.join import LookupCall
from .request import (
    CallSettings,
    JoinOptions,
    Request,
    frames_of,
    query_options,
    static_table,
    with_catalog,
)
from .stream_frame import StreamFrame


class Planned(Protocol):
    """A checked query that is one join or one look-up."""

    def frame(self) -> DataFrame:
        """Return the result."""
        ...

    def explained(self, *, extended: bool = False) -> str:
        """Describe how the query will run, a fact per line."""
        ...


def opened(
    spark: SparkSession,
    text: str,
    tables: Mapping[str, DataFrame | str | RelationTable] | None,
    options: JoinOptions,
    settings: CallSettings,
    tell: Callable[[Planned | Part], None] = lambda step: None,
) -> DataFrame:
    """Plan a query as a look-up, as one join, or, if it is more, in parts; return the result.

    Parameters
    ----------
    spark : SparkSession
    text : str
    tables : mapping of name to DataFrame, str or relation, optional
        Other tables that the query reads are the session's.
    options : JoinOptions
    settings : CallSettings
    tell : callable
        Gets each part of a query in parts, before it is planned, and each plan.

    Raises
    ------
    PenstockError
        As for :func:`penstock.spark_bridge.sql` and :func:`penstock.spark_bridge.stream`.
    """

    def rows_of(planned: Planned) -> DataFrame:
        tell(planned)
        return planned.frame()

    text, tables = with_catalog(spark, text, tables)
    if relation_of(tables) is not None:
        return rows_of(LookupCall.checked(spark, text, tables, options, settings))

    def join(text: str, reads: Mapping[str, DataFrame], chosen: JoinOptions) -> DataFrame:
        return rows_of(_planned(spark, text, reads, chosen, settings))

    frames = frames_of(spark, cast("Mapping[str, DataFrame | str]", tables))
    parts = SparkParts.from_query(spark, text, frames, options, settings.unique)
    return join(text, frames, options) if parts is None else parts.open(join, tell)


def _planned(
    spark: SparkSession,
    text: str,
    frames: Mapping[str, DataFrame],
    options: JoinOptions,
    settings: CallSettings,
) -> BatchPlan | StreamFrame:
    """Check a query that is one join, and plan it."""
    static = static_table(frames)
    if static is not None:
        from .streaming.static import StaticJoin

        return StaticJoin.checked(spark, text, frames, static, options, settings)
    chosen = query_options(spark, text, options, unique=settings.unique)
    request = Request.checked(spark, text, frames, options, chosen, ordered=settings.ordered)
    if settings.is_stream or request.is_streaming:
        from .streaming.join import StreamingJoin

        return StreamingJoin.for_request(request, settings)
    return BatchPlan.for_request(request, settings)
