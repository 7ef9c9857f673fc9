"""Finds inputs so small that one lane costs less than a job that counts their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.words import many

from ..costs import EVALUATIONS_PER_ROW
from ..inputs import Input, union_of
from ..key_choice import find_keys
from ..request import Request
from ..shown import is_classic

#: Counting takes as long as work for so many lanes does in one.
_LANES = 4
#: Bytes of a row in Spark's estimates; files take less.
_ROW_BYTES = 32
#: Spark gives what it cannot estimate, such as rows from Python, this size or a multiple.
_UNKNOWN_BYTES = 1 << 60
#: Rows of an unknown number that are read to see whether there are more: a share of a lane.
_PROBED = 16

_STATISTICS = re.compile(r"Statistics\(sizeInBytes=([0-9.E+-]+) ([KMGTPE]i)?B")
_UNITS = {unit: 1 << 10 * k for k, unit in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
#: Nodes of a plan that one task may run for all partitions.
_CHEAP = re.compile(r"[\s:+-]*(Union|Project|Filter|Relation|RelationV2|LocalRelation|Range)\b")


@dataclass(frozen=True)
class Small:
    """Inputs that need one lane.

    Parameters
    ----------
    reason : str
    is_cheap : bool
        Whether they are read so easily that one task should read all of them.
    """

    reason: str
    is_cheap: bool = False


def small(request: Request, inputs: Mapping[str, Input]) -> Small | None:
    """Whether the inputs are small, by Spark's estimates; None if not, or if it is not known.

    Where there is no estimate, a small job reads some rows.
    """
    if is_classic(request.spark):
        # Each DataFrame keeps its plan, so this costs nothing from the second join on.
        kept = [line for one in inputs.values() for line in _kept_estimates(one.table)]
        by_kept_plans = _small(request, inputs, kept)
        if by_kept_plans is not None:
            return by_kept_plans
    # Without columns that the query does not need, they may be.
    read = union_of(inputs.values(), {side: [] for side in inputs})
    lines = _estimates(request.spark, read)
    if _largest(lines) >= _UNKNOWN_BYTES:
        most = request.conf.lane_rows // _PROBED
        rows = len(read.select(F.lit(0)).limit(most + 1).collect()) if most else 1
        return Small(f"both sides have {many(rows, 'row')} together") if rows <= most else None
    return _small(request, inputs, lines)


def _small(request: Request, inputs: Mapping[str, Input], lines: Sequence[str]) -> Small | None:
    """Whether the inputs are small by the nodes of their plans."""
    largest = _largest(lines)
    if not _fits(request, largest / _ROW_BYTES):
        return None
    reason = f"Spark estimates that both sides have {largest / 1024:,.1f} KiB"
    is_cheap = all(_CHEAP.match(line) and "UDF" not in line for line in lines)
    return Small(reason, is_cheap)


def _fits(request: Request, rows: float) -> bool:
    """Whether rows of both sides together are work for one lane."""
    # Pruning leaves out pairs of different keys.
    is_pruned = request.conf.pruning and find_keys(request.query, None) is not None
    pairs = 0.0 if is_pruned else (rows / 2) ** 2
    return rows + pairs / EVALUATIONS_PER_ROW <= _LANES * request.conf.lane_rows


def _largest(lines: Sequence[str]) -> float:
    """Bytes of the largest node; inner ones count: a filter that leaves little may read much."""
    sizes = [_bytes(match) for line in lines for match in _STATISTICS.finditer(line)]
    return max(sizes, default=float(_UNKNOWN_BYTES))


def _kept_estimates(frame: DataFrame) -> list[str]:
    """Return the lines of :func:`_estimates`, from the plan that a DataFrame keeps."""
    return _optimized(frame._jdf.queryExecution().stringWithStats())  # type: ignore[attr-defined]


def _estimates(spark: SparkSession, frame: DataFrame) -> list[str]:
    """The nodes of a DataFrame's optimized plan, a line each; no job runs."""
    text = str(spark.sql("EXPLAIN COST SELECT * FROM {frame}", frame=frame).collect()[0][0])
    return _optimized(text)


def _optimized(text: str) -> list[str]:
    _, _, optimized = text.partition("== Optimized Logical Plan ==\n")
    return optimized.partition("\n\n== Physical Plan ==")[0].splitlines()


def _bytes(match: re.Match[str]) -> float:
    return float(match[1]) * _UNITS[match[2] or ""]
