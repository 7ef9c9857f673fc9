"""The methods of streaming DataFrames for joins that run micro-batch by micro-batch."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache, wraps
from io import StringIO
from typing import Any, NoReturn, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from penstock.around.parts import Closing
from penstock.errors import UsageError

from .inputs import identifier
from .shown import is_classic

#: Computes the output of a micro-batch from the joined rows, row by row.
After = Callable[[DataFrame], DataFrame]

#: Nodes of Spark's plan that compute a row of each row, or several.
_ROW_BY_ROW = {"Project", "Filter", "Generate", "LocalRelation", "LogicalRDD", "SubqueryAlias"}
_ROW_BY_ROW |= {"Expand", "View"}
_NODE = re.compile(r"^[\s:+|-]*([A-Z]\w*)")
#: Methods that compute a row of each row.
_OF_ROWS = ("select", "selectExpr", "where", "filter", "withColumn", "withColumns", "drop", "toDF")
_OF_ROWS += ("withColumnRenamed", "withColumnsRenamed", "fillna", "dropna")
#: Remedies for the other methods.
_INSTEAD = {
    "query": "write it in the text of the query",
    "batch": "do it with the rows of each micro-batch: .writeStream.foreachBatch(f)",
    "written": "write the rows (.writeStream.start(PATH)), and do it with what has been written",
}
_METHODS = {
    "query": "agg groupBy groupby rollup cube groupingSets distinct dropDuplicates drop_duplicates "
    "join crossJoin lateralJoin union unionAll unionByName limit orderBy sort withWatermark",
    "batch": "foreach foreachPartition write writeTo mapInArrow mapInPandas repartition coalesce "
    "cache persist rdd mergeInto",
    "written": "show collect count toPandas toArrow first head take tail isEmpty describe summary "
    "toLocalIterator createOrReplaceTempView createTempView",
}
_REMEDIES = {name: _INSTEAD[kind] for kind, names in _METHODS.items() for name in names.split()}


def as_they_are(rows: DataFrame) -> DataFrame:
    """Return the joined rows unchanged."""
    return rows


class StreamFrame(DataFrame):
    """A join of streams, with the methods of a streaming DataFrame that work row by row.

    ``select``, ``withColumn``, ``where`` and their like are computed by Spark in each micro-batch;
    what needs more than one row is refused, with what to do instead.

    Attributes
    ----------
    after : callable
        Computes the output from the joined rows, row by row.
    """

    after: After

    def __new__(cls, spark: SparkSession, *args: object, **named: object) -> Self:
        return object.__new__(_in_session(cls, is_classic(spark)))

    # -- what joins give --------------------------------------------------------------------------

    @property
    def sparkSession(self) -> SparkSession:
        raise NotImplementedError

    def explained(self, *, extended: bool = False) -> str:
        """Describe how the query will run, see :func:`penstock.spark_bridge.explain`."""
        raise NotImplementedError

    def frame(self) -> Self:
        """Return the result: the join itself, which is started by a writer."""
        return self

    def joined(self) -> DataFrame:
        """A batch DataFrame without rows, with the columns of the join."""
        raise NotImplementedError

    def waits(self, closing: Closing, text: str, of_joined: After, valued: After) -> Self:
        """Return the same join, whose rows wait until their groups are complete.

        Parameters
        ----------
        closing : Closing
        text : str
            The SQL of the groups: a query goes on with the same one only.
        of_joined : callable
            Computes the rows that wait from those of the join, row by row.
        valued : callable
            Adds the value of ``closing`` to such rows, as their last column.

        Raises
        ------
        QueryError
            Its rows are to be sorted.
        """
        raise NotImplementedError

    def then(self, after: After) -> Self:
        """Return the same join, whose output is computed otherwise."""
        return self.but(after=after)

    def but(self, **changes: Any) -> Self:
        """Return the same join with changed fields."""
        changed = object.__new__(type(self))
        vars(changed).update(vars(self), **changes)
        return changed

    # -- as of a DataFrame ------------------------------------------------------------------------

    @property
    def schema(self) -> spark_types.StructType:
        """Columns of the output."""
        return self.after(self.joined()).schema

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        return [(field.name, field.dataType.simpleString()) for field in self.schema]

    @property
    def isStreaming(self) -> bool:
        return True

    def explain(self, extended: bool | str | None = None, mode: str | None = None) -> None:
        """Print how the query will run; with ``extended`` all that is known of it."""
        sys.stdout.write(self.explained(extended=bool(extended or mode)) + "\n")

    def printSchema(self, level: int | None = None) -> None:
        self.after(self.joined()).printSchema(level)

    def transform(self, func: Callable[..., DataFrame], *args: Any, **kwargs: Any) -> DataFrame:
        return func(self, *args, **kwargs)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, Column):
            return self.where(item)
        if isinstance(item, list | tuple):
            return self.select(*item)
        name = self.columns[item] if isinstance(item, int) else item
        self.after(self.joined()).select(name)  # Spark says which columns there are
        return F.col(name)

    def __getattr__(self, name: str) -> Any:
        if name == "rest":  # as earlier versions called it
            return self.remaining
        if name.startswith("_") or name not in self.columns:
            raise AttributeError(f"a join of streams has no attribute or column {name}")
        return F.col(identifier(name))

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.columns})

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.dtypes)
        return f"{type(self).__name__}[{columns}]"

    def _repr_html_(self) -> None:
        return None

    def _row_by_row(self, method: str, *args: Any, **named: Any) -> Self:
        """Return the same join, with a method of DataFrames applied to its rows.

        Raises
        ------
        UsageError
            It needs more than one row.
        """

        def applied(rows: DataFrame) -> DataFrame:
            return getattr(rows, method)(*args, **named)

        before = self.after

        def after(rows: DataFrame) -> DataFrame:
            return applied(before(rows))

        nodes = _nodes(applied(self.sparkSession.createDataFrame([], self.schema)))
        if refused := sorted(nodes - _ROW_BY_ROW):
            raise UsageError(
                f"{method} needs more than a row at a time ({', '.join(refused)}), and the rows of "
                f"a join of streams come in micro-batches: {_INSTEAD['query']}, or "
                f"{_INSTEAD['batch']}"
            )
        return self.then(after)


@cache
def _in_session(kind: type[StreamFrame], classic: bool) -> Any:
    """Subclass of a join's class and the session's own, which ``DataFrame.transform`` asserts."""
    if classic:
        from pyspark.sql.classic.dataframe import DataFrame as SessionFrame
    else:
        from pyspark.sql.connect.dataframe import DataFrame as SessionFrame
    return type(kind.__name__, (kind, SessionFrame), {"__module__": kind.__module__})


def _nodes(frame: DataFrame) -> set[str]:
    """Names of the nodes of a DataFrame's plan, before Spark optimises it."""
    with redirect_stdout(StringIO()) as shown:
        frame.explain(extended=True)
    analyzed = shown.getvalue().partition("== Analyzed Logical Plan ==")[2]
    lines = analyzed.partition("== Optimized Logical Plan ==")[0].strip().splitlines()[1:]
    return {match[1] for line in lines if (match := _NODE.match(line))}


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: StreamFrame, *args: object, **named: object) -> NoReturn:
        remedy = _REMEDIES.get(name, f"{_INSTEAD['batch']}, or {_INSTEAD['written']}")
        raise UsageError(f"a join of streams has no {name}: {remedy}")

    return refuse


def _row_method(name: str) -> Callable[..., StreamFrame]:
    def applied(self: StreamFrame, *args: Any, **named: Any) -> StreamFrame:
        return self._row_by_row(name, *args, **named)

    return wraps(getattr(DataFrame, name))(applied)


def _define_methods() -> None:
    """Have methods that work row by row, and have the others say what to do instead."""
    for name in _OF_ROWS:
        setattr(StreamFrame, name, _row_method(name))
    for name in {*dir(DataFrame), *_REMEDIES}:
        attribute = getattr(DataFrame, name, None)
        if name in vars(StreamFrame) or name.startswith("_") or name in _LATER:
            continue
        refuse = _refusal(name)
        setattr(StreamFrame, name, refuse if callable(attribute) else property(refuse))


#: Defined by the joins.
_LATER = ("writeStream",)
_define_methods()
