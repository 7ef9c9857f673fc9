"""``penstock.stream``: running queries over streams, and of a stream and a relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any, Literal, TypedDict, Unpack, overload

import pyarrow as pa

from penstock.host.device.base import Device, device_list
from penstock.host.device.registry import open_device
from penstock.host.join.lookup.as_of import at_versions
from penstock.host.join.lookup.lookup_join import LookupOptions, RelationJoin
from penstock.host.join.lookup.opening import open_lookup
from penstock.host.join.lookup.relation_source import (
    RelationTable,
    relation_of,
    relations_of,
    without_relations,
)
from penstock.host.join.lookup.stream import LookupStream
from penstock.host.join.stream import Flow, JoinStream, Span
from penstock.host.join.stream.running_query import RunningQuery
from penstock.host.relation.border import Relation
from penstock.host.relational.stream import LookedUp
from penstock.host.rows.received import received_schema
from penstock.host.workers import Checkpoint
from penstock.host.workers.checkpoint import checkpoint_of, release_of
from penstock.host.workers.here import GroupStream
from penstock.host.workers.members import Workers
from penstock.host.workers.ranks.stream import open_workers
from penstock.host.workers.results import Polled, PolledPart

from .. import arguments
from ..errors import BeyondError, memory_explained
from ..plan.group_query import GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..plan.query import JoinQuery
from ..query.options import QueryOptions, Rows, Within
from ..user_functions import Udf
from ..uses import STREAM, Entrance, Way
from .around import stream_parts
from .classify import Columns, classify, columns_of, one_query
from .received import Devices, check_devices, check_workers, device_name, using

#: The path of a folder of checkpoints, or more about it.
_Checkpoint = str | PathLike[str] | Checkpoint


class _Options(TypedDict, total=False):
    """Arguments of :func:`stream` that do not decide what ``poll`` returns."""

    time: Mapping[str, str] | None
    rows: Rows | None
    within: Within | None
    params: Mapping[str, Any] | None
    scale: Mapping[str, int] | None
    time_zone: str | None
    ansi: bool
    functions: Mapping[str, Udf] | None
    unique: Mapping[str, str | Sequence[str]] | None
    disorder: Span | Mapping[str, Span] | None
    device: str | Device | Sequence[Device] | None
    flow: Flow | None
    trace: bool


_Schemas = Mapping[str, pa.Schema | RelationTable]


@overload
def stream(
    query: str,
    schemas: _Schemas,
    *,
    workers: int | Workers | None = None,
    checkpoint: None = None,
    release: str | None = None,
    **options: Unpack[_Options],
) -> RunningQuery[pa.Table]: ...


@overload
def stream(
    query: str,
    schemas: _Schemas,
    *,
    workers: Workers,
    checkpoint: _Checkpoint,
    release: Literal["commit"] | None = None,
    **options: Unpack[_Options],
) -> RunningQuery[PolledPart | None]: ...


@overload
def stream(
    query: str,
    schemas: _Schemas,
    *,
    workers: int | None = None,
    checkpoint: _Checkpoint,
    release: Literal["commit"] | None = None,
    **options: Unpack[_Options],
) -> RunningQuery[Polled | None]: ...


@overload
def stream(
    query: str,
    schemas: _Schemas,
    *,
    workers: int | Workers | None = None,
    checkpoint: _Checkpoint,
    release: Literal["now"],
    **options: Unpack[_Options],
) -> RunningQuery[pa.Table]: ...


def stream(
    query: str,
    schemas: _Schemas,
    *,
    time: Mapping[str, str] | None = None,
    rows: Rows | None = None,
    within: Within | None = None,
    params: Mapping[str, Any] | None = None,
    scale: Mapping[str, int] | None = None,
    time_zone: str | None = None,
    ansi: bool = False,
    functions: Mapping[str, Udf] | None = None,
    unique: Mapping[str, str | Sequence[str]] | None = None,
    disorder: Span | Mapping[str, Span] | None = None,
    device: str | Device | Sequence[Device] | None = None,
    flow: Flow | None = None,
    trace: bool = False,
    workers: int | Workers | None = None,
    checkpoint: _Checkpoint | None = None,
    release: str | None = None,
) -> RunningQuery[Any]:
    """Open a running query: a join of two streams, or with relations, or groups of one stream.

    Parameters
    ----------
    schemas : mapping of table name to pyarrow.Schema
        Schemas of the batches; some may be a :func:`penstock.relation` instead.
    unique : mapping of alias to column or columns, optional
        Columns whose values no two rows of a source share. A group by them is complete with its
        row; other groups need the event time among their keys, see docs/streams/streams.md.
    disorder : int, timedelta or mapping of source to either, optional
        How far out of order rows may be; later ones go to ``late()``. 0 by default: in order.
    device : str, Device or sequence of Device, optional
        "cpu" by default. All lanes of all devices share the work. A device given by name is closed
        with the stream.
    flow : Flow, optional
        Latency target, memory, order, scheduling; see docs/streams/streams.md.
    trace : bool
        Whether ``stream.trace`` records what each lane did when.
    workers : int or Workers, optional
        Processes that group one stream together; see docs/streams/workers.md. By default this
        one does, or one process where there is a checkpoint. With :func:`penstock.workers.mpi` all
        ranks make this call, push what they read, and poll the groups that they lead.
    checkpoint : path or Checkpoint, optional
        Folder of checkpoints, by which groups outlive processes. ``poll`` then gives the rows of
        one checkpoint, with its number, or None.
    release : str, optional
        With a checkpoint: "commit", the default, lets rows leave once it covers them, each under
        one number; "now" at once, and perhaps again after a loss.
    query, time, rows, within, params, scale, time_zone, ansi, functions
        As for :func:`sql`.

    Returns
    -------
    RunningQuery
        ``poll`` gives a table; with a checkpoint that releases rows by its commits, rows under the
        number of a commit, or None.

    Examples
    --------
    >>> with penstock.stream(near, schemas, time=time, disorder=5) as stream:
    ...     stream.push("orders", orders)
    ...     stream.push("gps", gps)
    ...     stream.poll().to_pylist()
    [{'id': 1, 'cab': 7}]
    """
    entrance = Entrance.from_call(STREAM, stream, locals())
    release = release or "commit"
    size = _workers(workers, checkpoint, release)
    if size is not None:
        entrance = entrance.also(Way.WORKERS)
    if checkpoint is None:
        entrance = entrance.also(Way.UNSAVED)
    options = QueryOptions.from_call(locals(), entrance)
    disorder = 0 if disorder is None else disorder
    device = "cpu" if device is None else device
    arguments.one_or_each(arguments.span)("disorder", disorder)
    check_devices(device)
    arguments.optional(arguments.instance(Flow, "a penstock.Flow"))("flow", flow)
    arguments.flag("trace", trace)
    arguments.mapping()("schemas", schemas)
    schemas = {
        name: received_schema(one) if isinstance(one, pa.Schema) else one
        for name, one in schemas.items()
    }
    query, schemas = at_versions(query, schemas, options)
    chosen = flow or Flow()
    if size is not None:
        plain = {name: one for name, one in schemas.items() if isinstance(one, pa.Schema)}
        with memory_explained():
            return open_workers(
                query,
                plain,
                options,
                workers if isinstance(workers, Workers) else size,
                checkpoint=checkpoint_of(checkpoint),
                release=release,
                disorder=disorder,
                flow=chosen,
                trace=trace,
                relation=relation_of(schemas),
                device=device_name(device),
            )
    with memory_explained():

        def open_stream(
            compiled: JoinQuery | GroupQuery, columns: Mapping[str, Columns]
        ) -> RunningQuery[pa.Table]:
            if relation_of(columns) is not None:
                return stream_with_relation(compiled, columns, device, chosen, disorder, trace)
            streams = without_relations(columns)
            if isinstance(compiled, GroupQuery):
                schema = streams[compiled.source.table]
                return GroupStream(compiled, schema, disorder=disorder, flow=chosen, trace=trace)
            with ExitStack() as opened:  # the stream closes its device, once there is one
                running = JoinStream(
                    compiled,
                    streams,
                    opened.enter_context(open_device(device))
                    if isinstance(device, str)
                    else device,
                    disorder=disorder,
                    close_device=isinstance(device, str),
                    flow=flow,
                    trace=trace,
                )
                opened.pop_all()
            return running

        columns = without_relations(schemas) | {
            name: columns_of(one) for name, one in relations_of(schemas).items()
        }
        kind = classify(query, columns, options, relations_of(schemas), ends=False)
        if isinstance(kind, BeyondError):
            lookup = partial(look_up, devices=device, flow=chosen)
            return stream_parts(query, schemas, options, open_stream, lookup, kind)
        return open_stream(kind, schemas)


def _workers(
    workers: int | Workers | None, checkpoint: _Checkpoint | None, release: str
) -> int | None:
    """Return how many workers there are; None for none.

    Raises
    ------
    UsageError
    """
    workers = workers.size if isinstance(workers, Workers) else workers
    check_workers(workers)
    release_of(release)
    return workers if checkpoint_of(checkpoint) is None else workers or 1


@dataclass(frozen=True)
class _Opened:
    """A relation and devices that a running query has open until it calls ``close``."""

    plan: LookupPlan
    relation: Relation
    devices: Sequence[Device]
    #: Of the stream's batches.
    schema: pa.Schema
    options: LookupOptions
    close: Callable[[], None]

    def join(self) -> RelationJoin:
        """Open the join, with rows in their order."""
        options = replace(self.options, ordered=True)
        return open_lookup(self.plan, self.schema, self.relation, self.devices, options)


@contextmanager
def _opened(
    query: JoinQuery | GroupQuery, columns: Mapping[str, Columns], devices: Devices, flow: Flow
) -> Iterator[_Opened]:
    """Open a relation and devices; they are closed here only if an error comes."""
    ((name, relation),) = relations_of(columns).items()
    to_close = ExitStack()
    with ExitStack() as opened:
        stored = opened.enter_context(closing(relation.open()))
        plan = LookupPlan(lookup_of(query), name, stored.found_by)
        yield _Opened(
            plan,
            stored,
            device_list(opened.enter_context(using(devices))),
            without_relations(columns)[plan.outer.table],
            relation.options(
                flow.memory_bytes, ordered=flow.running.ordered, pruning=flow.running.sizes
            ),
            to_close.close,
        )
        to_close.push(opened.pop_all())


def stream_with_relation(
    query: JoinQuery | GroupQuery,
    columns: Mapping[str, Columns],
    devices: Devices,
    flow: Flow,
    disorder: Span | Mapping[str, Span],
    trace: bool,
) -> LookupStream | GroupStream:
    """Open a running join with a relation, or groups of the rows that a stream looks up.

    Parameters
    ----------
    columns : mapping of name to Schema or RelationTable
        Columns of the stream, and the relation.

    Raises
    ------
    PenstockError
        As for :func:`penstock.stream`.
    """
    with _opened(query, columns, devices, flow) as opened:
        if not isinstance(query, GroupQuery):
            return LookupStream(
                opened.plan,
                opened.schema,
                opened.relation,
                opened.devices,
                opened.options,
                flow,
                close=opened.close,
            )
        return GroupStream(
            query,
            opened.schema,
            disorder=disorder,
            flow=flow,
            trace=trace,
            lookup=opened.join(),
            owned=[opened.close],
        )


def look_up(
    text: str,
    columns: Mapping[str, Columns],
    options: QueryOptions,
    devices: Devices,
    flow: Flow,
) -> LookedUp:
    """Open a join of the rows of another part of a query with a relation.

    Parameters
    ----------
    columns : mapping of name to Schema or RelationTable
        Columns of these rows, and the relation.
    options : QueryOptions
        With the relation's name.

    Raises
    ------
    PenstockError
        As for :func:`penstock.stream`.
    """
    schemas = {name: columns_of(one) for name, one in columns.items()}
    query = one_query(text, schemas, options, ends=False)
    with _opened(query, columns, devices, flow) as opened:
        return LookedUp(opened.join, opened.close)
