"""Queries that are more than one join: their parts, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from penstock.host.device.registry import open_device
from penstock.host.emit.tables import joined_schema
from penstock.host.grouping import GroupStream
from penstock.host.grouping.limits import GroupLimits
from penstock.host.join.lookup.source import RelationTable, relations_of, without_relations
from penstock.host.join.lookup.stream import LookupStream
from penstock.host.join.stream import JoinStream
from penstock.host.join.table.table_join import TableJoin
from penstock.host.relational.engine import USERS, RelationalEngine
from penstock.host.relational.rows import PreparedRows, PreparedSide
from penstock.host.relational.steps import Computed, RowStep
from penstock.host.relational.stream import PreparedStream
from penstock.host.state import GroupState

from ..around.calls import ours
from ..around.duckdb_sql import check_compared, to_duckdb
from ..around.parts import Joined, Part, PartError, Relational, Split
from ..around.splitting import split
from ..errors import DataError, QueryError, SchemaError
from ..plan.group_query import GroupQuery
from ..plan.plan import plan
from ..query.compiler import compile_select
from ..query.options import QueryOptions
from ..query.parse import parse, with_room
from ..uses import UnusedError
from .lookups import columns_of, schema_with_relation

#: A table, or a relation in its place; its columns, or a relation.
Table = pa.Table | RelationTable
Columns = pa.Schema | RelationTable

#: Runs a query of Penstock's: its text, tables and options.
RunJoin = Callable[[str, Mapping[str, Table], QueryOptions], pa.Table]
#: Told of a part of a query, the tables that it reads, and what its text calls.
Tell = Callable[[Part, Mapping[str, Table], Mapping[str, str]], None]
#: Opens a running query of Penstock's: its text, schemas and options.
OpenJoin = Callable[
    [str, Mapping[str, Columns], QueryOptions], JoinStream | GroupStream | LookupStream
]
#: Opens a join of rows with a relation: its text, the columns of both, and options.
LookUp = Callable[[str, Mapping[str, Columns], QueryOptions], RowStep]


def run_parts(
    query: str,
    tables: Mapping[str, Table],
    options: QueryOptions,
    join: RunJoin,
    why: QueryError,
    tell: Tell | None = None,
) -> pa.Table:
    """Run a query in parts.

    Parameters
    ----------
    join : callable
        Runs the joins among them.
    why : QueryError
        Why the query is not one join: raised where its parts are wrong, too.
    tell : callable, optional
        Told of each part before it runs, of the tables that it reads, and of the expressions that
        functions in its text compute, by their names.

    Raises
    ------
    PenstockError
        As for :func:`penstock.sql`.
    """
    relations = relations_of(tables)
    schemas = {name: columns_of(table) for name, table in tables.items()}
    with closing(RelationalEngine(options.time_zone, options.functions)) as engine:
        try:
            around = _DuckDB(engine, options, tables)
            parted = with_room(
                lambda: split(query, schemas, options, around, relations=relations), query
            )
        except (PartError, UnusedError) as error:
            raise error.beside(why) from None
        known = dict(tables)
        for part in parted.parts:
            reads = {name: known[name] for name in part.reads}
            if tell is not None:
                tell(part, reads, engine.calls(part.text))
            with parted.words.spoken():
                if isinstance(part, Relational):
                    known[part.name] = engine.run(part.text, without_relations(reads))
                else:
                    known[part.name] = join(part.text, reads, part.options)
        last = known[parted.parts[-1].name]
        assert not isinstance(last, RelationTable)
        return last.rename_columns(list(parted.names))


def stream_parts(
    query: str,
    inputs: Mapping[str, Columns],
    options: QueryOptions,
    join: OpenJoin,
    lookup: LookUp,
    why: QueryError,
) -> PreparedRows:
    """Open a running query of which rows are computed or looked up before or behind the join.

    Parameters
    ----------
    inputs : mapping of name to Schema or RelationTable
    join : callable
        Opens the join.
    lookup : callable
        Opens joins of its rows, or of those of a source, with relations.
    why : QueryError
        Why the query is not one join: raised where its parts are wrong, too.

    Raises
    ------
    PenstockError
        As for :func:`penstock.stream`.
    """
    engine = RelationalEngine(options.time_zone, options.functions)
    relations = relations_of(inputs)
    schemas = {name: columns_of(one) for name, one in inputs.items()}
    around = _DuckDB(engine, options, relations, ends=False)

    def in_parts() -> Split:
        return split(query, schemas, options, around, ends=False, relations=relations)

    with ExitStack() as opened:
        opened.callback(engine.close)
        try:
            parted = with_room(in_parts, query)
            names = {name.lower() for name in schemas}
            aliases = {
                table.alias_or_name.lower()
                for table in parse(query).find_all(exp.Table)
                if {table.name.lower(), table.alias.lower()} & names
            }
            stream = _Opening(parted, relations, aliases, engine, lookup, opened)
            with parted.words.spoken():
                running = stream.opened(join)
        except (PartError, UnusedError) as error:
            raise error.beside(why) from None
        opened.pop_all()
        return running


@dataclass
class _Opening:
    """Opens the parts of a running query.

    Parameters
    ----------
    relations : mapping of name to RelationTable
    named : collection of str
        Aliases of tables.
    stack : ExitStack
        Closes what has been opened.
    """

    split: Split
    relations: Mapping[str, RelationTable]
    named: Collection[str]
    engine: RelationalEngine
    lookup: LookUp
    stack: ExitStack

    def opened(self, join: OpenJoin) -> PreparedRows:
        core, behind, after = self.split.of_stream()
        parts, schemas = self.split.parts, self.split.schemas
        before = {part.name: part for part in parts[: parts.index(core)]}
        reads = {name: schemas[name] for name in core.reads}
        sides = []
        for side in compile_select(core.text, reads, core.options).sides:
            if side.table in self.relations:
                continue
            chain: list[Part] = []
            table = side.table
            while table in before:
                chain.insert(0, before[table])
                # The table, or part, whose rows the part takes one by one.
                table = next(n for n in before[table].reads if n not in self.relations)
            steps = [self._step(part) for part in chain]
            is_named = side.alias.lower() in self.named
            sides.append(PreparedSide(side.alias, table, schemas[table], steps, is_named))
        fields = zip(schemas[parts[-1].name], self.split.names, strict=True)
        schema = pa.schema([field.with_name(name) for field, name in fields])
        steps = [self._step(part) for part in behind]
        inner = join(core.text, self._inputs(core), core.options)
        rest = sides, steps, after, schema, self.engine, self.split.words
        if isinstance(inner, LookupStream):
            return PreparedRows(inner, *rest)
        return PreparedStream(inner, *rest)

    def _inputs(self, part: Part) -> dict[str, Columns]:
        """The relations that a part reads, and the columns of all else."""
        every = {**self.split.schemas, **self.relations}
        return {name: every[name] for name in part.reads}

    def _step(self, part: Part) -> RowStep:
        if isinstance(part, Relational):
            return Computed(self.engine, part)
        step = self.lookup(part.text, self._inputs(part), part.options)
        self.stack.callback(step.close)
        return step


class _DuckDB:
    """DuckDB around joins: what it refuses, the text of its parts, and the columns of all parts."""

    makes_relations = False

    def __init__(
        self,
        engine: RelationalEngine,
        options: QueryOptions,
        tables: Mapping[str, Table],
        *,
        ends: bool = True,
    ) -> None:
        self._engine, self._options = engine, options
        self._relations = relations_of(tables)
        self._tables = without_relations(tables)
        self._of_users = {name.lower() for name in options.functions or {}}
        self._ends = ends

    def check(self, tree: exp.Query) -> None:
        check_compared(tree)

    def written(self, tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> str:
        renamed = tree.copy()
        for call in renamed.find_all(exp.Anonymous):
            if call.name.lower() in self._of_users:
                ours(call).set("this", f"{USERS}{call.name.lower()}")
        text, outputs = to_duckdb(renamed, schemas, self._options, self._engine.computed)
        self._engine.note_outputs(text, outputs)
        return text

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
        reads = {name: schemas[name] for name in part.reads}
        if part.options.relation is not None:
            name = part.options.relation
            return schema_with_relation(
                part.text, reads, (name, self._relations[name]), part.options
            )
        query = compile_select(part.text, reads, part.options)
        if isinstance(query, GroupQuery):
            if not self._ends:
                GroupLimits(query)  # refuses groups of which it is never known that they are whole
            return GroupState(query, reads[query.source.table]).schema
        if not self._ends:
            plan(query).require_closing()
        return joined_schema(query, {side.side: reads[side.table] for side in query.sides})

    def relational(self, part: Relational, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        try:
            return self._engine.schema(part.text, {name: schemas[name] for name in part.reads})
        except DataError as error:
            raise PartError(str(error)) from error
