"""A query over tables: its kind, and the rows that answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.host.device.base import device_list
from penstock.host.device.operator import Operator
from penstock.host.execute.running import Running
from penstock.host.execute.trace import Trace
from penstock.host.join.lookup.as_of import at_versions
from penstock.host.join.lookup.lookup_join import RelationJoin
from penstock.host.join.lookup.opening import open_lookup
from penstock.host.join.lookup.relation_source import RelationTable, relations_of, without_relations
from penstock.host.join.stream import Span
from penstock.host.join.table.nearest_join import NearestJoin
from penstock.host.join.table.operator_join import table_join
from penstock.host.join.table.table_join import TableJoin
from penstock.host.prune.sizes import DEFAULT_PRUNING, Pruning
from penstock.host.workers.here import GroupedTable, grouped_table
from penstock.host.workers.table_groups import WorkerTable

from ..errors import BeyondError
from ..plan.group_query import GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..plan.query import JoinQuery
from ..query.options import QueryOptions
from .around import ShowPart, run_parts
from .classify import Table, classify, columns_of
from .received import Devices, TableFiles, device_name, using


@dataclass(frozen=True)
class How:
    """Settings by which a query over tables runs; see :func:`penstock.sql`.

    Parameters
    ----------
    devices : str, Device, sequence of Device, or callable
        With workers the name of one, which each opens.
    pruning : Pruning, optional
        None: every pair that the window admits is evaluated.
    band : bool
        Whether band form is allowed.
    trace : Trace, optional
        Records what is done when.
    on_progress : callable, optional
        Called with the pairs that are done, and all pairs.
    """

    devices: Devices = "cpu"
    operator: Operator = Operator.RANGE
    disorder: Span | Mapping[str, Span] | None = None
    pruning: Pruning | None = DEFAULT_PRUNING
    running: Running | None = None
    memory_bytes: int | None = None
    workers: int | None = None
    band: bool = True
    trace: Trace | None = None
    on_progress: Callable[[int, int], None] | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether rows are to leave in one order."""
        return self.running is not None and self.running.ordered


@dataclass(frozen=True)
class LookedUpTable:
    """Rows of a table with the rows of a relation that they meet; iterate to get them, once.

    Parameters
    ----------
    join : RelationJoin
    batches : iterable of RecordBatch
        The rows of the table.
    """

    join: RelationJoin
    batches: Iterable[pa.RecordBatch]

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self.join.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            yield from self.join.push(batch)
        yield from self.join.end()


@dataclass(frozen=True)
class PartsTable:
    """Rows of a query that ran in parts; iterate to get them.

    Parameters
    ----------
    table : Table
    """

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self.table.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.table.to_batches())


#: The rows that answer a query.
Answer = TableJoin | NearestJoin | GroupedTable | WorkerTable | LookedUpTable | PartsTable


@dataclass(frozen=True)
class TableQuery:
    """A query over tables, classified.

    Parameters
    ----------
    text : str
        Without the versions of relations that it may name.
    tables : mapping of name to table
        Relations are at these versions.
    options : QueryOptions
    query : JoinQuery, GroupQuery or BeyondError
        What one join lacks for the query, which then runs in parts.
    """

    text: str
    tables: Mapping[str, Table]
    options: QueryOptions
    query: JoinQuery | GroupQuery | BeyondError

    @staticmethod
    def classify(text: str, tables: Mapping[str, Table], options: QueryOptions) -> TableQuery:
        """Classify a query.

        Raises
        ------
        QueryError, SchemaError, FileError
        """
        text, tables = at_versions(text, tables, options)
        schemas = {name: columns_of(table) for name, table in tables.items()}
        query = classify(text, schemas, options, relations_of(tables))
        return TableQuery(text, tables, options, query)

    @property
    def whole(self) -> JoinQuery | GroupQuery:
        """The one join, or groups.

        Raises
        ------
        QueryError
            There are several.
        """
        if isinstance(self.query, BeyondError):
            raise self.query
        return self.query

    @property
    def relation(self) -> tuple[str, RelationTable] | None:
        """The relation that is looked up, and its name, if there is one."""
        return next(iter(relations_of(self.tables).items()), None)

    def needed(self) -> dict[str, pa.Table]:
        """Read the tables of a join or groups, of files only the columns that the query needs.

        Raises
        ------
        FileError, SchemaError
        """
        query = self.whole
        columns: dict[str, set[str]] = {}
        for side in query.sides:
            columns.setdefault(side.table, set()).update(query.columns_of(side.side))
        read: dict[tuple[TableFiles, tuple[str, ...]], pa.Table] = {}
        tables = {}
        for name, table in without_relations(self.tables).items():
            if isinstance(table, TableFiles):
                # A query may need only a side's number of rows; one column gives it.
                names = sorted(columns.get(name, ())) or table.schema.names[:1]
                key = (table, tuple(names))
                if key not in read:
                    read[key] = table.read(names)
                table = read[key]
            tables[name] = table
        return tables

    @contextmanager
    def open(self, how: How) -> Iterator[Answer]:
        """Open the rows that answer the query; where it is in parts, these run now.

        Raises
        ------
        PenstockError
        """
        if isinstance(self.query, BeyondError):

            def join(text: str, tables: Mapping[str, Table], options: QueryOptions) -> pa.Table:
                return TableQuery.classify(text, tables, options).rows(how)

            yield PartsTable(self.run_parts(join))
            return
        if self.relation is not None:
            with self._open_lookup(*self.relation, how) as answer:
                yield answer
            return
        tables = self.needed()
        if how.workers is not None:
            yield WorkerTable(
                self.text,
                tables,
                self.options,
                how.workers,
                ordered=how.is_ordered,
                device=device_name(how.devices),
                trace=how.trace,
            )
        elif isinstance(self.query, GroupQuery):
            yield grouped_table(self.query, tables[self.query.source.table], trace=how.trace)
        elif self.query.nearest is not None:
            yield NearestJoin(self.query, tables)
        else:
            with using(how.devices, ends=True) as devices:
                yield table_join(how.operator)(
                    self.query,
                    tables,
                    devices,
                    band=how.band,
                    disorder=how.disorder,
                    pruning=how.pruning,
                    running=how.running,
                    trace=how.trace,
                    on_progress=how.on_progress,
                )

    def rows(self, how: How) -> pa.Table:
        """Run a join, or make groups.

        Raises
        ------
        PenstockError
            Also where the query is in parts.
        """
        if isinstance(self.query, BeyondError):
            raise self.query
        with self.open(how) as answer:
            return pa.Table.from_batches(answer, answer.schema)

    def run_parts(
        self,
        join: Callable[[str, Mapping[str, Table], QueryOptions], pa.Table],
        show: ShowPart | None = None,
    ) -> pa.Table:
        """Run a query in parts; see :func:`~.around.run_parts`."""
        assert isinstance(self.query, BeyondError)
        return run_parts(self.text, self.tables, self.options, join, self.query, show)

    @contextmanager
    def _open_lookup(self, name: str, relation: RelationTable, how: How) -> Iterator[Answer]:
        """Open a join of a table with a relation, or groups of the rows that it looks up."""
        query = self.whole
        with ExitStack() as opened:
            stored = opened.enter_context(closing(relation.open()))
            devices = device_list(opened.enter_context(using(how.devices, ends=True)))
            plan = LookupPlan(lookup_of(query), name, stored.found_by)
            table = self.tables[plan.outer.table]
            assert not isinstance(table, RelationTable)
            options = relation.options(
                how.memory_bytes, ordered=how.is_ordered, pruning=how.pruning
            )
            options = replace(options, refresh=False)
            if not isinstance(query, GroupQuery):
                join = open_lookup(plan, table.schema, stored, devices, options)
                yield LookedUpTable(join, table.to_batches())
                return
            # Rows of a group are folded in their order.
            options = replace(options, ordered=True)
            join = open_lookup(plan, table.schema, stored, devices, options)
            yield GroupedTable(
                query, table.schema, table.to_batches(), lookup=join, trace=how.trace
            )
