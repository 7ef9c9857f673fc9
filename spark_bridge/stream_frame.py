"""The methods of streaming DataFrames for joins that run micro-batch by micro-batch."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from typing import Any, NoReturn, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import DataStreamWriter

from penstock.around.parts import Closing
from penstock.errors import UsageError

from .shown import is_classic

#: Computes the output of a micro-batch from the joined rows, row by row.
After = Callable[[DataFrame], DataFrame]

#: Nodes of Spark's plan that compute a row of each row, or several.
_ROW_BY_ROW = {"Project", "Filter", "Generate", "LocalRelation", "LogicalRDD", "SubqueryAlias"}
_ROW_BY_ROW |= {"Expand", "View"}
_NODE = re.compile(r"^[\s:+|-]*([A-Z]\w*)")
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

    def select(self, *cols: Any) -> Self:
        return self._row_by_row("select", *cols)

    def selectExpr(self, *expr: Any) -> Self:
        return self._row_by_row("selectExpr", *expr)

    def where(self, condition: Any) -> Self:
        return self._row_by_row("where", condition)

    def filter(self, condition: Any) -> Self:
        return self._row_by_row("filter", condition)

    def withColumn(self, colName: str, col: Column) -> Self:
        return self._row_by_row("withColumn", colName, col)

    def withColumns(self, *colsMap: dict[str, Column]) -> Self:
        return self._row_by_row("withColumns", *colsMap)

    def withColumnRenamed(self, existing: str, new: str) -> Self:
        return self._row_by_row("withColumnRenamed", existing, new)

    def withColumnsRenamed(self, colsMap: dict[str, str]) -> Self:
        return self._row_by_row("withColumnsRenamed", colsMap)

    def drop(self, *cols: Any) -> Self:
        return self._row_by_row("drop", *cols)

    def toDF(self, *cols: str) -> Self:
        return self._row_by_row("toDF", *cols)

    def fillna(self, value: Any, subset: Any = None) -> Self:
        return self._row_by_row("fillna", value, subset)

    def dropna(self, how: str = "any", thresh: int | None = None, subset: Any = None) -> Self:
        return self._row_by_row("dropna", how, thresh, subset)

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
        if name.startswith("_") or name not in self.columns:
            raise AttributeError(f"a join of streams has no attribute or column {name}")
        return F.col(f"`{name}`")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.columns})

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.dtypes)
        return f"{type(self).__name__}[{columns}]"

    def _repr_html_(self) -> None:
        return None

    def _row_by_row(self, method: str, *args: Any) -> Self:
        """Return the same join, with a method of DataFrames applied to its rows.

        Raises
        ------
        UsageError
            It needs more than one row.
        """

        def applied(rows: DataFrame) -> DataFrame:
            return getattr(rows, method)(*args)

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


class JoinWriter(DataStreamWriter):
    """Calls that the writers of all joins of streams have in common."""

    def __init__(self) -> None:
        self._options: dict[str, str] = {}
        self._by: tuple[str, ...] = ()

    def option(self, key: str, value: Any) -> Self:
        """Set an option of the writer or of the format."""
        self._options[key] = str(value)
        return self

    def options(self, **options: Any) -> Self:
        """Set several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: str | list[str]) -> Self:
        """Columns by whose values a Delta table, or the folder of a micro-batch, is cut up."""
        names = [one if isinstance(one, list) else [one] for one in cols]
        self._by = tuple(name for some in names for name in some)
        return self

    def _settle(
        self,
        format: str | None,
        outputMode: str | None,
        partitionBy: str | list[str] | None,
        queryName: str | None,
        options: dict[str, Any],
    ) -> None:
        """Call the methods that the arguments of ``start`` stand for."""
        self.options(**options)
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if queryName is not None:
            self.queryName(queryName)


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


def _refuse_the_rest() -> None:
    """Have the methods of DataFrames that are not defined here say what to do instead."""
    for name in {*dir(DataFrame), *_REMEDIES}:
        attribute = getattr(DataFrame, name, None)
        if name in vars(StreamFrame) or name.startswith("_") or name in _LATER:
            continue
        refuse = _refusal(name)
        setattr(StreamFrame, name, refuse if callable(attribute) else property(refuse))


#: Defined by the joins.
_LATER = ("writeStream",)
_refuse_the_rest()
