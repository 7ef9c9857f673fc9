"""Running queries of a stream and a relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.host.device.base import Device, device_list
from penstock.host.grouping import GroupStream
from penstock.host.join.lookup.base import LookupOptions, RelationJoin
from penstock.host.join.lookup.opening import open_lookup
from penstock.host.join.lookup.source import relations_of, without_relations
from penstock.host.join.lookup.stream import LookupStream
from penstock.host.join.stream import Flow, Span
from penstock.host.relation.border import Relation
from penstock.host.relational.steps import LookedUp

from ..plan.group_query import GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..plan.query import JoinQuery
from ..query.options import QueryOptions
from .classify import Columns, columns_of, one_query
from .received import Devices, using


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
