"""Table of the kinds of query that use each option, for Python, the command line and Spark.

A query in parts uses what one of its parts uses. Options that a caller wrote and that have no
effect are refused, whatever their values are, once the query is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from .errors import QueryError, UsageError
from .plan.group_query import GroupQuery
from .plan.query import JoinQuery


class QueryKind(Enum):
    """A kind of query, as messages call it."""

    TIME = "a join over a time window"
    ROWS = "a join over a ROWS window"
    NO_WINDOW = "a join without a window"
    OPERATOR = "a join by the window operator"
    SESSIONS = "a join of sessions"
    GROUPS = "a query over one table"
    NEAREST = "a join of nearest rows"
    LOOKUP = "a look-up in a relation"
    STATIC = "a look-up in a static table"
    GROUPED_LOOKUP = "groups of looked-up rows"
    PLAIN = "a query without a windowed join, a look-up or groups that Penstock runs"
    #: Beside another kind: it has aggregates.
    GROUPED = "a query with groups"


class Way(Enum):
    """Way in which a query runs, as messages call it, and why some options then do nothing."""

    WORKERS = ("worker processes", "each knows the query and the name of the device alone")
    PARTS = ("a query that is run in parts (penstock explain shows them)", "it is about one join")
    BATCH = ("a batch query", "the version that it reads is fixed when it is built")
    SAVED = ("a query with --out", "nothing is printed")
    NODELESS = ("a relation whose rows are read here", "no node is asked for them; give --nodes")
    UNSAVED = ("a stream without a checkpoint", "nothing is kept; give checkpoint=FOLDER")


@dataclass(frozen=True)
class Use:
    """Kinds of query that use an option.

    Parameters
    ----------
    kinds : collection of Kind
        A query of one of these uses it, unless it runs in a way of ``never``.
    why : str
        Why other kinds of query do not.
    never : collection of Way
    """

    kinds: Collection[QueryKind]
    why: str
    never: Collection[Way] = ()


class UnusedError(QueryError, UsageError):
    """An option was given that has no effect on its query."""

    def __init__(self, option: str, query: str, why: str, spelling: str | None = None) -> None:
        super().__init__(option, query, why, spelling)
        self.option = option

    def __str__(self) -> str:
        option, query, why, spelling = self.args
        shown = spelling or f"{option}="
        return f"{shown} is not for {query}: {why}; leave {shown} out"

    def spelled(self, spelling: str) -> UnusedError:
        """Return the error with the option as its caller wrote it."""
        option, query, why, _ = self.args
        return UnusedError(option, query, why, spelling)


_ANY = frozenset(QueryKind)
_WINDOWS = {QueryKind.TIME, QueryKind.ROWS, QueryKind.NO_WINDOW, QueryKind.SESSIONS}
_JOINS = _WINDOWS | {QueryKind.OPERATOR}
LOOKUPS = {QueryKind.LOOKUP, QueryKind.GROUPED_LOOKUP}
_ON_DEVICES = _JOINS | LOOKUPS

_DEVICE = Use(_ON_DEVICES, "it runs in this process, and takes no device")
_ONE_DEVICE = Use(_ON_DEVICES, _DEVICE.why, {Way.WORKERS})
_OPERATOR_ONLY = Use(
    {QueryKind.OPERATOR},
    "it is about the window operator, which is for ROWS windows",
    {Way.WORKERS},
)
_RELATION = Use(LOOKUPS, "it is about rows of a relation, and none is looked up")
_WHOLE = Use(_ANY, "")

#: Options of queries, which every entrance has: :class:`penstock.query.options.QueryOptions`.
QUERY = {
    "time": Use(
        _ANY - {QueryKind.LOOKUP, QueryKind.STATIC},
        "it has no window, and each row meets all rows of the other table; write bounds on time "
        "into ON",
    ),
    "rows": Use(
        {QueryKind.ROWS, QueryKind.OPERATOR},
        "it is the size of a ROWS window of a join",
        {Way.PARTS},
    ),
    "within": Use(
        {QueryKind.TIME},
        "it is the size of a time window of a join, whose times are timestamps or named by time",
    ),
    "params": _WHOLE,
    "scale": Use(_ANY, "", {Way.PARTS}),
    "time_zone": _WHOLE,
    "ansi": _WHOLE,
    "functions": Use(
        _ANY - {QueryKind.GROUPS, QueryKind.GROUPED_LOOKUP}, "it calls none of them", {Way.WORKERS}
    ),
}

#: Options of :func:`penstock.sql`.
TABLES = {
    **QUERY,
    "disorder": Use(
        _JOINS - {QueryKind.NO_WINDOW}, "only rows of a window need an order", {Way.WORKERS}
    ),
    "device": _DEVICE,
    "operator": Use(_JOINS, "operators join two tables", {Way.WORKERS}),
    "pruning": Use(_WINDOWS | LOOKUPS, "it leaves out no pairs", {Way.WORKERS}),
    "running": Use(_ON_DEVICES | {QueryKind.GROUPS}, "no device of Penstock runs it"),
    "memory_bytes": _RELATION,
    "workers": Use(_JOINS | {QueryKind.GROUPS}, "it runs in this process"),
}

#: Options of commands that say what is read.
_READ = dict.fromkeys(("table", "relation", "text_file", "delimiter", "no_header", "null"), _WHOLE)
_RECORDED = _JOINS | {QueryKind.GROUPS, QueryKind.GROUPED_LOOKUP}
#: Options of ``penstock sql``, by the names that Python has for them where it has them.
COMMAND = {
    **TABLES,
    **_READ,
    "nodes": _RELATION,
    "nodes_token": Use(LOOKUPS, _RELATION.why, {Way.NODELESS}),
    "algorithm": _RELATION,
    **dict.fromkeys(
        ("threads", "units", "pipelines", "key_bits", "vcd", "address", "token_file", "package"),
        _ONE_DEVICE,
    ),
    "banks": _OPERATOR_ONLY,
    "rows_depth": _OPERATOR_ONLY,
    "out": _WHOLE,
    "show": Use(_ANY, "", {Way.SAVED}),
    "stats": Use(_ANY, "", {Way.PARTS}),
    "trace": Use(_RECORDED, "it is not recorded step by step", {Way.PARTS}),
    "metrics_port": Use(_RECORDED, "it serves no metrics", {Way.PARTS}),
    **dict.fromkeys(("page", "page_token_file"), Use(_RECORDED, "it has no page", {Way.PARTS})),
    "no_band": Use(_JOINS, "it has no band form", {Way.PARTS, Way.WORKERS}),
    "progress": Use(_JOINS, "it counts no pairs", {Way.PARTS, Way.WORKERS}),
}

#: Options of :func:`penstock.explain`, which runs nothing but the parts before a join.
PLAN = {
    **QUERY,
    "memory_bytes": Use(LOOKUPS, _RELATION.why, {Way.PARTS}),
    "analyze": Use(_JOINS, "it has no join of two tables that Penstock runs, to count its pairs"),
}

#: Options of ``penstock explain``.
EXPLAIN = {
    **_READ,
    **{name: COMMAND[name] for name in ("nodes", "nodes_token", "algorithm")},
    **{name: use for name, use in PLAN.items() if name != "functions"},
    "no_band": Use(_JOINS, "it has no band form"),
    "html": _WHOLE,
    "open_page": _WHOLE,
}

#: Options of :func:`penstock.stream`.
STREAM = {
    **QUERY,
    "within": Use({QueryKind.TIME, QueryKind.NEAREST}, QUERY["within"].why),
    "unique": Use(
        {QueryKind.GROUPED, QueryKind.GROUPS, QueryKind.NEAREST, *LOOKUPS},
        "it says when groups are complete",
    ),
    "disorder": Use(
        _JOINS | {QueryKind.GROUPS, QueryKind.GROUPED_LOOKUP, QueryKind.NEAREST},
        "it has no window that rows could come too late for",
    ),
    # Nearest rows of streams are ranked pairs of a window.
    "device": Use(_ON_DEVICES | {QueryKind.NEAREST}, _DEVICE.why),
    "flow": _WHOLE,
    "trace": Use(
        _JOINS | {QueryKind.GROUPS, QueryKind.GROUPED_LOOKUP, QueryKind.NEAREST},
        "it is not recorded step by step",
    ),
    "workers": _WHOLE,
    "checkpoint": _WHOLE,
    "release": Use(_ANY, "", {Way.UNSAVED}),
}

_BY_PENSTOCK = _ANY - {QueryKind.PLAIN}
_IN_SPARK = Use(_BY_PENSTOCK, "Spark runs all of it")
_DEVICE_IN_SPARK = Use(_BY_PENSTOCK - {QueryKind.NEAREST}, "no device of Penstock runs it")
#: Options of :func:`penstock.spark_bridge.sql` and ``explain``; ``join`` calls ``sql``.
SPARK = {
    **{name: use for name, use in QUERY.items() if name not in ("time_zone", "ansi", "functions")},
    **dict.fromkeys(("lanes", "partitioning"), _IN_SPARK),
    **dict.fromkeys(("device", "device_options"), _DEVICE_IN_SPARK),
    "ordered": Use(_DEVICE_IN_SPARK.kinds, "its rows arrive at no times"),
    "time": Use(_WINDOWS | {QueryKind.PLAIN}, QUERY["time"].why),
    "keys": Use(
        _JOINS,
        "partitioning='arcs' sends its rows by the relation's key",
    ),
    "memory_bytes": _RELATION,
    "pins": Use(LOOKUPS, _RELATION.why, {Way.BATCH}),
    "extended": _WHOLE,
}
#: Options of :func:`penstock.spark_bridge.stream`.
SPARK_STREAM = {
    **SPARK,
    "unique": STREAM["unique"],
    "disorder": Use(_JOINS, "it has no window that rows could come too late for"),
    "idle": Use(_JOINS, "it has no window that waits for another source"),
    "pruning": Use(_WINDOWS, "the setting spark.penstock.pruning says it"),
}


#: Kinds that a call makes of others, where it says so.
_RUN_AS = {QueryKind.ROWS: QueryKind.OPERATOR, QueryKind.LOOKUP: QueryKind.STATIC}


def kinds_of(
    query: JoinQuery | GroupQuery, looks_up: bool, all_rows: bool = False
) -> set[QueryKind]:
    """Return the kinds that a compiled query is of.

    Parameters
    ----------
    looks_up : bool
        Whether one of its tables is a relation.
    all_rows : bool
        Whether its window has all rows.
    """
    if isinstance(query, GroupQuery):
        return {QueryKind.GROUPS if query.lookup is None else QueryKind.GROUPED_LOOKUP}
    if looks_up:
        kind = QueryKind.LOOKUP
    elif query.sessions is not None:
        kind = QueryKind.SESSIONS
    elif query.nearest is not None:
        kind = QueryKind.NEAREST
    elif query.is_rows:
        kind = QueryKind.ROWS
    else:
        kind = QueryKind.NO_WINDOW if all_rows else QueryKind.TIME
    return {kind} if query.aggregation is None else {kind, QueryKind.GROUPED}


@dataclass(frozen=True)
class Entrance:
    """Call of a public function or command, with the options that its caller wrote.

    Parameters
    ----------
    table : mapping of option to Use
    options : frozenset of str
        Options that the caller wrote.
    ways : frozenset of Kind and Way
        How the query runs. A kind among them takes the place of the kind that its text has.
    """

    table: Mapping[str, Use]
    options: frozenset[str]
    ways: frozenset[QueryKind | Way] = frozenset()

    @staticmethod
    def from_call(
        table: Mapping[str, Use],
        function: Callable[..., Any],
        values: Mapping[str, Any],
        *ways: QueryKind | Way,
    ) -> Entrance:
        """Make the entrance of a running function from its local variables, before any changes.

        Its ``**options``, if it takes any, must have this name.
        """
        defaults = function.__kwdefaults__ or {}
        options = {name for name, default in defaults.items() if values[name] is not default}
        keywords = values.get("options") or {}
        options |= {name for name in table if keywords.get(name) is not None}
        return Entrance(table, frozenset(options), frozenset(ways))

    def also(self, *ways: QueryKind | Way) -> Entrance:
        """Return the same call, of a query that also runs in these ways."""
        return replace(self, ways=self.ways | set(ways))

    def refuse_unused(self, kinds: Collection[QueryKind]) -> None:
        """Refuse options that no query of these kinds uses.

        Raises
        ------
        UnusedError
        """
        traits = {one if _RUN_AS.get(one) not in self.ways else _RUN_AS[one] for one in kinds}
        for option in sorted(self.options):
            use = self.table[option]
            way = next((way for way in use.never if way in self.ways), None)
            if way is not None:
                raise UnusedError(option, *way.value)
            if not any(kind in traits for kind in use.kinds):
                kind = next(kind for kind in QueryKind if kind in traits)
                raise UnusedError(option, kind.value, use.why)
