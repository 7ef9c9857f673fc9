"""Reads the shape of a query: its groups, its joins, and its parts of several rows.

With sliding windows of a stream, pairs of a join stand once for each window that they are in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa
from sqlglot import exp

from ..query.window_function import is_session, is_window
from .computed_calls import call
from .parts import OF_GROUPS, Joined, Part
from .sides import (
    Outputs,
    aliases_in,
    column_of,
    conditions_of,
    expressions,
    field_of,
    in_spark,
    items_of,
    set_where,
)

#: Begins the names of columns that are sliding windows.
SLIDING = "sliding_"


def rising(key: exp.Expr, column: str) -> exp.Expr | None:
    """A key of groups as a value that rises with a column; None if it does not."""
    if isinstance(key, exp.Column):
        return key if key.name == column else None
    in_window = is_window(key)
    if isinstance(key, exp.Dot) and isinstance(key.this, exp.Anonymous):
        return rising(key.this, column)
    time = key.expressions[0] if in_window else key.this
    is_column = isinstance(time, exp.Column) and time.name == column
    if in_window and is_column:
        if slides(key):
            return None
        return field_of(key.copy(), "start")
    return key if is_column and isinstance(key, exp.TimestampTrunc | exp.DateTrunc) else None


def slides(tree: exp.Expr) -> bool:
    """Whether an expression is a call of ``window(time, size, slide)`` whose windows overlap."""
    sizes = tree.expressions[1:]
    return is_window(tree) and len(sizes) > 1 and sizes[0] != sizes[1]


def put_items(select: exp.Select, alias: str, inner: exp.Select) -> None:
    """Put the items of a subquery in the place of the columns that are named by its alias."""
    values = {one.alias_or_name: one.unalias() for one in inner.expressions}
    for column in list(select.find_all(exp.Column)):
        if column.table == alias and column.name in values:
            value = values[column.name].copy()
            column.replace(exp.paren(value) if isinstance(value, exp.Binary) else value)


def add_needed(tree: exp.Expr, keys: list[exp.Expr], select: exp.Select, outputs: Outputs) -> None:
    """Add the keys and aggregates in an expression of a SELECT to what groups give."""
    is_window = isinstance(tree, exp.Dot) and isinstance(tree.this, exp.Anonymous)
    is_over = isinstance(tree.parent, exp.Window) and tree.arg_key == "this"
    is_folded = isinstance(tree, exp.AggFunc) and not is_over
    if is_folded and tree.parent_select is not select:  # a subquery's, or of this SELECT's columns
        inside = aliases_in(tree)
        is_folded = bool(inside) and inside <= {one.alias_or_name for one in items_of(select)}
    if is_folded or is_window or tree in keys:
        outputs.add(tree)
        return
    for child in tree.iter_expressions():
        add_needed(child, keys, select, outputs)


def gives_all(tree: exp.Query, part: Part, schemas: Mapping[str, pa.Schema]) -> bool:
    """Whether a query gives all columns of a join as they are."""
    if not isinstance(part, Joined) or not isinstance(tree, exp.Select):
        return False
    if any(arg for key, arg in tree.args.items() if key not in ("expressions", "from_")):
        return False
    columns = [(c.text("table"), c.name) for c in (one.unalias() for one in tree.expressions)]
    wanted = [(part.name, name) for name in schemas[part.name].names]
    return tree.args["from_"].this.name == part.name and columns == wanted


def with_ends(tree: exp.Expr) -> None:
    """Write a session, as a value, as a struct of its start and end."""
    for one in [*tree.find_all(exp.Anonymous)]:
        if is_session(one) and not isinstance(one.parent, exp.Dot) and one.parent is not None:
            one.replace(call("ps_span", *(field_of(one.copy(), n) for n in ("start", "end"))))


def equates(tree: exp.Expr) -> bool:
    """Whether a condition says that values of two tables are equal."""
    if not isinstance(tree, exp.EQ | exp.NullSafeEQ):
        return False
    a, b = aliases_in(tree.this), aliases_in(tree.expression)
    return bool(a) and bool(b) and a != b


def equal_columns(tree: exp.Select) -> tuple[list[tuple[str, str]], bool]:
    """Columns of both tables that a SELECT's join equates, and whether these are all it tests."""
    first, second = (one.alias_or_name for one in items_of(tree))
    keys: list[tuple[str, str]] = []
    conditions = conditions_of(tree.args["joins"][0])
    for one in conditions:
        names = {c.table: c.name for c in one.iter_expressions() if type(c) is exp.Column}
        if isinstance(one, exp.EQ) and names.keys() == {first, second}:
            keys.append((names[first], names[second]))
    return keys, len(keys) == len(conditions)


def existence_joined(select: exp.Select, tables: Collection[str]) -> exp.Select | None:
    """Write each EXISTS and IN (SELECT ...) of WHERE that compares more than keys as a join.

    In a copy, behind the other joins: WHERE tests their rows. Subqueries of one table, of
    ``tables``, whose conditions are of plain columns; and only where there is no other subquery.
    None if there is nothing to write so.
    """
    aliases = {one.alias_or_name for one in items_of(select)}
    joins: list[exp.Join] = []
    kept: list[exp.Expr] = []
    for one in conditions_of(select.args.get("where")):
        join = _existence_join(one, aliases, tables)
        if join is None:
            kept.append(one)
        else:
            joins.append(join)
            aliases.add(join.this.alias_or_name)
    items = [arg for key, arg in select.args.items() if key not in ("from_", "joins", "where")]
    remaining = [*expressions([*items, *(select.args.get("joins") or []), kept])]
    if not joins or any(one.find(exp.Query) for one in remaining):
        return None
    joined = select.copy()
    joined.set("joins", [*(joined.args.get("joins") or []), *joins])
    set_where(joined, [one.copy() for one in kept])
    return joined


def _existence_join(
    tree: exp.Expr, aliases: Collection[str], tables: Collection[str]
) -> exp.Join | None:
    """The join that a member of WHERE is, in a copy; None if it stays what it is."""
    is_not = False
    while isinstance(tree, exp.Not | exp.Paren):
        is_not ^= isinstance(tree, exp.Not)
        tree = tree.this
    query = tree.args.get("query") if isinstance(tree, exp.In) else tree.this
    select = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(tree, exp.Exists | exp.In) or not isinstance(select, exp.Select):
        return None
    clauses = {key for key, arg in select.args.items() if arg}
    source = select.args["from_"].this if "from_" in clauses else None
    if not isinstance(source, exp.Table) or clauses - {"expressions", "from_", "where"}:
        return None
    inner = source.alias_or_name
    conditions = conditions_of(select.args.get("where"))
    if isinstance(tree, exp.In):
        equal = exp.EQ(this=tree.this.copy(), expression=select.expressions[0].unalias().copy())
        if is_not or not all(type(one) is exp.Column for one in (equal.this, equal.expression)):
            return None
        conditions.append(equal)
    parts = [*select.expressions, *conditions]
    if any(one.find(exp.Query, exp.AggFunc, exp.Window, exp.Dot, exp.UDTF) for one in parts):
        return None
    is_known = source.name in tables and inner not in aliases
    if not is_known or any(aliases_in(one) - {*aliases, inner} for one in conditions):
        return None
    if not any(len(aliases_in(one)) > 1 and not equates(one) for one in conditions):
        return None
    kind = "ANTI" if is_not else "SEMI"
    return exp.Join(this=source.copy(), on=exp.and_(*conditions), side="LEFT", kind=kind)


_NEED_ALL = {"group": "GROUP BY", "distinct": "DISTINCT", "order": "ORDER BY", "limit": "LIMIT"}
_NEED_ALL |= {"offset": "OFFSET", "laterals": "LATERAL VIEW", "joins": "another join"}
_NEED_ALL |= {"qualify": "QUALIFY"}


def clauses_of_all(tree: exp.Select) -> list[str]:
    """Clauses that need all rows, without clauses of groups."""
    return [name for key, name in _NEED_ALL.items() if tree.args.get(key) and key not in _GROUPING]


_GROUPING = ("group", "distinct")


def is_row_by_row(tree: exp.Select) -> bool:
    """Whether a query of a subquery gives each of its rows at most once, by itself."""
    outer = tree.copy()
    outer.args["from_"].this.replace(exp.to_table("rows"))
    return not needs_all(outer)


def needs_all(tree: exp.Query) -> str:
    """Name a part of a query that is of several rows; empty if each row is used by itself."""
    if not isinstance(tree, exp.Select):
        return "UNION, INTERSECT or EXCEPT"
    if clauses := clauses_of_all(tree):
        # QUALIFY may stand for NEAREST, which a stream has: what is beside it says more.
        beside = clauses[0] == "QUALIFY" and tree.args.get("distinct")
        return _NEED_ALL["distinct"] if beside else clauses[0]
    kinds = {exp.Window: "a window function", exp.Explode: "explode", exp.Exists: "EXISTS"}
    kinds |= {exp.Subquery: "a subquery"}
    for kind, name in kinds.items():
        if tree.find(kind):
            return name
    for key in _GROUPING:
        if tree.args.get(key):
            return _NEED_ALL[key]
    return OF_GROUPS[1] if tree.find(exp.AggFunc) else ""


def takes_some(select: exp.Select) -> bool:
    """Whether some rows of FROM, in no order, may be enough: there is a LIMIT and nothing else."""
    needs_others = any(select.args.get(key) for key in ("group", "distinct", "order"))
    of_several = any(one.find(exp.AggFunc, exp.Window) for one in select.expressions)
    return bool(select.args.get("limit")) and not needs_others and not of_several


def merge(select: exp.Select) -> None:
    """Write groups of a subquery's rows as groups of the tables in it, if it is row by row."""
    source = select.args["from_"].this if select.args.get("from_") else None
    inner = source.this if isinstance(source, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or not select.args.get("group") or source is None:
        return
    alone = inner.copy()
    alone.set("joins", None)
    if needs_all(alone) or not inner.args.get("joins") or select.args.get("joins"):
        return
    if any(map(is_session, select.args["group"].expressions)):
        return
    put_items(select, source.alias, inner)
    set_where(
        select, [one for query in (inner, select) for one in conditions_of(query.args.get("where"))]
    )
    for clause in ("from_", "joins"):
        select.set(clause, inner.args.get(clause))


def calls_in(select: exp.Select) -> dict[str, exp.Expr]:
    """The sliding windows among the keys of a SELECT, each under a name."""
    group = select.args.get("group")
    calls: dict[str, exp.Expr] = {}
    for key in [] if group is None else group.expressions:
        call = key.this if isinstance(key, exp.Dot) else key
        if slides(call):
            calls.setdefault(in_spark(call), call)
    return {f"{SLIDING}{count}": call for count, call in enumerate(calls.values())}


def put_columns(select: exp.Select, calls: dict[str, exp.Expr], table: str) -> None:
    """Put columns of a table in the place of the columns, and calls, of the one that it is made of.

    Parameters
    ----------
    calls : mapping of str to expression
        As :func:`calls_in` gives them.
    """
    names = {in_spark(call): name for name, call in calls.items()}
    for one in list(select.find_all(exp.Anonymous)):
        if in_spark(one) in names:
            column = column_of(table, names[in_spark(one)])
            column.type = one.type
            one.replace(column)
    for column in select.find_all(exp.Column):
        column.set("table", exp.to_identifier(table, quoted=True))


def last_moment(column: exp.Column, time: exp.Expr) -> exp.Expr:
    """A value that rises with the windows in a column; of rows without one, their time."""
    end = field_of(column.copy(), "end")
    before = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="MICROSECOND"))
    return exp.Coalesce(this=exp.Sub(this=end, expression=before), expressions=[time])
