"""The calls of ``penstock.spark_bridge``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from pyspark.sql import DataFrame, SparkSession

from penstock.around.parts import Joined, Part, Relational
from penstock.errors import UsageError
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.uses import SPARK, SPARK_STREAM, Entrance

from .around import part_fact
from .explaining import show
from .inputs import identifier
from .opening import Planned, opened
from .request import CallSettings, CommonOptions, JoinOptions, entered

if TYPE_CHECKING:
    from penstock.host.prune.sizes import Pruning
    from penstock.host.windows.source import Span

    from .streaming.join import StreamingJoin

#: SQL of each ``how`` of :func:`join`, in all of Spark's spellings without "_".
_HOW = {
    **dict.fromkeys(("inner", "cross"), "JOIN"),
    **dict.fromkeys(("left", "leftouter"), "LEFT JOIN"),
    **dict.fromkeys(("right", "rightouter"), "RIGHT JOIN"),
    **dict.fromkeys(("full", "outer", "fullouter"), "FULL JOIN"),
    **dict.fromkeys(("semi", "leftsemi"), "LEFT SEMI JOIN"),
    **dict.fromkeys(("anti", "leftanti"), "LEFT ANTI JOIN"),
}


def sql(
    spark: SparkSession,
    query: str,
    tables: Mapping[str, DataFrame | str | RelationTable] | None = None,
    *,
    lanes: int | None = None,
    partitioning: str | None = None,
    ordered: bool = False,
    memory_bytes: int | None = None,
    pins: str | None = None,
    **options: Unpack[JoinOptions],
) -> DataFrame:
    """Join two DataFrames over a time or ROWS window, or one with a relation, on devices.

    The call checks the query and, unless the tables are small, runs small jobs to cut the work into
    lanes. The join itself runs when the result is used.

    Parameters
    ----------
    spark : SparkSession
        Of this process or, with Spark Connect, of a server.
    query : str
        ``SELECT ... FROM a JOIN b ON ...`` in Spark's SQL; see docs/joins/sql.md.
    tables : mapping of name to DataFrame, str or relation, optional
        A string names a table or view of the session. Names of the query that are not here are
        those of the session's own tables and views. One table may be a
        :func:`penstock.relation`, which needs no window; the other one may then be a batch or a
        streaming DataFrame, and the result is one like it.
    lanes : int, optional
        With a relation: lanes that each own an arc of the hash of its key, to which rows are sent;
        by default as ``partitioning`` says. Otherwise most tasks of the join; by default as many as
        the work is worth, at most ``spark.sql.shuffle.partitions`` unless a lane would hold too
        many rows.
    partitioning : str, optional
        "time" for slices of one side's time, "grid" for 1-Bucket-Theta, "rows" for the one of both
        that sends fewer rows; "keys" for lanes that own keys; "auto", the default, for what costs
        least. With a relation: "in place" to join rows in the DataFrame's partitions,
        "arcs" to send them to lanes, by default ``spark.sql.shuffle.partitions``, or "auto".
    ordered : bool
        Sort pairs by the arrival of their later row, then of their earlier one, and rows without
        a match by when their window closes. Rows arrive by time; of rows of one time, left ones
        before right ones; then, in batch, by their place in the DataFrame. With a relation:
        rows come in the order of the DataFrame's.
    memory_bytes : int, optional
        With a relation: what a task has for it, see ``spark.penstock.lookup.memoryBytes``.
    pins : str, optional
        With a relation and a stream: the folder, or place in an object store, where tasks note
        which version a micro-batch reads. By default beside the relation, which is then written.
    **options
        ``time``, ``rows``, ``within``, ``params``, ``scale``, ``device``, ``device_options``,
        ``keys``; see
        :class:`penstock.spark_bridge.request.JoinOptions`.

    Returns
    -------
    DataFrame
        The joined rows, or the groups of a query with aggregates, in no particular order. If the
        tables are streams, it is the result of :func:`penstock.spark_bridge.stream`.

    Raises
    ------
    QueryError, SchemaError, UsageError, DeviceError
        On the call. Errors in the data are raised in a task; Spark's error quotes them.

    Examples
    --------
    >>> spark_bridge.sql(spark, near, tables, time=time).collect()
    [Row(id=1, cab=7)]
    """
    options = entered(options, Entrance.from_call(SPARK, sql, locals()))
    settings = CallSettings(
        lanes=lanes,
        partitioning=partitioning,
        ordered=ordered,
        memory_bytes=memory_bytes,
        pins=pins,
    )
    return opened(spark, query, tables, options, settings)


def join(
    left: DataFrame,
    right: DataFrame | str | RelationTable,
    *,
    on: str | Sequence[str] = "TRUE",
    time: str | tuple[str, str] | None = None,
    rows: int | tuple[int, int] | None = None,
    how: str = "inner",
    select: str = "*",
    names: tuple[str, str] = ("l", "r"),
    lanes: int | None = None,
    partitioning: str | None = None,
    ordered: bool = False,
    **options: Unpack[CommonOptions],
) -> DataFrame:
    """Join two DataFrames, as in ``left.transform(join, right, on=...)``.

    Parameters
    ----------
    left : DataFrame
    right : DataFrame, str or relation
        As a table of :func:`sql`.
    on : str or list of str
        Condition in Spark's SQL, over the two ``names``; or names of columns that are equal on
        both sides, and then stand once in the result, as in Spark.
    time : str or (str, str), optional
        Time column of both sides, or of each; ``"column:unit"`` gives an integer column a unit.
    rows : int or (int, int), optional
        ROWS window, of both sides or of each.
    how : str
        "inner", "left", "right", "full", "semi" or "anti", also as Spark spells them otherwise
        ("left_outer", "fullouter", "leftsemi", ...).
    select : str
        Output columns, as in SQL.
    names : (str, str)
        What ``on`` and ``select`` call the sides.
    lanes, partitioning, ordered, **options
        As for :func:`sql`; ``within`` is in addition to ``on``.

    Returns
    -------
    DataFrame

    Raises
    ------
    QueryError, SchemaError, UsageError, DeviceError

    Examples
    --------
    >>> orders.transform(
    ...     spark_bridge.join, gps, on="abs(l.x - r.x) < 5", time="t", within=5, select="id, cab"
    ... ).collect()
    [Row(id=1, cab=7)]
    """
    return sql(
        left.sparkSession,
        _text(names, on, how, select),
        {names[0]: left, names[1]: right},
        time=_of_both(names, time, str),
        rows=_of_both(names, rows, int),
        lanes=lanes,
        partitioning=partitioning,
        ordered=ordered,
        **options,
    )


def stream(
    spark: SparkSession,
    query: str,
    tables: Mapping[str, DataFrame | str | RelationTable] | None = None,
    *,
    unique: Mapping[str, str | Sequence[str]] | None = None,
    disorder: Span | Mapping[str, Span] | None = None,
    idle: timedelta | None = None,
    pruning: bool | Pruning | None = None,
    lanes: int | None = None,
    partitioning: str | None = None,
    ordered: bool = False,
    memory_bytes: int | None = None,
    pins: str | None = None,
    **options: Unpack[JoinOptions],
) -> StreamingJoin | DataFrame:
    """Join two streaming DataFrames over a time or ROWS window, or one with a relation, on devices.

    Parameters
    ----------
    spark : SparkSession
    query : str
        ``SELECT ... FROM a JOIN b ON ...`` in Spark's SQL; see docs/joins/sql.md.
    tables : mapping of name to streaming DataFrame, str or relation, optional
        As for :func:`sql`. One table may be a
        :func:`penstock.relation`, which needs no window.
    unique : mapping of alias to column or columns, optional
        Columns of which no two rows have the same values, for GROUP BY; see
        docs/streams/streams.md.
    disorder : int, timedelta or mapping of alias to either, optional
        How far a row's time may lie below the largest time of earlier micro-batches of its source;
        later rows are late. By default what ``withWatermark`` says. An integer is in the unit of
        the time column.
    idle : timedelta, optional
        When a source has sent nothing for this long and the other one has, it takes over the other
        one's watermark: output no longer waits for it, and rows that it sends later may be late.
        By default output waits for a silent source.
    pruning : bool or Pruning, optional
        As for :func:`penstock.sql`.
    lanes : int, optional
        Most tasks of a micro-batch's output; by default as many as run at a time. It may change
        from start to start.
    partitioning : str, optional
        "rows" shares out the rows that probe by their place, and each lane reads the whole window;
        with "keys" lanes own keys, and frequent ones are split; "auto", the default, takes keys
        where it can and a micro-batch has many rows. With a relation or a static
        table, as for :func:`penstock.spark_bridge.sql`.
    ordered : bool
        Sort the rows of each micro-batch, as :func:`penstock.spark_bridge.sql` does, by time alone.
    memory_bytes, pins
        With a relation, as for :func:`penstock.spark_bridge.sql`.
    **options
        ``time``, ``rows``, ``within``, ``params``, ``scale``, ``device``, ``device_options``,
        ``keys``; see
        :class:`penstock.spark_bridge.request.JoinOptions`.

    Returns
    -------
    StreamingJoin or DataFrame
        With ``writeStream``. A relation gives a streaming DataFrame.

    Raises
    ------
    QueryError, SchemaError, UsageError, DeviceError

    Examples
    --------
    >>> for name, frame in tables.items():  # files stand for topics
    ...     frame.write.parquet(f"{shared}/{name}")
    >>> streams = {
    ...     name: spark.readStream.schema(frame.schema).parquet(f"{shared}/{name}")
    ...     for name, frame in tables.items()
    ... }
    >>> joined = spark_bridge.stream(spark, near, streams, time=time, disorder=5)
    >>> writer = joined.writeStream.trigger(availableNow=True).format("parquet")
    >>> query = writer.option("checkpointLocation", f"{shared}/state").start(f"{shared}/near")
    >>> query.awaitTermination()
    >>> spark.read.parquet(f"{shared}/near").select("id", "cab").collect()
    [Row(id=1, cab=7)]
    """
    if "design" in options:
        raise UsageError(
            f"design={options['design']!r} is no option any more: the window of a join of streams "
            "lies in files beside the checkpoint; leave design out. Where the join is in the "
            "middle of a longer streaming query, write its rows into a table and read that by "
            "another query"
        )
    options = entered(options, Entrance.from_call(SPARK_STREAM, stream, locals()))
    settings = CallSettings(
        lanes=lanes,
        partitioning=partitioning,
        ordered=ordered,
        memory_bytes=memory_bytes,
        pins=pins,
        unique=unique,
        disorder=disorder,
        idle=idle,
        pruning=pruning,
        is_stream=True,
    )
    return opened(spark, query, tables, options, settings)


def explain(
    spark: SparkSession,
    query: str,
    tables: Mapping[str, DataFrame | str | RelationTable] | None = None,
    *,
    lanes: int | None = None,
    partitioning: str | None = None,
    memory_bytes: int | None = None,
    pins: str | None = None,
    extended: bool = False,
    **options: Unpack[JoinOptions],
) -> str:
    """Describe how :func:`sql` would run: window, lanes and why so many, device, form, evaluations.

    With ``extended`` all that is known; otherwise topics with many lines are cut to a few.
    Parameters and errors as for :func:`sql`; the same small jobs run.

    Examples
    --------
    >>> print(spark_bridge.explain(spark, near, tables, time=time))  # doctest: +ELLIPSIS
    join         inner of o and g
    window       -5 <= right.time - left.time <= 5
    ...
    """
    options = entered(options, Entrance.from_call(SPARK, explain, locals()))
    settings = CallSettings(
        lanes=lanes, partitioning=partitioning, memory_bytes=memory_bytes, pins=pins
    )
    texts: list[str] = []

    def tell(step: Planned | Part) -> None:
        is_part = isinstance(step, Joined | Relational)
        texts.append(show([part_fact(step)]) if is_part else step.explained(extended=extended))

    opened(spark, query, tables, options, settings, tell)
    return "\n".join(texts)


def _text(names: tuple[str, str], on: str | Sequence[str], how: str, select: str) -> str:
    """The query of a call of :func:`join`."""
    kind = _HOW.get(how.lower().replace("_", "")) if isinstance(how, str) else None
    if kind is None:
        raise UsageError(f"how must be one of {', '.join(_HOW)}, not {how!r}")
    if len(names) != 2 or names[0] == names[1] or not all(n.isidentifier() for n in names):
        raise UsageError(f"names must be two different identifiers, not {names!r}")
    left, right = names
    joined = f"FROM {left} {kind} {right}"
    if isinstance(on, list | tuple) and on and all(isinstance(name, str) for name in on):
        return f"SELECT {select} {joined} USING ({', '.join(map(identifier, on))})"
    if not isinstance(on, str):
        raise UsageError(
            f"on takes a condition as text, such as 'abs({left}.x - {right}.x) < 50', or a list of "
            f"names of equal columns, not a {type(on).__name__}: write the expression as SQL, in "
            f"which {left} and {right} are the sides"
        )
    return f"SELECT {select} {joined} ON {on}"


def _of_both(names: tuple[str, str], value: Any, single: type) -> dict[str, Any] | None:
    """Return a value per side, from a pair of values or from one for both sides."""
    if value is None:
        return None
    return dict(zip(names, (value, value) if isinstance(value, single) else value, strict=True))
