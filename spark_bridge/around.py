"""Queries that are more than one join: Penstock's joins, and Spark's own SQL around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pyarrow as pa
import sqlglot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from penstock.around.parts import (
    EqualPairs,
    Joined,
    NoJoinError,
    Part,
    PartError,
    Relational,
    Split,
)
from penstock.around.sides import aliases_in, conditions_of
from penstock.around.splitting import split
from penstock.errors import BeyondError
from penstock.expr.functions import EARTH_RADIUS_M
from penstock.query.compiler import one_or_beyond
from penstock.query.dialect import Penstock
from penstock.query.parse import parse, with_room
from penstock.uses import QueryKind

from .batch.equal_keys import kept, pairs_of_equal_keys
from .explaining import Fact
from .inputs import identifier
from .request import (
    ALL_ROWS,
    JoinOptions,
    entered,
    one_join,
    query_options,
    result_schema,
    static_table,
)
from .shown import described, without_log
from .stream_frame import StreamFrame
from .types import arrow_schema, check_used, spark_schema

#: Runs a join of Penstock's: its text, tables and options.
RunJoin = Callable[[str, Mapping[str, DataFrame], JoinOptions], DataFrame]
#: Nodes with a condition.
_TESTING = (exp.Where, exp.Having, exp.Join, exp.If)
#: Functions of Penstock's, as Spark says them.
_OF_PENSTOCK = {
    "ps_span": "named_struct('start', :a, 'end', :b)",
    "haversine": (
        f"2 * {EARTH_RADIUS_M}D * asin(sqrt(least(1.0D, pow(sin((radians(:c) - radians(:a)) / 2), "
        "2) + cos(radians(:a)) * cos(radians(:c)) * "
        "pow(sin((radians(:d) - radians(:b)) / 2), 2))))"
    ),
}


@dataclass(frozen=True)
class SparkParts:
    """A query over DataFrames, split into joins that Penstock runs and SQL that Spark runs.

    Parameters
    ----------
    spark : SparkSession
    split : Split
        The parts.
    frames : mapping of table name to DataFrame
    options : JoinOptions
        Of the call.
    """

    spark: SparkSession
    split: Split
    frames: Mapping[str, DataFrame]
    options: JoinOptions

    @staticmethod
    def from_query(
        spark: SparkSession,
        text: str,
        frames: Mapping[str, DataFrame],
        options: JoinOptions,
        unique: Mapping[str, str | Sequence[str]] | None = None,
    ) -> SparkParts | None:
        """Split a query into parts; None if it is one join.

        Parameters
        ----------
        unique : mapping, optional
            As for :func:`penstock.spark_bridge.stream`.

        Raises
        ------
        QueryError, SchemaError
        """
        schemas = {name: arrow_schema(frame.schema) for name, frame in frames.items()}
        ends = not any(frame.isStreaming for frame in frames.values())
        static = static_table(frames)
        ways, relations = ((), ()) if static is None else ((QueryKind.STATIC,), (static,))
        whole = query_options(spark, text, options, *ways, unique=unique, relation=static)
        kind = one_or_beyond(lambda: one_join(text, schemas, whole, ends=ends))
        if not isinstance(kind, BeyondError):
            return None
        chosen = replace(whole, relation=None, entrance=options.get("entrance"))
        around = _Spark(spark, frames)
        try:
            query_split = with_room(
                lambda: split(text, schemas, chosen, around, ends=ends, relations=relations), text
            )
            if not ends:
                query_split.of_stream()
        except PartError as error:
            raise error.beside(kind) from None
        if not any(isinstance(part, Joined) for part in query_split.parts) and not _joins(text):
            raise kind
        return SparkParts(spark, query_split, frames, options)

    def open(self, join: RunJoin, tell: Callable[[Part], None] = lambda part: None) -> DataFrame:
        """Run the parts and return the rows, of a stream lazily; ``join`` runs Penstock's joins.

        ``tell`` gets each part before it is planned.
        """
        is_stream = any(frame.isStreaming for frame in self.frames.values())
        return self._stream(join, tell) if is_stream else self._run(join, tell)

    def _stream(self, join: RunJoin, tell: Callable[[Part], None]) -> DataFrame:
        core, later, after = self.split.of_stream()
        behind = [part for part in later if isinstance(part, Relational)]
        frames = dict(self.frames)
        for part in self.split.parts:
            tell(part)
            if isinstance(part, Relational) and part is not after and part not in behind:
                frames[part.name] = _rows_of(
                    self.spark, part.text, {name: frames[name] for name in part.reads}
                )
        reads = {name: frames[name] for name in core.reads}
        opened = join(core.text, reads, self.options_of(core))
        name, names = core.name, tuple(self.split.names)
        if after is not None and after.closing is not None:
            assert isinstance(opened, StreamFrame)
            rows, closing = after.reads[0], after.closing
            text = "; ".join(part.text for part in (*behind, after)).replace(_marked(""), "")
            valued = _Valued(closing.text, rows)
            opened = opened.waits(closing, text, _Computed(behind, name), valued)
            return opened.then(_Computed([after], rows, names))
        compute = _Computed([*behind, *([] if after is None else [after])], name, names)
        return opened.then(compute) if isinstance(opened, StreamFrame) else compute(opened)

    def _run(self, join: RunJoin, tell: Callable[[Part], None]) -> DataFrame:
        frames = dict(self.frames)
        for part in self.split.parts:
            tell(part)
            reads = {name: frames[name] for name in part.reads}
            if isinstance(part, Relational):
                frames[part.name] = _rows_of(self.spark, part.text, reads)
                continue
            rows = join(part.text, reads, self.options_of(part))
            assert isinstance(rows, DataFrame)  # as all that it reads
            frames[part.name] = rows
        return frames[self.split.parts[-1].name].toDF(*self.split.names)

    def options_of(self, part: Joined) -> JoinOptions:
        """The options of a join among the parts."""
        names = ("time", "rows", "within", "params", "scale", ALL_ROWS)
        chosen = {name: getattr(part.options, name) for name in names}
        return entered(cast("JoinOptions", {**self.options, **chosen}), None)


@dataclass(frozen=True)
class _Computed:
    """Computes a chain of Spark's parts, the first one from rows of a join or another part."""

    parts: Sequence[Relational]
    name: str
    #: Names of the columns; by default the last part's.
    names: tuple[str, ...] = ()

    def __call__(self, rows: DataFrame) -> DataFrame:
        name = self.name
        for part in self.parts:
            rows, name = _rows_of(rows.sparkSession, part.text, {name: rows}), part.name
        return rows.toDF(*self.names) if self.names else rows


@dataclass(frozen=True)
class _Valued:
    """Adds a column to rows: the value that says when their group is complete."""

    text: str
    name: str

    def __call__(self, rows: DataFrame) -> DataFrame:
        text = f"SELECT *, {self.text.removeprefix('SELECT ')}"
        return _rows_of(rows.sparkSession, text, {self.name: rows})


class _Spark:
    """Spark as the engine around joins; analysis, without a job, gives the columns of a part."""

    makes_relations, keeps_arrival = True, False

    def __init__(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
        self._spark = spark
        self._frames = dict(frames)
        #: Tables whose rows Spark reads without a join of Penstock's.
        self._known = set(frames)

    def check(self, tree: exp.Query) -> None:
        """Spark's own values need no check."""

    def written(self, tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> str:
        """Write a query with a placeholder for each table, see :func:`_rows_of`."""
        query = tree.copy()
        _type_conditions(query)
        for call in list(query.find_all(exp.Anonymous)):
            formula = _OF_PENSTOCK.get(call.name.lower())
            if formula is not None:
                names = dict(zip("abcd", call.expressions, strict=False))
                expression = sqlglot.parse_one(formula, dialect=Penstock)
                call.replace(exp.replace_placeholders(expression, **names))
        for table in query.find_all(exp.Table):
            alias = table.alias_or_name
            table.set("this", exp.to_identifier(_marked(table.name), quoted=True))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        return query.sql(dialect=Penstock)

    def pairs(self, part: Joined) -> int | None:
        """None: unknown without a job, so joins run in the order in which they are written."""
        return None

    def equal_pairs(self, tree: exp.Select) -> EqualPairs | None:
        """Estimate the pairs of equal keys by a job; None if a table is a join's rows."""
        from pyspark.errors import PySparkException

        tables = {one.alias_or_name: one.name for one in tree.find_all(exp.Table)}
        if len(tables) < 2 or not self._known.issuperset(tables.values()):
            return None  # rows of a join would be joined twice
        whole = {alias: self._frames[name] for alias, name in tables.items()}
        frames = {alias: frame.alias(alias) for alias, frame in whole.items()}
        keys: list[dict[str, str]] = []
        try:
            with without_log(), described(self._spark, "estimates how many pairs have equal keys"):
                for one in conditions_of(tree.args["joins"][0]):
                    names = aliases_in(one)
                    if not names <= frames.keys():
                        return None
                    if len(names) == 1:
                        (name,) = names
                        frames[name] = frames[name].where(one.sql(dialect=Penstock))
                        continue
                    sides = {
                        name: arg.sql(dialect=Penstock)
                        for arg in one.iter_expressions()
                        for name in aliases_in(arg)
                    }
                    if not isinstance(one, exp.EQ) or len(sides) < 2:
                        return None
                    keys.append(sides)
                columns = [[F.expr(one[name]) for name in frames] for one in keys]
                left, right = frames.values()
                first, second = whole.values()
                text = tree.sql(dialect=Penstock)
                return kept(first, second, text, lambda: pairs_of_equal_keys(left, right, columns))
        except PySparkException:
            return None  # Penstock's functions, or an error of the query's own

    def joined(self, part: Joined, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        tables = {name: schemas[name] for name in part.reads}
        query = one_join(part.text, tables, part.options)
        check_used(query, {name: self._frames[name].schema for name in part.reads})
        schema = result_schema(query, schemas, nullable=True)
        self._frames[part.name] = self._spark.createDataFrame([], spark_schema(schema))
        return schema

    def relational(self, part: Relational, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        from pyspark.errors import PySparkException

        reads = {name: self._frames[name] for name in part.reads}
        try:
            with without_log():
                rows = _rows_of(self._spark, part.text, reads)
                self._frames[part.name] = rows
                if self._known.issuperset(part.reads):
                    self._known.add(part.name)
                return arrow_schema(rows.schema)
        except PySparkException as error:
            # A function that nobody knows is named by the reason why the query is not one join.
            is_unknown = error.getCondition() == "UNRESOLVED_ROUTINE"
            kind = NoJoinError if is_unknown else PartError
            raise kind(str(error).splitlines()[0]) from error


def _type_conditions(tree: exp.Query) -> None:
    """Cast NULL to BOOLEAN where it is a condition, since Spark takes no other type there."""
    for null in list(tree.find_all(exp.Null)):
        condition: exp.Expr = null
        while isinstance(condition.parent, exp.Paren):
            condition = condition.parent
        around = condition.parent
        key = "on" if isinstance(around, exp.Join) else "this"
        case = around.parent if isinstance(around, exp.If) else None
        is_value = isinstance(case, exp.Case) and case.this is not None  # CASE x WHEN
        if isinstance(around, _TESTING) and condition.arg_key == key and not is_value:
            null.replace(exp.cast(exp.null(), "boolean"))


def part_fact(part: Part) -> Fact:
    """Name of a part, and the engine that runs it with its SQL."""
    if isinstance(part, Joined):
        return part.name, f"Penstock: {part.text}"
    return part.name, f"Spark: {part.text.replace(_marked(''), '')}"


def _joins(text: str) -> bool:
    """Whether a query joins tables, or tests EXISTS; groups of one are Spark's own business."""
    tree = parse(text)
    exists = (isinstance(one.this, exp.Query) for one in tree.find_all(exp.Exists))
    return tree.find(exp.Join) is not None or any(exists)  # Spark's exists(array, ...) is none


def _marked(name: str) -> str:
    """Placeholder of a table in a text, a name that no user's table has."""
    return f"penstock table {name}"


def _rows_of(spark: SparkSession, text: str, reads: Mapping[str, DataFrame]) -> DataFrame:
    """Run Spark's SQL over DataFrames."""
    text = text.replace("{", "{{").replace("}", "}}")
    views = {}
    for place, (name, frame) in enumerate(reads.items()):
        text = text.replace(identifier(_marked(name)), f"{{t{place}}}")
        # PySpark makes a view of it and drops that, which ends a cache of all plans that are equal.
        views[f"t{place}"] = frame.where("true")
    return spark.sql(text, **views)
