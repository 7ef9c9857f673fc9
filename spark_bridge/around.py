"""Queries that are more than one join: Penstock's joins, and Spark's own SQL around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pyarrow as pa
import sqlglot
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from penstock.around.parts import (
    Joined,
    NoJoinError,
    Part,
    PartError,
    Relational,
    Split,
)
from penstock.around.splitting import split
from penstock.errors import BeyondError
from penstock.expr.functions import EARTH_RADIUS_M
from penstock.host.emit.open_delivery import open_delivery
from penstock.plan.plan import plan
from penstock.query.compiler import one_or_beyond
from penstock.query.dialect import Penstock
from penstock.query.parse import parse, with_room
from penstock.uses import QueryKind

from .explaining import Fact
from .request import (
    JoinOptions,
    entered,
    frames_of,
    one_join,
    query_options,
    static_table,
)
from .shown import without_log
from .stream_frame import StreamFrame
from .types import arrow_schema, check_used, output_schema, spark_schema

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


def one_join_or_parts(
    spark: SparkSession,
    text: str,
    tables: Mapping[str, DataFrame | str],
    options: JoinOptions,
    join: RunJoin,
    unique: Mapping[str, str | Sequence[str]] | None = None,
) -> DataFrame:
    """Run a query as one join, or, if it is more, in parts.

    Raises
    ------
    PenstockError
        As for :func:`penstock.spark_bridge.sql`.
    """
    frames = frames_of(spark, tables)
    parts = SparkParts.of(spark, text, frames, options, unique)
    return join(text, frames, options) if parts is None else parts.open(join)


@dataclass(frozen=True)
class SparkParts:
    """A query over DataFrames, in parts.

    Parameters
    ----------
    spark : SparkSession
    found : Split
    frames : mapping of table name to DataFrame
    options : JoinOptions
        Of the call.
    """

    spark: SparkSession
    found: Split
    frames: Mapping[str, DataFrame]
    options: JoinOptions

    @staticmethod
    def of(
        spark: SparkSession,
        text: str,
        frames: Mapping[str, DataFrame],
        options: JoinOptions,
        unique: Mapping[str, str | Sequence[str]] | None = None,
    ) -> SparkParts | None:
        """Split a query; None if it is one join.

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
        ways, looked_up = ((), ()) if static is None else ((QueryKind.STATIC,), (static,))
        whole = query_options(spark, text, options, *ways, unique=unique, relation=static)
        kind = one_or_beyond(lambda: one_join(text, schemas, whole, ends=ends))
        if not isinstance(kind, BeyondError):
            return None
        chosen = replace(whole, relation=None, entrance=options.get("entrance"))
        around = _Spark(spark, frames)
        try:
            found = with_room(
                lambda: split(text, schemas, chosen, around, ends=ends, relations=looked_up), text
            )
            if not ends:
                found.of_stream()
        except PartError as error:
            raise error.beside(kind) from None
        if not any(isinstance(part, Joined) for part in found.parts) and not _joins(text):
            raise kind
        return SparkParts(spark, found, frames, options)

    def open(self, join: RunJoin, tell: Callable[[Part], None] = lambda part: None) -> DataFrame:
        """The rows, or the running query; ``join`` runs the joins among the parts.

        ``tell`` is told of each part before it is planned.
        """
        is_stream = any(frame.isStreaming for frame in self.frames.values())
        return self._stream(join, tell) if is_stream else self._run(join, tell)

    def _stream(self, join: RunJoin, tell: Callable[[Part], None]) -> DataFrame:
        core, later, after = self.found.of_stream()
        behind = [part for part in later if isinstance(part, Relational)]
        made = dict(self.frames)
        for part in self.found.parts:
            tell(part)
            if isinstance(part, Relational) and part is not after and part not in behind:
                made[part.name] = _rows_of(
                    self.spark, part.text, {name: made[name] for name in part.reads}
                )
        reads = {name: made[name] for name in core.reads}
        opened = join(core.text, reads, self.options_of(core))
        name, names = core.name, tuple(self.found.names)
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
        made = dict(self.frames)
        for part in self.found.parts:
            tell(part)
            reads = {name: made[name] for name in part.reads}
            if isinstance(part, Relational):
                made[part.name] = _rows_of(self.spark, part.text, reads)
                continue
            rows = join(part.text, reads, self.options_of(part))
            assert isinstance(rows, DataFrame)  # as all that it reads
            made[part.name] = rows
        return made[self.found.parts[-1].name].toDF(*self.found.names)

    def options_of(self, part: Joined) -> JoinOptions:
        """The options of a join among the parts."""
        names = ("time", "rows", "within", "params", "scale")
        chosen = {name: getattr(part.options, name) for name in names}
        return entered(cast("JoinOptions", {**self.options, **chosen}), None)


@dataclass(frozen=True)
class _Computed:
    """Computes parts of a query, one from the other, from rows of a join or another part."""

    parts: Sequence[Relational]
    name: str
    #: Of the columns; by default those of the last part.
    names: tuple[str, ...] = ()

    def __call__(self, rows: DataFrame) -> DataFrame:
        name = self.name
        for part in self.parts:
            rows, name = _rows_of(rows.sparkSession, part.text, {name: rows}), part.name
        return rows.toDF(*self.names) if self.names else rows


@dataclass(frozen=True)
class _Valued:
    """Adds the value by which groups close to rows."""

    text: str
    name: str

    def __call__(self, rows: DataFrame) -> DataFrame:
        text = f"SELECT *, {self.text.removeprefix('SELECT ')}"
        return _rows_of(rows.sparkSession, text, {self.name: rows})


class _Spark:
    """Spark around joins; which columns parts give it finds by analysis, without a job."""

    makes_relations = True

    def __init__(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
        self._spark = spark
        self._frames = dict(frames)

    def check(self, tree: exp.Query) -> None:
        """Spark's own values need no check."""

    def written(self, tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> str:
        """Write a query with a placeholder for each table, see :func:`_rows_of`."""
        made = tree.copy()
        _type_conditions(made)
        for call in list(made.find_all(exp.Anonymous)):
            formula = _OF_PENSTOCK.get(call.name.lower())
            if formula is not None:
                names = dict(zip("abcd", call.expressions, strict=False))
                own = sqlglot.parse_one(formula, dialect=Penstock)
                call.replace(exp.replace_placeholders(own, **names))
        for table in made.find_all(exp.Table):
            alias = table.alias_or_name
            table.set("this", exp.to_identifier(_marked(table.name), quoted=True))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        return made.sql(dialect=Penstock)

    def pairs(self, part: Joined) -> int | None:
        """Not known without a job: joins are run as they are written."""
        return None

    def joined(self, part: Joined, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        own = {name: schemas[name] for name in part.reads}
        query = one_join(part.text, own, part.options)
        check_used(query, {name: self._frames[name].schema for name in part.reads})
        inputs = {side.side: schemas[side.table] for side in query.sides}
        schema = output_schema(open_delivery(plan(query), inputs).schema)
        self._frames[part.name] = self._spark.createDataFrame([], spark_schema(schema))
        return schema

    def relational(self, part: Relational, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        from pyspark.errors import PySparkException

        reads = {name: self._frames[name] for name in part.reads}
        try:
            with without_log():
                found = _rows_of(self._spark, part.text, reads)
                self._frames[part.name] = found
                return arrow_schema(found.schema)
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


def told(part: Part) -> Fact:
    """Which engine runs a part, and what."""
    if isinstance(part, Joined):
        return part.name, f"Penstock: {part.text}"
    return part.name, f"Spark: {part.text.replace(_marked(''), '')}"


def _joins(text: str) -> bool:
    """Whether a query joins tables; groups of one are Spark's own business."""
    return parse(text).find(exp.Join) is not None


def _marked(name: str) -> str:
    """What stands for a table in a text."""
    return f"penstock table {name}"


def _rows_of(spark: SparkSession, text: str, reads: Mapping[str, DataFrame]) -> DataFrame:
    """Run Spark's SQL over DataFrames."""
    text = text.replace("{", "{{").replace("}", "}}")
    given = {}
    for place, (name, frame) in enumerate(reads.items()):
        text = text.replace(f"`{_marked(name)}`", f"{{t{place}}}")
        # PySpark makes a view of it and drops that, which ends a cache of all plans that are equal.
        given[f"t{place}"] = frame.where("true")
    return spark.sql(text, **given)
