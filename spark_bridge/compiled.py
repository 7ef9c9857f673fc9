"""A query as it travels to the tasks: its text and its options.

Compiled expressions do not travel: equal nodes must be one object within a process. There the text
is compiled again, once for all tasks of the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.plan.query import JoinQuery, named_by_side
from penstock.query.compiler import compile_query

from .ordering import Ordering, without_places


@dataclass(frozen=True)
class Compiled:
    """A query.

    Parameters
    ----------
    text : str
    schemas : mapping of table name to pyarrow.Schema
    options : mapping
        Keyword arguments of :func:`penstock.query.compiler.compile_query`.
    ordering : Ordering, optional
        Adds what the output is sorted by.
    """

    text: str
    schemas: Mapping[str, pa.Schema]
    options: Mapping[str, Any]
    ordering: Ordering | None = None

    def query(self) -> JoinQuery:
        """The query over tables named by side: in a self-join they have different rows here."""
        return self._made()[0]

    def by_side(self) -> dict[str, pa.Schema]:
        """Schema of each side's table."""
        return {side: self.schemas[table] for side, table in self._made()[1].items()}

    def _made(self) -> tuple[JoinQuery, dict[str, str]]:
        return _compiled(self.text, _Hashed(self.schemas), _Hashed(self.options), self.ordering)


@dataclass(frozen=True)
class _Hashed:
    """A value that is compared and hashed by its ``repr``."""

    value: Any

    def __hash__(self) -> int:
        return hash(repr(self.value))


@lru_cache(maxsize=16)
def _compiled(
    text: str, schemas: _Hashed, options: _Hashed, ordering: Ordering | None
) -> tuple[JoinQuery, dict[str, str]]:
    """The query over tables named by side, and the names that these had."""
    query = compile_query(text, without_places(schemas.value), **options.value)
    if ordering is not None:
        query = ordering.extended(query)
    return named_by_side(query), {side.side: side.table for side in query.sides}
