"""Queries that are more than one join: their parts, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from penstock.host.device.cut import spread
from penstock.host.device.registry import open_device
from penstock.host.join.lookup.relation_source import RelationTable, relations_of, without_relations
from penstock.host.join.stream.running_query import RunningQuery
from penstock.host.join.table.table_join import TableJoin
from penstock.host.relational.engine import USERS, Expressions, Outputs, RelationalEngine
from penstock.host.relational.stream import Computed, PreparedSide, PreparedStream, RowStep

from ..around.computed_calls import ours
from ..around.duckdb_sql import check_compared, to_duckdb
from ..around.parts import (
    PLACE,
    EqualPairs,
    Joined,
    Part,
    PartError,
    Relational,
    Split,
    refuse_unused,
)
from ..around.shapes import equal_columns
from ..around.sides import items_of
from ..around.splitting import holds, split
from ..errors import BeyondError, DataError, QueryError, SchemaError
from ..plan.group_query import GroupQuery
from ..plan.query import JoinQuery
from ..query.compiler import compile_select
from ..query.options import KeptQueries, QueryOptions, key_of
from ..query.parse import parse, with_room
from .classify import Columns, Table, columns_of, one_query, output_schema
from .received import TableFiles

#: Rows that an estimate of pairs takes from each table.
_SAMPLED_ROWS = 1_000, 20_000
#: Pairs that Penstock tests, and rows that it reads, in less time than an estimate takes.
_FEW_PAIRS, _FEW_ROWS = 1 << 23, 1 << 14
#: A tree's text that counts the pairs of samples, in DuckDB's SQL.
_COUNTS = "counts"
#: The estimate of rows that are not known: to test too many pairs has no bound.
_UNKNOWN = EqualPairs(math.inf, 0)
#: Runs a join, or makes groups: text, tables and options.
RunJoin = Callable[[str, Mapping[str, Table], QueryOptions], pa.Table]
#: Shows a part of a query, the tables that it reads, and the expressions that functions in its
#: text compute, by their names.
ShowPart = Callable[[Part, Mapping[str, pa.Table | RelationTable], Mapping[str, str]], None]
#: Opens a running join, or groups: the compiled query, and its schemas.
OpenJoin = Callable[[JoinQuery | GroupQuery, Mapping[str, Columns]], RunningQuery[pa.Table]]
#: Opens a join of rows with a relation: its text, the columns of both, and options.
LookUp = Callable[[str, Mapping[str, Columns], QueryOptions], RowStep]


def run_parts(
    query: str,
    tables: Mapping[str, Table],
    options: QueryOptions,
    join: RunJoin,
    why: BeyondError,
    show: ShowPart | None = None,
) -> pa.Table:
    """Run a query in parts.

    Parameters
    ----------
    join : callable
        Runs the joins among them.
    why : BeyondError
        Why the query is not one join: raised where no part is one.
    show : callable, optional
        Called with each part before it runs.

    Raises
    ------
    PenstockError
        As for :func:`penstock.sql`.
    """
    with closing(RelationalEngine(options.time_zone, options.functions)) as engine:
        rows: dict[str, pa.Table | RelationTable] = {
            name: one.read() if isinstance(one, TableFiles) else one for name, one in tables.items()
        }
        parts = _split(query, tables, options, _DuckDB(engine, options, rows), why)
        for part in parts.parts:
            reads = {name: rows[name] for name in part.reads}
            if show is not None:
                show(part, reads, engine.calls(part.text))
            with parts.words.spoken():
                if isinstance(part, Relational):
                    computed = engine.run(part.text, without_relations(reads))
                else:
                    computed = join(part.text, reads, part.options)
                rows[part.name] = _with_marks(computed, parts.schemas[part.name])
        last = rows[parts.parts[-1].name]
        assert not isinstance(last, RelationTable)
        return _with_marks(last, parts.shown_schema).rename_columns(list(parts.names))


def _with_marks(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows whose fields have the metadata of a schema's."""
    pairs = zip(rows.schema, schema, strict=True)
    fields = [field.with_metadata(like.metadata) for field, like in pairs]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))


def stream_parts(
    query: str,
    columns: Mapping[str, Columns],
    options: QueryOptions,
    join: OpenJoin,
    lookup: LookUp,
    why: BeyondError,
) -> PreparedStream:
    """Open a running query whose rows are computed or looked up before or behind the join.

    Parameters
    ----------
    columns : mapping of name to Schema or RelationTable
    join : callable
        Opens the join.
    lookup : callable
        Opens joins of its rows, or of those of a source, with relations.
    why : BeyondError
        Why the query is not one join: raised where no part is one.

    Raises
    ------
    PenstockError
        As for :func:`penstock.stream`.
    """
    engine = RelationalEngine(options.time_zone, options.functions)
    relations = relations_of(columns)
    with ExitStack() as opened:
        opened.callback(engine.close)
        parts = _split(
            query, columns, options, _DuckDB(engine, options, relations, ends=False), why
        )
        names = {name.lower() for name in columns}
        try:
            aliases = {
                table.alias_or_name.lower()
                for table in parse(query).find_all(exp.Table)
                if {table.name.lower(), table.alias.lower()} & names
            }
            stream = _Opening(parts, relations, aliases, engine, lookup, opened)
            with parts.words.spoken():
                running = stream.opened(join)
        except PartError as error:
            raise error.beside(why) from None
        opened.pop_all()
        return running


def _split(
    query: str,
    tables: Mapping[str, Table | Columns],
    options: QueryOptions,
    around: _DuckDB,
    why: BeyondError,
) -> Split:
    """Split a query; where a part is wrong, ``why`` may be the better reason."""
    schemas = {name: columns_of(table) for name, table in tables.items()}
    relations = relations_of(tables)

    def split_now() -> _KeptSplit:
        parts = with_room(
            lambda: split(query, schemas, options, around, ends=around.ends, relations=relations),
            query,
        )
        tables, engine = WeakValueDictionary(around.tables), around.engine
        return _KeptSplit(parts, engine.outputs, engine.expressions, tables, around.has_counted)

    # A user's function may hold anything.
    is_kept = around.ends and not relations and not options.functions
    key = key_of(query, schemas, options) if is_kept else None
    try:
        parts = _kept.find(key, split_now, len(query), lambda kept: kept.holds(around)).parts
        if around.ends and options.entrance is not None:
            refuse_unused(parts, options.entrance)  # of this call, if the parts are kept
        return parts
    except PartError as error:
        raise error.beside(why) from None


@dataclass
class _KeptSplit:
    """A split, what an engine has to know to run it, and the rows by which it was chosen.

    Parameters
    ----------
    tables : WeakValueDictionary of name to Table
        Those of the call that used it last.
    has_counted : bool
        Whether pairs in windows were counted.
    """

    parts: Split
    outputs: Outputs
    expressions: Expressions
    tables: WeakValueDictionary[str, pa.Table]
    has_counted: bool

    def holds(self, around: _DuckDB) -> bool:
        """Whether the rows are the same, or leave the same choices; the engine may then run it."""
        around.engine.outputs, around.engine.expressions = self.outputs, dict(self.expressions)
        if any(self.tables.get(name) is not one for name, one in around.tables.items()):
            if self.has_counted or not holds(self.parts, around):
                return False
            self.tables = WeakValueDictionary(around.tables)
        return True


#: Queries in parts that were used last, of tables and without users' functions.
_kept: KeptQueries[_KeptSplit] = KeptQueries()


@dataclass
class _Opening:
    """Opens the parts of a running query.

    Parameters
    ----------
    relations : mapping of name to RelationTable
    aliases : collection of str
        Names of tables in the query.
    stack : ExitStack
        Closes what has been opened.
    """

    split: Split
    relations: Mapping[str, RelationTable]
    aliases: Collection[str]
    engine: RelationalEngine
    lookup: LookUp
    stack: ExitStack

    def opened(self, join: OpenJoin) -> PreparedStream:
        core, behind, after = self.split.of_stream()
        parts, schemas = self.split.parts, self.split.schemas
        before = {part.name: part for part in parts[: parts.index(core)]}
        reads = {name: schemas[name] for name in core.reads}
        query = one_query(core.text, reads, core.options, ends=False)
        sides = []
        for side in query.sides:
            if side.table in self.relations:
                continue
            chain: list[Part] = []
            table = side.table
            while table in before:
                chain.insert(0, before[table])
                # The table, or part, whose rows the part takes one by one.
                table = next(n for n in before[table].reads if n not in self.relations)
            steps = [self._step(part) for part in chain]
            is_named = side.alias.lower() in self.aliases
            schema, is_numbered = schemas[table], PLACE in schemas[table].names
            if is_numbered:
                schema = schema.remove(schema.get_field_index(PLACE))
            sides.append(PreparedSide(side.alias, table, schema, steps, is_named, is_numbered))
        steps = [self._step(part) for part in behind]
        inner = join(query, self._inputs(core))
        schema, words = self.split.shown_schema, self.split.words
        return PreparedStream(inner, sides, steps, after, schema, self.engine, words)

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


def _pairs_of_columns(samples: Sequence[pa.Table], keys: Sequence[tuple[str, str]]) -> int | None:
    """Count the pairs of samples with equal columns; None if these are not of the same types."""
    codes = [np.zeros(len(sample), np.int64) for sample in samples]
    for names in keys:
        a, b = (
            next(sample[one] for one in sample.column_names if one.lower() == name.lower())
            for sample, name in zip(samples, names, strict=True)
        )
        if a.type != b.type:
            return None
        try:
            values = a.unique().drop_null()
            options = pc.SetLookupOptions(values)
            places = [pc.call_function("index_in", [one], options) for one in (a, b)]
        except pa.ArrowException:  # types that Arrow does not look up
            return None
        for side, place in enumerate(one.fill_null(-1).to_numpy() for one in places):
            is_known = (place >= 0) & (codes[side] >= 0)
            # Beyond 64 bits some keys count less: it is an estimate.
            codes[side] = np.where(is_known, codes[side] * len(values) + place, -1)
    if not keys:
        return None
    first, second = codes[0][codes[0] >= 0], np.sort(codes[1])
    ends = (np.searchsorted(second, first, side) for side in ("right", "left"))
    return int(np.subtract(*ends).sum())


class _DuckDB:
    """DuckDB around joins: its refusals, the text of its parts, and the columns of all parts."""

    makes_relations, keeps_arrival = False, True

    def __init__(
        self,
        engine: RelationalEngine,
        options: QueryOptions,
        tables: Mapping[str, pa.Table | RelationTable],
        *,
        ends: bool = True,
    ) -> None:
        self.engine, self._options = engine, options
        self.tables = without_relations(tables)
        self._of_users = {name.lower() for name in options.functions or {}}
        self.ends = ends
        #: Whether pairs in windows were counted.
        self.has_counted = False

    def check(self, tree: exp.Query) -> None:
        check_compared(tree)

    def written(self, tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> str:
        tree = tree.copy()
        for call in tree.find_all(exp.Anonymous):
            if call.name.lower() in self._of_users:
                ours(call).set("this", f"{USERS}{call.name.lower()}")
        text, outputs = to_duckdb(tree, schemas, self._options, self.engine.computed)
        self.engine.note_outputs(text, outputs)
        return text

    def pairs(self, part: Joined) -> int | None:
        self.has_counted = True
        if any(name not in self.tables for name in part.reads):
            return None
        tables = {name: self.tables[name] for name in part.reads}
        schemas = {name: table.schema for name, table in tables.items()}
        try:
            query = compile_select(part.text, schemas, part.options)
        except (BeyondError, SchemaError):
            return None
        if isinstance(query, GroupQuery) or query.nearest is not None:
            return None
        with open_device("cpu") as device:
            return TableJoin(query, tables, device).pairs_in_window

    def equal_pairs(self, tree: exp.Select) -> EqualPairs | None:
        names = [one.name for one in items_of(tree)]
        if not self.tables.keys() >= {*names}:  # their rows are not computed yet
            return _UNKNOWN
        tables = [self.tables[name] for name in names]
        counts = [table.num_rows for table in tables]
        if math.prod(counts) <= _FEW_PAIRS and sum(counts) <= _FEW_ROWS:
            return _UNKNOWN
        if not all(counts):
            return EqualPairs(0, sum(counts))
        samples: list[pa.Table] = []
        read = {column.name.lower() for column in tree.find_all(exp.Column)}
        for table, most in zip(tables, _SAMPLED_ROWS, strict=True):
            sample = table.select([one for one in table.column_names if one.lower() in read])
            samples.append(sample.take(spread(0, table.num_rows, most)))
        share = math.prod(map(len, samples)) / math.prod(counts)
        keys, are_all = equal_columns(tree)
        pairs = _pairs_of_columns(samples, keys)
        if pairs is not None:
            equals = EqualPairs(pairs / share, sum(counts))
            if are_all or not equals.are_many:  # other conditions leave fewer
                return equals
        pairs = self._pairs_of(tree, samples)
        return None if pairs is None else EqualPairs(pairs / share, sum(counts))

    def _pairs_of(self, tree: exp.Select, samples: list[pa.Table]) -> int | None:
        """Count the pairs of samples by a query; None if it fails."""
        named = {f"sample {n}": one for n, one in enumerate(samples)}
        try:
            if _COUNTS not in tree.meta:
                counting = tree.copy()
                for name, item in zip(named, items_of(counting), strict=True):
                    item.set("this", exp.to_identifier(name, quoted=True))
                number = exp.alias_(exp.Count(this=exp.Star()), "n", quoted=True)
                counting.set("expressions", [number])
                schemas = {name: one.schema for name, one in named.items()}
                tree.meta[_COUNTS] = self.written(counting, schemas)
            return self.engine.run(tree.meta[_COUNTS], named)["n"][0].as_py()
        except (DataError, QueryError):  # as the engine says once more where it runs the join
            return None

    def joined(self, part: Joined, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        columns = {name: schemas[name] for name in part.reads}
        query = one_query(part.text, columns, part.options, ends=self.ends)
        return output_schema(query, columns)

    def relational(self, part: Relational, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        try:
            return self.engine.schema(part.text, {name: schemas[name] for name in part.reads})
        except DataError as error:
            raise PartError(str(error)) from error
