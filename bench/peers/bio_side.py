"""polars-bio: pairs of intervals that overlap, by its interval trees, or their number per row."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pyarrow as pa

from bench.peers.join import THREADS, Join

# Polars reads it once, when it is first imported; so does the engine below.
os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))
os.environ.setdefault("TOKIO_WORKER_THREADS", str(THREADS))


def contenders(join: Join) -> dict[str, Callable[[], pa.Table] | str]:
    """Calls by name, or why one is left out."""
    if join.overlap is None:
        return {}
    if importlib.util.find_spec("polars_bio") is None:
        return {"polars-bio": "not installed: pip install '.[bench]'"}
    return {"polars-bio": partial(_counts if join.count else _pairs, join, join.overlap)}


def _pairs(join: Join, columns: tuple[str, str, str]) -> pa.Table:
    bio, sides, names = _sides(join, columns)
    rows = bio.overlap(*sides, cols1=names, cols2=names)
    return rows.select(i="id_1", j="id_2").collect().to_arrow()


def _counts(join: Join, columns: tuple[str, str, str]) -> pa.Table:
    import polars as pl

    bio, sides, names = _sides(join, columns)
    rows = bio.count_overlaps(*sides, cols1=names, cols2=names)
    return rows.filter(pl.col("count") > 0).select(i="id", n="count").collect().to_arrow()


def _sides(join: Join, columns: tuple[str, str, str]) -> tuple[Any, list, list[str]]:
    import polars as pl

    sides = [pl.DataFrame(side).select("id", *columns).lazy() for side in join]
    return _library(), sides, list(columns)


@cache
def _library() -> Any:
    import polars_bio

    warnings.filterwarnings("ignore", "Coordinate system metadata")
    polars_bio.set_option("datafusion.execution.target_partitions", str(THREADS))
    polars_bio.set_option("datafusion.bio.coordinate_system_check", False)
    return polars_bio
