"""Estimates how many pairs of two tables have equal keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from penstock.around.parts import EqualPairs

from .statistics import counted

#: Cells of the hash of a key whose rows are counted. By chance a cell also has pairs of other keys;
#: their expected number is subtracted.
_CELLS = 4096

#: Estimates by left and right table and the text of their join. A DataFrame keeps its plan, with
#: the files that it reads, so that a later join of both needs no job.
_kept: WeakKeyDictionary[DataFrame, WeakKeyDictionary[DataFrame, dict[str, EqualPairs | None]]]
_kept = WeakKeyDictionary()


def kept(
    left: DataFrame, right: DataFrame, text: str, estimate: Callable[[], EqualPairs | None]
) -> EqualPairs | None:
    """Return the estimate for two tables and the text of their join, made now if there is none."""
    known = _kept.setdefault(left, WeakKeyDictionary()).setdefault(right, {})
    if text not in known:
        known[text] = estimate()
    return known[text]


def pairs_of_equal_keys(
    left: DataFrame, right: DataFrame, keys: Sequence[Sequence[Column]]
) -> EqualPairs | None:
    """Count the rows of both tables, and estimate the pairs of equal keys, by one job.

    None if Spark would cast a key to compare it.
    """
    a, b = (
        frame.select(*(key.alias(f"k{place}") for place, key in enumerate(of_side)))
        for frame, of_side in zip((left, right), zip(*keys, strict=True), strict=True)
    )
    types = zip(a.schema, b.schema, strict=True)
    if not all(_are_alike(one.dataType, other.dataType) for one, other in types):
        return None
    counts = counted({"a": a.select(_cell(a)), "b": b.select(_cell(b))}, _CELLS)
    rows = {side: int(cells.sum()) for side, cells in counts.items()}
    met = float(counts["a"].astype(float) @ counts["b"])
    by_chance = rows["a"] * rows["b"] / _CELLS
    pairs = max(0.0, met - by_chance) / (1 - 1 / _CELLS)
    return EqualPairs(pairs, rows["a"] + rows["b"])


def _cell(keys: DataFrame) -> Column:
    """The cell of each row's key; -1 for a NULL, which equals nothing."""
    whole = {one.name for one in keys.schema if isinstance(one.dataType, spark.IntegralType)}
    columns = [F.col(k).cast("bigint") if k in whole else F.col(k) for k in keys.columns]
    is_null = F.lit(False)
    for column in columns:
        is_null |= column.isNull()
    cell = F.pmod(F.xxhash64(*columns), F.lit(_CELLS)).cast("int")
    return F.when(is_null, F.lit(-1)).otherwise(cell)


def _are_alike(a: spark.DataType, b: spark.DataType) -> bool:
    return a == b or (isinstance(a, spark.IntegralType) and isinstance(b, spark.IntegralType))
