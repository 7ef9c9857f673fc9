"""A query as it travels to the tasks: its text and its options.

Compiled expressions cannot travel, since equal nodes must be one object within a process. Each
worker compiles the text once, for all tasks of the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from penstock.plan.query import JoinQuery, named_by_side
from penstock.query.compiler import compile_query
from penstock.query.options import QueryOptions

from .arrival_sort import Ordering, without_places

#: Remedy for a query over one table.
GROUP_IN_SPARK = "group it in Spark itself, with spark.sql or DataFrame.groupBy"


@dataclass(frozen=True)
class Compiled:
    """A query's text, options and schemas; a task compiles it once.

    Parameters
    ----------
    text : str
    schemas : mapping of table name to pyarrow.Schema
    options : QueryOptions
    ordering : Ordering, optional
        Adds the columns by which the output is sorted.
    """

    text: str
    schemas: Mapping[str, pa.Schema]
    options: QueryOptions
    ordering: Ordering | None = None

    def __hash__(self) -> int:
        # Not of the fields: mappings have no hash, and 1, 1.0 and True are equal.
        return hash(repr(self))

    def query(self) -> JoinQuery:
        """The query over tables named by side, because sides of a self-join have different rows."""
        return _compiled(self)[0]

    def by_side(self) -> dict[str, pa.Schema]:
        """Schema of each side's table."""
        return _compiled(self)[1]


@lru_cache(maxsize=16)
def _compiled(one: Compiled) -> tuple[JoinQuery, dict[str, pa.Schema]]:
    schemas = without_places(one.schemas)
    query = compile_query(one.text, schemas, one.options, takes_nearest=True)
    if one.ordering is not None:
        query = one.ordering.extend(query)
    return named_by_side(query), {side.side: one.schemas[side.table] for side in query.sides}
