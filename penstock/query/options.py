"""Options of a query beside its text, defined once for Python, the shell and Spark.

Compiled queries are kept by their text and options, since the same text is often compiled again: in
a loop, per partition. A compiled query never changes, so any number of joins may share one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

import pyarrow as pa

from .. import arguments
from ..errors import BeyondError, QueryError
from ..user_functions import ColumnFunction, PairFunction, Udf
from ..uses import QUERY, Entrance
from .constants import param

#: Size of a window: rows for both sides, or by alias or table.
Rows = int | Mapping[str, int]
#: Size of a symmetric time window: a number of the time columns' unit, or a duration.
Within = int | timedelta


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """Options that the text of a query leaves open.

    Parameters
    ----------
    time : mapping of alias or table to column, optional
        Event-time column of each side; ``"column:unit"`` (s, ms, us, ns) lets INTERVALs be used
        with an integer column. A single timestamp column is found by itself.
    rows : int or mapping of alias or table to int, optional
        ROWS window; overrides ``[ROWS n]`` in the text.
    within : int or timedelta, optional
        Time window of the same size before and after (paper 1's sliding window).
    params : mapping, optional
        Values of names in the text that are not columns.
    scale : mapping of "table.column" to int, optional
        Decimal digits of float columns that hold fixed-point numbers.
    unique : mapping of alias or table to column or columns, optional
        Columns that together differ from row to row, such as an id.
    time_zone : str, optional
        Zone in which days begin, and in which times without a zone are read where they meet
        instants: a region such as ``Europe/Dublin``, or an offset. Computed instants are given in
        it. By default UTC, and computed instants are given as timestamps without a zone.
    ansi : bool
        Whether a division by 0 and arithmetic beyond Spark's types are errors, as in Spark's ANSI
        mode, and not NULL or exact.
    relation : str, optional
        The table that is a relation: its rows are looked up, without a window.
    all_rows : bool
        Whether the join of tables has no window: each row may meet all rows of the other table.
    functions : mapping of name to function, optional
        Of :func:`penstock.udf`, by the names that the query calls them.
    entrance : Entrance, optional
        The call that these are from, whose options are refused where the query does not use them.

    Raises
    ------
    UsageError
        An option has a value of another type.
    """

    time: Mapping[str, str] | None = None
    rows: Rows | None = None
    within: Within | None = None
    params: Mapping[str, Any] | None = None
    scale: Mapping[str, int] | None = None
    unique: Mapping[str, str | Sequence[str]] | None = None
    time_zone: str | None = None
    ansi: bool = False
    relation: str | None = None
    all_rows: bool = False
    functions: Mapping[str, Udf] | None = None
    entrance: Entrance | None = field(default=None, compare=False)

    @staticmethod
    def from_call(values: Mapping[str, Any], entrance: Entrance) -> QueryOptions:
        """Take the options of a running function from its local variables."""
        names = {"unique", *QUERY} & values.keys()
        return QueryOptions(entrance=entrance, **{name: values[name] for name in names})

    def __getstate__(self) -> dict[str, Any]:
        # Other processes get what was looked at.
        return {**vars(self), "entrance": None}

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            arguments.optional(check)(name, getattr(self, name))


def _rows_count(name: str, value: Any) -> int:
    # A count below 1 has an error of its own, which names the table.
    return arguments.whole(name, value, least=-arguments.MOST)


#: A wrong time zone has an error of its own, which says what zones look like.
_CHECKS: Mapping[str, arguments.Check] = {
    "time": arguments.mapping(arguments.text),
    "rows": arguments.one_or_each(_rows_count),
    "within": arguments.span,
    "params": arguments.mapping(),
    "scale": arguments.mapping(arguments.whole),
    "unique": arguments.mapping(arguments.texts),
    "ansi": arguments.flag,
    "relation": arguments.text,
    "all_rows": arguments.flag,
    "functions": arguments.mapping(
        arguments.instance((ColumnFunction, PairFunction), "made by penstock.udf")
    ),
}


#: Most queries to keep: some ten kilobytes each.
MOST_QUERIES = 64
#: Characters of all queries that are kept, at most: each takes some 75 bytes.
MOST_CHARACTERS = 640_000


#: The class of a compiled query.
Q = TypeVar("Q")


class KeptQueries(Generic[Q]):
    """The compiled queries that were used last; for any threads.

    So is the :class:`BeyondError` of a query that is more than one join, but no other error.
    """

    def __init__(self) -> None:
        #: Queries and their numbers of characters, the one used longest ago first.
        self._queries: OrderedDict[Hashable, tuple[Q | BeyondError, int]] = OrderedDict()
        self._lock = threading.Lock()

    def find(
        self,
        key: Hashable | None,
        compiled: Callable[[], Q],
        characters: int = 0,
        holds: Callable[[Q], bool] = lambda _: True,
    ) -> Q:
        """Return the query of a key, which is compiled where it is not kept, or does not hold.

        Parameters
        ----------
        key : hashable or None
            None if it is not to be kept.
        holds : callable
            Whether the kept query is the one that would be compiled now.
        """
        with self._lock:
            entry = self._queries.get(key)
            if entry is not None:
                self._queries.move_to_end(key)
        if entry is not None:
            if isinstance(entry[0], BeyondError):
                raise copy(entry[0])
            if holds(entry[0]):
                return entry[0]
        try:
            query = compiled()  # without the lock, since it can take long
        except BeyondError as why:
            # A copy has no traceback, which would hold the caller's tables.
            self._keep(key, copy(why), characters)
            raise
        self._keep(key, query, characters)
        return query

    def _keep(self, key: Hashable | None, query: Q | BeyondError, characters: int) -> None:
        if key is None:
            return
        with self._lock:
            self._queries[key] = query, characters
            while len(self._queries) > MOST_QUERIES or self._characters() > MOST_CHARACTERS:
                self._queries.popitem(last=False)

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
    settings = (_frozen(v) for name, v in vars(options).items() if name not in _APART)
    # Schemas are equal whatever the marks of their integers are.
    marks = tuple(str(field.metadata) for schema in schemas.values() for field in schema)
    key = text, tuple(schemas.items()), marks, params, tuple(settings)
    try:
        hash(key)
    except TypeError:  # a sequence of names may be of any class
        return None
    return key


#: Options that are told apart in another way, or not at all.
_APART = ("params", "entrance")


def _frozen(value: Any) -> Hashable:
    """An option's value that does not change, with its type."""
    if isinstance(value, Mapping):
        return tuple((name, _frozen(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return type(value), value
