"""Queries over tables and streams: the calls of ``import penstock``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any

import pyarrow as pa

from penstock.host.device.base import Device
from penstock.host.device.operator import Operator
from penstock.host.device.registry import open_device
from penstock.host.execute.running import Running
from penstock.host.grouping import GroupStream, grouped_table
from penstock.host.join.lookup.source import RelationTable, relation, relation_of
from penstock.host.join.lookup.stream import LookupStream
from penstock.host.join.stream import Flow, JoinStream, Span
from penstock.host.join.table.operators import table_join
from penstock.host.prune.sizes import Pruning, pruning_sizes
from penstock.host.state import PARTITIONS
from penstock.host.workers import Checkpoint
from penstock.host.workers.checkpoint import checkpoint_of, release_of
from penstock.host.workers.stream import WorkerStream, open_workers
from penstock.host.workers.table import WorkerTable

from .. import arguments
from ..errors import UsageError, memory_explained
from ..plan.group_query import GroupQuery
from ..query.compiler import compile_select
from ..query.options import QueryOptions, Rows, Within
from .given import TableLike, as_table, check_devices, using
from .lookups import refuse_windows, stream_with_relation, table_with_relation

__all__ = [
    "Checkpoint",
    "Flow",
    "GroupStream",
    "JoinStream",
    "Pruning",
    "Running",
    "TableLike",
    "WorkerStream",
    "as_table",
    "relation",
    "sql",
    "stream",
    "using",
]

#: A worker leads one partition of the keys at least.
_WORKERS = partial(arguments.whole, least=1, most=PARTITIONS)


def sql(
    query: str,
    tables: Mapping[str, TableLike],
    *,
    time: Mapping[str, str] | None = None,
    rows: Rows | None = None,
    within: Within | None = None,
    params: Mapping[str, Any] | None = None,
    scale: Mapping[str, int] | None = None,
    time_zone: str | None = None,
    disorder: Span | Mapping[str, Span] | None = None,
    device: str | Device | Sequence[Device] = "cpu",
    operator: str = "range",
    pruning: bool | Pruning = True,
    running: Running | None = None,
    memory_bytes: int | None = None,
    workers: int | None = None,
) -> pa.Table:
    """Join two tables over a time or ROWS window, or a table with a relation, or group a table.

    Parameters
    ----------
    query : str
        ``SELECT ... FROM a JOIN b ON ...``, or ``SELECT ... FROM a GROUP BY ...``, in Spark's SQL;
        see docs/sql.md.
    tables : mapping of name to table
        Arrow data, a path to a Parquet, CSV or Arrow file, or any object with
        ``__arrow_c_stream__``; one of them may be a :func:`penstock.relation`, which needs no
        window.
    time : mapping of alias to column, optional
        Event-time column of each side; ``"column:unit"`` gives an integer column a unit.
    rows : int or mapping of alias to int, optional
        ROWS window.
    within : int or timedelta, optional
        Time window of this size before and after.
    params : mapping, optional
        Values of the names in the query that are not columns.
    scale : mapping of "table.column" to int, optional
        Decimal digits of float columns that hold fixed-point numbers.
    time_zone : str, optional
        Zone of the session, as Spark's ``spark.sql.session.timeZone``. Literals and timestamps
        without a zone are read in it, days begin in it, and computed instants are given in it. By
        default UTC, and computed instants are given as timestamps without a zone.
    disorder : int, timedelta or mapping of alias to either, optional
        How far out of order rows may be; a row further behind is an error. By default tables may
        be in any order.
    device : str, Device or sequence of Device
        "cpu", "amaranth", or an open device. All lanes of all devices share the work, and what
        fails on one is tried on another. Groups of one table need none.
    operator : str
        "range", or "window" for the window-join operator: ROWS windows and band form; see
        docs/window-operator.md.
    pruning : bool or Pruning
        Whether the host leaves out pairs that cannot match, before the device sees
        them (range joins only). The result is the same.
    running : Running, optional
        Order of the rows, policy and limits of tasks; its ``pruning`` is not used.
    memory_bytes : int, optional
        With a relation: memory for its pages, the rows of it that are kept, and rows that wait;
        128 MiB by default. The table itself and the result are not counted.
    workers : int, optional
        Processes that group one table together; by default this process does.

    Returns
    -------
    pyarrow.Table
        The joined rows, or the groups of a query with aggregates; in no particular order, unless
        ``running`` asks for one.

    Raises
    ------
    PenstockError
        One of its leaves; the message says what is wrong, where, and what to do.

    Examples
    --------
    >>> import penstock, pyarrow as pa
    >>> rides = pa.table({"id": [1, 2], "t": [10, 50], "x": [0, 9]})
    >>> cabs = pa.table({"cab": [7, 8], "t": [12, 90], "x": [2, 9]})
    >>> penstock.sql(
    ...     "SELECT id, cab FROM rides r JOIN cabs c ON abs(r.x - c.x) < 5 "
    ...     "AND c.t BETWEEN r.t - 5 AND r.t + 5",
    ...     {"rides": rides, "cabs": cabs}, time={"r": "t", "c": "t"},
    ... ).to_pylist()
    [{'id': 1, 'cab': 7}]
    """
    options = QueryOptions(
        time=time, rows=rows, within=within, params=params, scale=scale, time_zone=time_zone
    )
    chosen = _operator(operator)
    arguments.mapping()("tables", tables)
    arguments.optional(arguments.one_or_each(arguments.span))("disorder", disorder)
    check_devices(device)
    arguments.optional(arguments.instance(Running, "a penstock.Running"))("running", running)
    sizes = pruning_sizes(pruning)
    looked_up = relation_of(tables)
    arguments.optional(_WORKERS)("workers", workers)
    if looked_up is None and memory_bytes is not None:
        raise UsageError("memory_bytes is for a query with a relation; leave it out")
    if looked_up is not None:
        given = {"operator": None if operator == "range" else "", "workers": workers}
        refuse_windows({"disorder": disorder, **given})
        arguments.optional(arguments.whole)("memory_bytes", memory_bytes)
        lookup = looked_up[1].options(
            memory_bytes, ordered=running is not None and running.ordered, pruning=sizes
        )
        with memory_explained():
            return table_with_relation(query, tables, looked_up, options, device, lookup)
    with memory_explained():
        loaded = {name: as_table(name, table) for name, table in tables.items()}
        schemas = {name: table.schema for name, table in loaded.items()}
        compiled = compile_select(query, schemas, options)
        if isinstance(compiled, GroupQuery):
            given = {"disorder": disorder, "operator": None if operator == "range" else operator}
            _refuse_of_one_table(device, given)
            table = loaded[compiled.source.table]
            groups = (
                grouped_table(compiled, table)
                if workers is None
                else WorkerTable(
                    query,
                    table,
                    schemas,
                    options,
                    workers,
                    ordered=running is not None and running.ordered,
                )
            )
            return pa.Table.from_batches(groups, groups.schema)
        if workers is not None:
            raise UsageError(
                "workers is for groups of one table; leave it out, and give several devices, or "
                "one with more lanes"
            )
        with using(device) as opened:
            join = table_join(chosen)(
                compiled, loaded, opened, disorder=disorder, pruning=sizes, running=running
            )
            return pa.Table.from_batches(join, join.schema)


def stream(
    query: str,
    schemas: Mapping[str, pa.Schema | RelationTable],
    *,
    time: Mapping[str, str] | None = None,
    rows: Rows | None = None,
    within: Within | None = None,
    params: Mapping[str, Any] | None = None,
    scale: Mapping[str, int] | None = None,
    time_zone: str | None = None,
    unique: Mapping[str, str | Sequence[str]] | None = None,
    disorder: Span | Mapping[str, Span] = 0,
    device: str | Device | Sequence[Device] = "cpu",
    flow: Flow | None = None,
    trace: bool = False,
    workers: int | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
    release: str = "commit",
) -> JoinStream | LookupStream | GroupStream | WorkerStream:
    """Open a running query: a join of two streams or of a stream and a relation, or groups of one.

    Parameters
    ----------
    schemas : mapping of table name to pyarrow.Schema
        Schemas of the batches; one of them may be a :func:`penstock.relation` instead.
    unique : mapping of alias to column or columns, optional
        Columns whose values no two rows of a source share. A group by them is complete with its
        row; other groups need the event time among their keys, see docs/streams.md.
    disorder : int, timedelta or mapping of source to either
        How far out of order rows may be; later ones go to ``late()``. 0 by default: in order.
    device : str, Device or sequence of Device
        All lanes of all devices share the work. A device given by name is closed with the stream.
    flow : Flow, optional
        Latency target, memory, order, scheduling; see docs/streams.md.
    trace : bool
        Whether ``stream.trace`` records what each lane did when.
    workers : int, optional
        Processes that group one stream together; see docs/workers.md. By default this one does, or
        one process where there is a checkpoint.
    checkpoint : path or Checkpoint, optional
        Folder of checkpoints, by which groups outlive processes. ``poll`` then gives the rows of
        one checkpoint, with its number, or None.
    release : str
        With a checkpoint: "commit" lets rows leave once it covers them, each under one number;
        "now" at once, and perhaps again after a loss.
    query, time, rows, within, params, scale, time_zone
        As for :func:`sql`.

    Returns
    -------
    JoinStream, LookupStream, GroupStream or WorkerStream
        With ``push``, ``advance``, ``poll``, ``flush``, ``late`` and ``close``.
    """
    options = QueryOptions(
        time=time,
        rows=rows,
        within=within,
        params=params,
        scale=scale,
        unique=unique,
        time_zone=time_zone,
    )
    arguments.one_or_each(arguments.span)("disorder", disorder)
    check_devices(device)
    arguments.optional(arguments.instance(Flow, "a penstock.Flow"))("flow", flow)
    arguments.flag("trace", trace)
    looked_up = relation_of(arguments.mapping()("schemas", schemas))
    chosen = flow or Flow()
    size = _workers(workers, checkpoint, release)
    if size is not None:
        _refuse_of_one_table(device, {})
        with memory_explained():
            return open_workers(
                query,
                {name: one for name, one in schemas.items() if isinstance(one, pa.Schema)},
                options,
                size,
                checkpoint=checkpoint_of(checkpoint),
                release=release,
                disorder=disorder,
                flow=chosen,
                trace=trace,
                relation=looked_up,
            )
    if looked_up is not None:
        with memory_explained():
            return stream_with_relation(
                query, schemas, looked_up, options, device, chosen, disorder, trace
            )
    with memory_explained():
        compiled = compile_select(query, schemas, options)
        if isinstance(compiled, GroupQuery):
            _refuse_of_one_table(device, {})
            schema = schemas[compiled.source.table]
            return GroupStream(compiled, schema, disorder=disorder, flow=chosen, trace=trace)
        is_named = isinstance(device, str)
        return JoinStream(
            compiled,
            schemas,
            open_device(device) if is_named else device,
            disorder=disorder,
            close_device=is_named,
            flow=flow,
            trace=trace,
        )


def _workers(
    workers: int | None,
    checkpoint: str | PathLike[str] | Checkpoint | None,
    release: str,
) -> int | None:
    """Return how many workers there are; None for none.

    Raises
    ------
    UsageError
    """
    arguments.optional(_WORKERS)("workers", workers)
    release_of(release)
    if checkpoint_of(checkpoint) is None:
        if release != "commit":
            raise UsageError(
                f"release={release!r} is about groups of one stream that a checkpoint covers; give "
                "checkpoint=FOLDER with such a query, or leave release out"
            )
        if workers is None:
            return None
    return workers or 1


def _refuse_of_one_table(device: str | Device | Sequence[Device], given: Mapping[str, Any]) -> None:
    """Refuse arguments that are about joins, of a query over one table.

    Raises
    ------
    UsageError
    """
    reasons = {
        "device": "its groups are folded by this process itself, and take no device",
        "disorder": "its groups do not depend on the order of its rows",
        "operator": "operators join two tables",
    }
    for argument, value in {"device": None if device == "cpu" else device, **given}.items():
        if value is not None:
            raise UsageError(
                f"{argument} is given, but the query is over one table: {reasons[argument]}; "
                f"leave {argument} out"
            )


def _operator(name: str) -> Operator:
    arguments.text("operator", name)
    try:
        return Operator(name)
    except ValueError:
        known = " or ".join(repr(operator.value) for operator in Operator)
        raise UsageError(f"operator must be {known}, not {name!r}") from None
