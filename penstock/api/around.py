"""Queries that are more than one join: their parts, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

import pyarrow as pa
from sqlglot import exp

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.grouping import GroupedTable, GroupStream, grouped_table
from penstock.host.grouping.limits import GroupLimits
from penstock.host.join.stream import JoinStream
from penstock.host.join.table.table_join import TableJoin
from penstock.host.relational.engine import USERS, RelationalEngine
from penstock.host.relational.stream import PreparedSide, PreparedStream

from ..around.duckdb_sql import to_duckdb
from ..around.parts import Joined, Part, PartError, Relational, Split
from ..around.splitting import split
from ..errors import DataError, QueryError, SchemaError
from ..plan.group_query import GroupQuery
from ..plan.plan import plan
from ..plan.query import JoinQuery
from ..query.compiler import compile_select
from ..query.options import QueryOptions
from ..query.parse import with_room

#: Runs a query of Penstock's: its text, tables and options.
RunJoin = Callable[[str, Mapping[str, pa.Table], QueryOptions], pa.Table]
#: Opens a running query of Penstock's: its text, schemas and options.
OpenJoin = Callable[[str, Mapping[str, pa.Schema], QueryOptions], JoinStream | GroupStream]


def run_parts(
    query: str,
    tables: Mapping[str, pa.Table],
    options: QueryOptions,
    join: RunJoin,
    why: QueryError,
    tell: Callable[[Part, Mapping[str, pa.Table]], None] = lambda part, reads: None,
) -> pa.Table:
    """Run a query in parts.

    Parameters
    ----------
    join : callable
        Runs the joins among them.
    why : QueryError
        Why the query is not one join: raised where its parts are wrong, too.
    tell : callable, optional
        Told of each part, and of the tables that it reads, before it runs.

    Raises
    ------
    PenstockError
        As for :func:`penstock.sql`.
    """
    schemas = {name: table.schema for name, table in tables.items()}
    with closing(RelationalEngine(options.time_zone, options.functions)) as engine:
        try:
            found = with_room(
                lambda: split(query, schemas, options, _DuckDB(engine, options, tables)), query
            )
        except PartError:
            raise why from None
        made = dict(tables)
        for part in found.parts:
            reads = {name: made[name] for name in part.reads}
            tell(part, reads)
            if isinstance(part, Relational):
                made[part.name] = engine.run(part.text, reads)
            else:
                made[part.name] = join(part.text, reads, part.options)
        return made[found.parts[-1].name].rename_columns(list(found.names))


def stream_parts(
    query: str,
    schemas: Mapping[str, pa.Schema],
    options: QueryOptions,
    join: OpenJoin,
    why: QueryError,
) -> PreparedStream:
    """Open a running query of which rows are computed before or behind the join.

    Parameters
    ----------
    join : callable
        Opens the join.
    why : QueryError
        Why the query is not one join: raised where its parts are wrong, too.

    Raises
    ------
    PenstockError
        As for :func:`penstock.stream`.
    """
    engine = RelationalEngine(options.time_zone, options.functions)
    around = _DuckDB(engine, options, ends=False)
    try:
        found = with_room(lambda: split(query, schemas, options, around, ends=False), query)
        return _opened(found, join, engine)
    except PartError:
        engine.close()
        raise why from None
    except BaseException:
        engine.close()
        raise


def _opened(found: Split, join: OpenJoin, engine: RelationalEngine) -> PreparedStream:
    (core, after), schemas = found.of_stream(), found.schemas
    made = {p.name: p for p in found.parts if isinstance(p, Relational) and p is not after}
    inner_schemas = {name: schemas[name] for name in core.reads}
    compiled = compile_select(core.text, inner_schemas, core.options)
    sides = []
    for side in compiled.sides:
        chain: list[Relational] = []
        table = side.table
        while table in made:
            chain.insert(0, made[table])
            table = made[table].reads[0]
        sides.append(PreparedSide(side.alias, table, schemas[table], chain))
    last = schemas[found.parts[-1].name]
    schema = pa.schema(
        [field.with_name(name) for field, name in zip(last, found.names, strict=True)]
    )
    inner = join(core.text, inner_schemas, core.options)
    return PreparedStream(inner, sides, after, schema, engine)


def check_closing(query: JoinQuery | GroupQuery) -> None:
    """Refuse groups of which a stream never knows that they are complete.

    Raises
    ------
    QueryError
    """
    if isinstance(query, GroupQuery):
        GroupLimits(query)
    else:
        plan(query).require_closing()


def made_of(
    query: JoinQuery | GroupQuery, tables: Mapping[str, pa.Table], device: Device
) -> TableJoin | GroupedTable:
    """The joined rows, or groups, of a query of Penstock's: their schema, and batches."""
    if isinstance(query, GroupQuery):
        return grouped_table(query, tables[query.source.table])
    return TableJoin(query, tables, device)


class _DuckDB:
    """DuckDB around joins; which columns parts give it finds by running them on empty tables."""

    def __init__(
        self,
        engine: RelationalEngine,
        options: QueryOptions,
        tables: Mapping[str, pa.Table] | None = None,
        *,
        ends: bool = True,
    ) -> None:
        self._engine = engine
        self._tables = tables or {}
        self._of_users = {name.lower() for name in options.functions or {}}
        self._ends = ends

    def written(self, tree: exp.Query) -> str:
        made = tree.copy()
        for call in made.find_all(exp.Anonymous):
            if call.name.lower() in self._of_users:
                call.set("this", f"{USERS}{call.name.lower()}")
        return to_duckdb(made)

    def pairs(self, part: Joined) -> int | None:
        if any(name not in self._tables for name in part.reads):
            return None
        reads = {name: self._tables[name] for name in part.reads}
        try:
            query = compile_select(
                part.text, {name: table.schema for name, table in reads.items()}, part.options
            )
        except (QueryError, SchemaError):
            return None
        if isinstance(query, GroupQuery):
            return None
        with open_device("cpu") as device:
            return TableJoin(query, reads, device).pairs_in_window

    def joined(self, part: Joined, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        own = {name: schemas[name] for name in part.reads}
        compiled = compile_select(part.text, own, part.options)
        empty = {name: schema.empty_table() for name, schema in own.items()}
        if not self._ends:
            check_closing(compiled)
        with open_device("cpu") as device:
            return made_of(compiled, empty, device).schema

    def relational(self, part: Relational, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        empty = {name: schemas[name].empty_table() for name in part.reads}
        try:
            return self._engine.run(part.text, empty).schema
        except DataError as error:
            raise PartError(str(error)) from error
