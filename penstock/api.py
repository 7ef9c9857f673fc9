"""Queries over tables and streams: the calls of ``import penstock``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import pyarrow as pa

from penstock.host.device.base import Device, device_list
from penstock.host.device.operator import Operator
from penstock.host.device.registry import open_device
from penstock.host.execute.running import Running
from penstock.host.grouping import GroupStream, grouped_table
from penstock.host.join.lookup.base import LookupOptions
from penstock.host.join.lookup.opening import open_lookup
from penstock.host.join.lookup.source import RelationTable, lookup_table, relation, relation_of
from penstock.host.join.lookup.stream import LookupStream
from penstock.host.join.stream import Flow, JoinStream, Span
from penstock.host.join.table.operators import table_join
from penstock.host.prune.sizes import Pruning, pruning_sizes
from penstock.host.relation.border import Relation
from penstock.host.rows.files import read_table
from penstock.host.state import PARTITIONS
from penstock.host.workers import Checkpoint
from penstock.host.workers.checkpoint import checkpoint_of, release_of
from penstock.host.workers.stream import WorkerStream, open_workers
from penstock.host.workers.table import WorkerTable

from . import arguments
from .errors import UsageError, memory_explained
from .plan.group_query import GroupQuery
from .plan.lookup import LookupPlan
from .query.compiler import compile_select
from .query.options import QueryOptions, Rows, Within

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

#: A table: Arrow data, a path, or anything with the Arrow C stream interface (pandas and Polars
#: frames, DuckDB relations).
TableLike = pa.Table | pa.RecordBatch | str | PathLike | Any

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
    _check_devices(device)
    arguments.optional(arguments.instance(Running, "a penstock.Running"))("running", running)
    sizes = pruning_sizes(pruning)
    looked_up = relation_of(tables)
    arguments.optional(_WORKERS)("workers", workers)
    if looked_up is None and memory_bytes is not None:
        raise UsageError("memory_bytes is for a query with a relation; leave it out")
    if looked_up is not None:
        given = {"operator": None if operator == "range" else "", "workers": workers}
        _refuse_windows({"disorder": disorder, **given})
        arguments.optional(arguments.whole)("memory_bytes", memory_bytes)
        lookup = looked_up[1].options(
            memory_bytes, ordered=running is not None and running.ordered, pruning=sizes
        )
        with memory_explained():
            return _with_relation(query, tables, looked_up, options, device, lookup)
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
    _check_devices(device)
    arguments.optional(arguments.instance(Flow, "a penstock.Flow"))("flow", flow)
    arguments.flag("trace", trace)
    looked_up = relation_of(arguments.mapping()("schemas", schemas))
    chosen = flow or Flow()
    size = _workers(workers, checkpoint, release, looked_up is not None)
    if size is not None:
        _refuse_of_one_table(device, {})
        with memory_explained():
            return open_workers(
                query,
                schemas,
                options,
                size,
                checkpoint=checkpoint_of(checkpoint),
                release=release,
                disorder=disorder,
                flow=chosen,
                trace=trace,
            )
    if looked_up is not None:
        with memory_explained():
            return _lookup_stream(
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
    looks_up: bool,
) -> int | None:
    """Return how many workers there are; None for none.

    Raises
    ------
    UsageError
    """
    arguments.optional(_WORKERS)("workers", workers)
    release_of(release)
    if checkpoint_of(checkpoint) is None and workers is None:
        return None
    if looks_up:
        raise UsageError(
            "workers and checkpoints are for a stream alone, and this query looks rows of a "
            "relation up; leave workers and checkpoint out, or look up before the stream"
        )
    return workers or 1


def _with_relation(
    query: str,
    tables: Mapping[str, TableLike],
    looked_up: tuple[str, RelationTable],
    options: QueryOptions,
    device: str | Device | Sequence[Device],
    lookup: LookupOptions,
) -> pa.Table:
    name, given = looked_up
    loaded = {one: as_table(one, table) for one, table in tables.items() if one != name}
    schemas = {one: table.schema for one, table in loaded.items()}
    with closing(given.open()) as stored, using(device) as opened:
        compiled, plan = _lookup_plan(query, schemas, name, stored, options)
        if compiled is None:
            return lookup_table(plan, loaded, stored, device_list(opened), lookup)
        table, once = loaded[plan.outer.table], replace(lookup, refresh=False, ordered=True)
        join = open_lookup(plan, table.schema, stored, device_list(opened), once)
        groups = grouped_table(compiled, table, join)
        return pa.Table.from_batches(groups, groups.schema)


def _lookup_stream(
    query: str,
    schemas: Mapping[str, Any],
    looked_up: tuple[str, RelationTable],
    options: QueryOptions,
    device: str | Device | Sequence[Device],
    flow: Flow,
    disorder: Span | Mapping[str, Span],
    trace: bool,
) -> LookupStream | GroupStream:
    name, given = looked_up
    own = {one: schema for one, schema in schemas.items() if one != name}
    lookup = given.options(
        flow.memory_bytes, ordered=flow.running.ordered, pruning=flow.running.sizes
    )
    with ExitStack() as opened:  # the stream closes it all, once there is one
        stored = opened.enter_context(closing(given.open()))
        compiled, plan = _lookup_plan(query, own, name, stored, options)
        if compiled is None:
            _refuse_windows({"disorder": disorder or None, "trace": trace or None})
        is_named = isinstance(device, str)
        devices = device_list(opened.enter_context(open_device(device)) if is_named else device)
        schema = own[plan.outer.table]
        if compiled is None:
            made = LookupStream(plan, schema, stored, devices, lookup, flow, close_device=is_named)
            opened.pop_all()
            return made
        join = open_lookup(plan, schema, stored, devices, replace(lookup, ordered=True))
        owned = ExitStack()
        groups = GroupStream(
            compiled,
            schema,
            disorder=disorder,
            flow=flow,
            trace=trace,
            lookup=join,
            owned=[owned.close],
        )
        owned.push(opened.pop_all())
        return groups


def _lookup_plan(
    query: str,
    schemas: Mapping[str, pa.Schema],
    name: str,
    stored: Relation,
    options: QueryOptions,
) -> tuple[GroupQuery | None, LookupPlan]:
    """Compile a query of a table, or a stream, and the relation of this name.

    Groups of looked-up pairs are a query of their own, above the look-up.
    """
    options = replace(options, relation=name)
    compiled = compile_select(query, {**schemas, name: stored.schema}, options)
    if not isinstance(compiled, GroupQuery):
        return None, LookupPlan(compiled, name, stored.found_by)
    assert compiled.lookup is not None
    return compiled, LookupPlan(compiled.lookup, name, stored.found_by)


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


def _refuse_windows(given: Mapping[str, Any]) -> None:
    """Refuse arguments that are about windows, of a query with a relation."""
    for argument, value in given.items():
        if value is not None:
            raise UsageError(
                f"{argument} is given, but a join with a relation has no window; leave it out"
            )


def _check_devices(device: Any) -> None:
    if isinstance(device, Sequence) and not isinstance(device, str):
        for one in device:
            arguments.instance(Device, "an open device")("each of device", one)
    elif not isinstance(device, str | Device):
        raise arguments.refuse("device", "the name of a device, or an open one", device)


def _operator(name: str) -> Operator:
    arguments.text("operator", name)
    try:
        return Operator(name)
    except ValueError:
        known = " or ".join(repr(operator.value) for operator in Operator)
        raise UsageError(f"operator must be {known}, not {name!r}") from None


@contextmanager
def using(device: str | Device | Sequence[Device]) -> Iterator[Device | Sequence[Device]]:
    """Give open devices; one that is given by name is closed at the end."""
    if not isinstance(device, str):
        yield device
        return
    with open_device(device) as opened:
        yield opened


def as_table(name: str, table: TableLike) -> pa.Table:
    """Read a table that a caller gave.

    Raises
    ------
    UsageError
        It cannot be read as a table.
    """
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if isinstance(table, str | PathLike):
        return read_table(table)
    if hasattr(table, "__arrow_c_stream__"):
        try:
            return pa.table(table)
        except MemoryError:
            raise
        except Exception as cause:  # whatever a foreign object raises
            raise UsageError(
                f"table {name}, a {type(table).__name__}, gives no Arrow data: {cause}"
            ) from cause
    raise UsageError(
        f"table {name} is a {type(table).__name__}; give Arrow data, a path, or an object with "
        "__arrow_c_stream__ (a pandas or Polars frame)"
    )
