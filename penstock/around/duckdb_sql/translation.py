"""The translation: which functions agree, and how the others are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
from sqlglot import exp

from ...errors import PenstockError
from ...query import nodes
from ...query.aggregates import FUNCTIONS, check_arguments
from ...query.dialect import MALFORMED, refused, written
from ...query.operators import BY_NAME, BY_TYPE
from ...query.options import QueryOptions
from ..carried import Known
from ..computed_calls import call, is_ours
from ..computed_values import Register
from ..computing import Computing
from ..parts import NoJoinError, PartError
from . import nested, strings, times
from .macros import compute_once
from .text import text_of

_SAME: tuple[type[exp.Expr], ...] = (
    # Conditions and choices
    *(exp.And, exp.Or, exp.Not, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Least),
    *(exp.Greatest, exp.Cast, exp.TryCast, exp.Interval),
    # Texts
    *(exp.Lower, exp.Length, exp.StartsWith),
    *(exp.EndsWith, exp.Contains, exp.Translate),
    # Times
    *(exp.Year, exp.Month, exp.Day, exp.DayOfMonth, exp.Hour, exp.Minute, exp.Second, exp.Quarter),
    *(exp.DayOfYear, exp.WeekOfYear, exp.LastDay),
    # Aggregates
    *(exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Stddev, exp.StddevSamp, exp.StddevPop),
    *(exp.Variance, exp.VariancePop, exp.Corr, exp.CovarSamp, exp.CovarPop, exp.Median),
    *(
        exp.PercentileCont,
        exp.GroupingId,
        exp.CountIf,
        exp.LogicalAnd,
        exp.LogicalOr,
        exp.Filter,
        exp.WithinGroup,
    ),
    # Window functions
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.PercentRank, exp.CumeDist, exp.Lag),
    *(exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue, exp.IgnoreNulls),
    # Arrays and structs
    *(exp.Unnest, exp.Explode, exp.Array, exp.Struct),
    *(exp.Transform, exp.Lambda),
)


def to_duckdb(
    tree: exp.Query, schemas: Mapping[str, pa.Schema], options: QueryOptions, register: Register
) -> tuple[str, dict[str, Known | None]]:
    """Write a query, whose names are in full and whose types are annotated, in DuckDB's SQL.

    Parameters
    ----------
    schemas : mapping of table to Schema
    register : callable
        Takes the expressions that the text calls.

    Returns
    -------
    (str, dict)
        The text, and what is known of its output columns.

    Raises
    ------
    QueryError
        A function or operator in it is not known to give Spark's values; close names are given.
    """
    query = tree.copy()
    for select in query.find_all(exp.Select):
        _name_keys(select)
    try:
        outputs = Computing(schemas, options, register).query(query)
    except PenstockError:
        raise
    except MALFORMED:
        raise PartError("a function lacks an argument, or has one of another kind") from None
    query = _rewritten(query)
    compute_once(query)
    return text_of(query), outputs


def _rewritten(tree: Any) -> Any:
    """Rewrite a tree from its leaves up; what takes the place of a node has its type."""
    for child in list(tree.iter_expressions()):
        key, place = child.arg_key, child.index
        replaced = _rewritten(child)
        if replaced is not child:  # which may be within it now, so that its parent is another
            tree.set(str(key), replaced, place)
    replaced = _translated(tree)
    if replaced is not tree and replaced.type is None:
        replaced.type = tree.type
    return replaced


def _on(name: str, *keys: str) -> Callable[[Any], exp.Expr]:
    """A call of ``name`` with these arguments of an expression."""
    return lambda tree: call(name, *(tree.args[key] for key in keys or ("this",)))


def _of_both(name: str) -> Callable[[Any], exp.Expr]:
    return _on(name, "this", "expression")


def _substring(tree: exp.Substring) -> exp.Expr:
    length = tree.args.get("length") or _ANY_LENGTH
    return call("ps_substring", tree.this, tree.args["start"], length)


def _locate(tree: exp.StrPosition) -> exp.Expr:
    return call("ps_locate", tree.args["substr"], tree.this, tree.args.get("position") or 1)


def _null(tree: exp.Anonymous) -> exp.Expr:
    return exp.Is(this=tree.expressions[0], expression=exp.null())


def _pivot(tree: exp.Pivot) -> exp.Expr:
    raise refused("PIVOT is not supported; write count(*) FILTER (WHERE k = 1) AS k1, ...", tree)


#: More characters than a text has.
_ANY_LENGTH = (1 << 31) - 1
_REWRITTEN: dict[type[exp.Expr], Callable[[Any], exp.Expr]] = {
    exp.Cast: strings.cast,
    exp.TryCast: strings.cast,
    exp.Upper: _on("ps_upper"),
    exp.Initcap: _on("ps_initcap"),
    exp.Concat: strings.concat,
    exp.ConcatWs: strings.concat_ws,
    exp.Trim: strings.trim,
    exp.Reverse: _on("ps_reverse"),
    exp.Repeat: _on("ps_repeat", "this", "times"),
    exp.Pad: strings.pad,
    exp.Replace: _on("ps_replace", "this", "expression", "replacement"),
    exp.Levenshtein: strings.levenshtein,
    exp.SplitPart: _on("ps_split_part", "this", "delimiter", "part_index"),
    exp.DPipe: strings.concat,
    exp.Substring: _substring,
    exp.Left: _of_both("ps_left"),
    exp.Right: _of_both("ps_right"),
    exp.SubstringIndex: _on("ps_substring_index", "this", "delimiter", "count"),
    exp.StrPosition: _locate,
    exp.Like: strings.like,
    exp.ILike: strings.like,
    exp.RegexpLike: strings.regexp_like,
    exp.RegexpReplace: strings.regexp_replace,
    exp.RegexpExtract: strings.regexp_extract,
    exp.RegexpSplit: strings.regexp_split,
    exp.RawString: lambda tree: exp.Literal.string(tree.name),
    exp.Interval: times.interval,
    exp.TsOrDsToDate: times.to_date,
    exp.TimeStrToTime: lambda tree: exp.cast(tree.this, "timestamptz", copy=False),
    exp.TimeToStr: times.date_format,
    exp.StrToTime: times.read,
    exp.UnixToStr: times.from_unixtime,
    exp.TimestampFromParts: times.from_parts,
    exp.Extract: times.extracted,
    exp.DayOfWeek: times.day_of_week,
    exp.ArgMax: _of_both("arg_max_null"),
    exp.ArgMin: _of_both("arg_min_null"),
    exp.Quantile: _on("quantile_cont", "this", "quantile"),
    exp.ArrayAgg: _on("ps_list"),
    exp.ArrayUniqueAgg: _on("ps_set"),
    exp.ArraySort: nested.sorted_array,
    exp.GenerateSeries: nested.sequence,
    exp.Bracket: nested.element,
    exp.ArraySize: nested.size,
    exp.ArrayContains: _of_both("ps_array_contains"),
    exp.ArrayPosition: _of_both("ps_array_position"),
    exp.ArrayMax: _on("list_max"),
    exp.ArrayMin: _on("list_min"),
    exp.MapKeys: _on("map_keys"),
    exp.MapContainsKey: _on("ps_map_contains_key", "this", "key"),
    exp.Pivot: _pivot,
    exp.Exists: nested.exists,
    exp.Lateral: nested.lateral,
}
_BY_NAME: dict[str, Callable[[Any], exp.Expr]] = {
    "format_number": strings.format_number,
    "weekday": lambda tree: exp.Sub(
        this=call("isodow", *tree.expressions), expression=exp.Literal.number(1)
    ),
    "isnull": _null,
    "isnotnull": lambda tree: exp.Not(this=_null(tree)),
    "cardinality": nested.size,
    "map_values": lambda tree: call("map_values", *tree.expressions),
    "arrays_overlap": lambda tree: call("ps_arrays_overlap", *tree.expressions),
    "get": lambda tree: call("ps_item", *tree.expressions),
}


#: Functions whose values are bounded one by one: those of all elements of a list would not be.
_LONG = (exp.GenerateSeries, exp.Repeat, exp.Pad, exp.Transform)


def _translated(tree: exp.Expr) -> exp.Expr:
    kind = type(tree)
    if is_ours(tree):
        return tree
    if isinstance(tree, exp.Func):
        nodes.check_function(tree)
    if isinstance(tree, tuple(FUNCTIONS)):
        check_arguments(tree)
    if isinstance(tree, _LONG) and tree.find_ancestor(exp.Lambda):
        raise refused(f"{written(tree)} cannot be called for each element of a list", tree)
    if kind in _REWRITTEN:
        return _argued(_REWRITTEN[kind], tree)
    if isinstance(tree, exp.Anonymous):
        name = tree.name.lower()
        if name == "session_window":
            raise NoJoinError("sessions are Penstock's")
        if name.startswith("ps_"):
            raise refused("a query cannot call functions whose names begin with ps_", tree)
        if name not in _BY_NAME:
            raise refused(f"function {tree.name} is not supported{_close(name)}", tree)
        return _argued(_BY_NAME[name], tree)
    if isinstance(tree, exp.AtTimeZone | exp.FromTimeZone):
        raise refused("from_utc_timestamp and to_utc_timestamp are not supported", tree)
    if isinstance(tree, exp.Func) and not isinstance(tree, _SAME):
        raise refused(
            f"{written(tree)} is not supported{_close(written(tree).rpartition(' ')[2])}", tree
        )
    return tree


def _argued(rewrite: Callable[[Any], exp.Expr], tree: exp.Expr) -> exp.Expr:
    """Rewrite a call; refuse one that lacks an argument or has one of a wrong kind."""
    try:
        return rewrite(tree)
    except PenstockError:
        raise
    except MALFORMED:
        raise refused(
            f"{written(tree)} lacks an argument, or has one that it does not take", tree
        ) from None


def _close(name: str) -> str:
    known = {
        one.lower()
        for kind in (*_SAME, *_REWRITTEN, *BY_TYPE)
        if issubclass(kind, exp.Func)
        for one in kind.sql_names()
    }
    near = get_close_matches(name.lower(), sorted(known | _BY_NAME.keys() | BY_NAME.keys()), n=3)
    return f"; close names are {', '.join(near)}" if near else ""


def _name_keys(select: exp.Select) -> None:
    """Give ``grouping_id()`` without arguments all keys, as Spark has it."""
    group = select.args.get("group")
    for grouping_id in select.find_all(exp.GroupingId):
        if grouping_id.expressions or grouping_id.find_ancestor(exp.Select) is not select:
            continue
        if group is None:
            raise refused(
                "grouping_id() is for GROUP BY ROLLUP, CUBE or GROUPING SETS", grouping_id
            )
        every = [*group.expressions, *group.args.get("rollup", ()), *group.args.get("cube", ())]
        for one in every:
            keys = one.expressions if isinstance(one, exp.Rollup | exp.Cube) else [one]
            for key in keys:
                grouping_id.append("expressions", key.copy())
