"""Keeps compiled queries, since the same text is often compiled again: in a loop, per partition.

A compiled query never changes, so any number of joins may share one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import pyarrow as pa

from ..errors import QueryError
from ..plan.group_query import GroupQuery
from ..plan.query import JoinQuery
from .constants import param
from .options import QueryOptions

#: Most queries to keep: some ten kilobytes each.
MOST_QUERIES = 64
#: Characters of all queries that are kept, at most: each takes some 75 bytes.
MOST_CHARACTERS = 640_000


class KeptQueries:
    """The compiled queries that were used last; for any threads."""

    def __init__(self) -> None:
        #: Queries and their numbers of characters, the one used longest ago first.
        self._queries: OrderedDict[Hashable, tuple[JoinQuery | GroupQuery, int]] = OrderedDict()
        self._lock = threading.Lock()

    def find(
        self, key: Hashable, compiled: Callable[[], JoinQuery | GroupQuery], characters: int = 0
    ) -> JoinQuery | GroupQuery:
        """Return the query of a key, which is compiled where it is not kept."""
        with self._lock:
            entry = self._queries.get(key)
            if entry is not None:
                self._queries.move_to_end(key)
                return entry[0]
        query = compiled()  # without the lock, since it can take long
        with self._lock:
            self._queries[key] = query, characters
            while len(self._queries) > MOST_QUERIES or self._characters() > MOST_CHARACTERS:
                self._queries.popitem(last=False)
        return query

    def _characters(self) -> int:
        return sum(characters for _, characters in self._queries.values())


def key_of(text: str, schemas: Mapping[str, pa.Schema], options: QueryOptions) -> Hashable | None:
    """Return a key that only the same query has; None if it is not to be kept."""
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        # As constants: of equal values such as 1, 1.0 and True each is another one.
        params = tuple((name, param(name, value)) for name, value in (options.params or {}).items())
    except QueryError:  # of a parameter that the query perhaps does not use
        return None
    settings = (
        options.time,
        options.rows,
        options.within,
        options.scale,
        options.unique,
        options.time_zone,
        options.ansi,
        options.relation,
        options.functions,
    )
    key = text, tuple(schemas.items()), params, tuple(map(_frozen, settings))
    try:
        hash(key)
    except TypeError:  # a sequence of names may be of any class
        return None
    return key


def _frozen(value: Any) -> Hashable:
    """An option's value that does not change, with its type."""
    if isinstance(value, Mapping):
        return tuple((name, _frozen(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return type(value), value
