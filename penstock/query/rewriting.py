"""Rewrites of shorthand in a query: WITH as subqueries, EXISTS and IN (SELECT ...) as joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp

from . import nodes
from .dialect import ROWS, beyond, refused
from .operators import members
from .scope import Source, is_star

#: Reads an item of FROM.
Read = Callable[[exp.Expr], Source]
#: Nodes of a query whose WITH is written in full, at most: each use of a query is one of it.
_MOST_NODES = 100_000


def without_with(tree: exp.Expr) -> exp.Expr:
    """Put each query of WITH where its name stands in FROM, in a copy.

    Raises
    ------
    QueryError
        It is recursive, or names other columns than it has.
    """
    if tree.args.get("with_") is None:
        return tree
    tree = tree.copy()
    clause = tree.args["with_"]
    if clause.args.get("recursive"):
        raise refused("WITH RECURSIVE is not supported; a query cannot read itself", clause)
    known: dict[str, exp.Expr] = {}
    sizes: dict[str, int] = {}
    for one in clause.expressions:
        if names := one.args["alias"].args.get("columns"):
            _name(one.this, names, one)
        body = without_with(one.this)
        sizes[one.alias.lower()] = _size(body, sizes)
        known[one.alias.lower()] = _inlined(body, known)
    tree.set("with_", None)
    _size(tree, sizes)
    return _inlined(tree, known)


def _size(tree: exp.Expr, sizes: Mapping[str, int]) -> int:
    """Count the nodes of a query and of the queries that it names; refuse too many."""
    nodes = list(tree.walk())
    tables = [node.name.lower() for node in nodes if isinstance(node, exp.Table)]
    size = len(nodes) + sum(sizes.get(name, 0) for name in tables)
    if size > _MOST_NODES:
        raise refused("queries of WITH are read too often; compute one of them before", tree)
    return size


def _inlined(tree: exp.Expr, known: dict[str, exp.Expr]) -> exp.Expr:
    """Put queries in the place of their names, in the tree itself; a second use is a copy."""
    for table in list(tree.find_all(exp.Table)):
        body = known.get(table.name.lower())
        if body is None or table.args.get("db"):
            continue
        name = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        is_used = isinstance(body.parent, exp.Subquery)
        inlined = exp.Subquery(this=body.copy() if is_used else body, alias=name.copy())
        if ROWS in table.meta:
            inlined.meta[ROWS] = table.meta[ROWS]
        table.replace(inlined)
    return tree


def with_column_names(tree: exp.Expr, schemas: Mapping[str, pa.Schema]) -> exp.Expr:
    """Write ``FROM s AS s(a, b)`` as a subquery whose columns have these names, in the tree itself.

    Raises
    ------
    QueryError
        The number of columns is another one, or is not known.
    """
    for alias in list(tree.find_all(exp.TableAlias)):
        names, item = alias.args.get("columns"), alias.parent
        if not names or not isinstance(item, exp.Table | exp.Subquery):
            continue
        alias.set("columns", None)
        if isinstance(item, exp.Subquery):
            _name(item.this, names, item)
            continue
        known = {name.lower(): schema for name, schema in schemas.items()}
        schema = known.get(item.name.lower(), known.get(item.alias.lower()))
        if schema is None:
            continue  # an unknown table, which is refused by its name
        columns = [exp.column(name, table=item.alias, quoted=True) for name in schema.names]
        select = exp.Select(expressions=columns)
        _name(select, names, item)
        subquery = exp.Subquery(this=select, alias=alias.copy())
        item.replace(subquery)
        select.set("from_", exp.From(this=item))
    return tree


def _name(query: exp.Expr, names: list[exp.Expr], whole: exp.Expr) -> None:
    """Give the output columns of a query names, in their order."""
    if not isinstance(query, exp.Select) or any(map(is_star, query.expressions)):
        raise refused(
            "names behind an alias need a SELECT that lists its columns; list them, or use AS",
            whole,
        )
    if len(names) != len(query.expressions):
        raise refused(
            f"the alias has {len(names)} names for {len(query.expressions)} columns", whole
        )
    items = zip(query.expressions, names, strict=True)
    query.set("expressions", [exp.Alias(this=one.unalias(), alias=name) for one, name in items])


def without_filters(tree: exp.Expr) -> exp.Expr:
    """Write ``sum(x) FILTER (WHERE c)`` as ``sum(CASE WHEN c THEN x END)``, in a copy.

    The same for all aggregates that skip NULL.
    """
    if tree.find(exp.Filter) is None:
        return tree
    tree = tree.copy()
    for filtered in list(tree.find_all(exp.Filter)):
        call, condition = filtered.this, filtered.expression.this
        if not isinstance(call, _SKIP_NULL) or call.args.get("expressions"):
            continue
        if isinstance(call, exp.ArgMax | exp.ArgMin):  # rows without an order are left out
            by = exp.Case(ifs=[exp.If(this=condition.copy(), true=call.expression.copy())])
            filtered.replace(type(call)(this=call.this.copy(), expression=by))
            continue
        argument = call.this
        is_distinct = isinstance(argument, exp.Distinct)
        value = argument.expressions[0] if is_distinct else argument
        if is_distinct and len(argument.expressions) > 1:
            continue
        value = exp.Literal.number(1) if isinstance(value, exp.Star) else value
        chosen = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
        replacement = exp.Distinct(expressions=[chosen]) if is_distinct else chosen
        filtered.replace(type(call)(this=replacement))
    return tree


_SKIP_NULL = (
    *(exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.ArgMin, exp.ArgMax),
    *(exp.StddevSamp, exp.StddevPop, exp.Stddev),
)


def existence_as_join(tree: exp.Select, read: Read) -> exp.Select:
    """Make a LEFT SEMI or LEFT ANTI JOIN of an EXISTS or IN (SELECT ...) in WHERE, in a copy.

    Parameters
    ----------
    read : callable
        Reads an item of FROM, for the columns that it has.

    Raises
    ------
    QueryError
        There are two of them, or the query joins already, or the subquery cannot be a join.
    """
    where = tree.args.get("where")
    if where is None or not any(map(_existence_test, members(where.this))):
        return tree
    if not tree.args.get("from_"):
        raise beyond(
            "EXISTS and IN (SELECT ...) are joined with a table, and FROM is missing", tree
        )
    tree = tree.copy()
    every = members(tree.args["where"].this)
    tests = [test for member in every if (test := _existence_test(member))]
    if len(tests) > 1 or tree.args.get("joins"):
        raise beyond(
            "one EXISTS or IN (SELECT ...) beside one table can be joined; join the first in a "
            "query of its own, and give its result as the table",
            tests[-1][1],
        )
    ((is_not, call),) = tests
    select = call.this
    if isinstance(call, exp.In):
        nodes.check(call.args["query"], frozenset({"this"}), "IN (SELECT ...)")
        select = call.args["query"].this
    if not isinstance(select, exp.Select) or select.args.get("joins"):
        raise beyond("EXISTS and IN take a SELECT of one table", call)
    nodes.check(select, nodes.OF_SELECT | {"distinct"}, "EXISTS or IN (SELECT ...)")
    if any(one.find(exp.AggFunc) for one in select.expressions):  # they give a row in any case
        raise beyond("EXISTS and IN take a SELECT of rows, not of their aggregates", call)
    outer, inner = tree.args["from_"].this, select.args.get("from_")
    if inner is None:
        raise beyond("a subquery needs FROM", select)
    sources = read(outer), read(inner.this)
    inner_where = select.args.get("where")
    conditions = [] if inner_where is None else [inner_where.this]
    if isinstance(call, exp.In):
        conditions.append(_equal(call, select, sources, is_not=is_not))
    for condition in conditions:
        _qualify(condition, (sources[1], sources[0]))
    remaining = [one for one in every if not _existence_test(one)]
    for other in remaining:
        _qualify(other, sources[:1])
    on = exp.and_(*conditions, copy=False) if conditions else exp.true()
    tree.set(
        "joins", [exp.Join(this=inner.this, on=on, side="LEFT", kind=("SEMI", "ANTI")[is_not])]
    )
    tree.set("where", exp.Where(this=exp.and_(*remaining, copy=False)) if remaining else None)
    return tree


def _equal(
    call: exp.In, select: exp.Select, sources: tuple[Source, Source], *, is_not: bool
) -> exp.Expr:
    """The condition of IN: its value equals the one that the SELECT gives."""
    if len(select.expressions) != 1:
        raise refused("IN takes a SELECT of one column", select)
    value, selected = call.this, select.expressions[0].unalias()
    _qualify(value, sources[:1])
    _qualify(selected, sources[::-1])
    if is_not:
        for side, one in zip(sources, (value, selected), strict=True):
            column = side.find(one.name) if isinstance(one, exp.Column) else None
            if column is None or column.type.nullable:
                raise beyond(
                    "NOT IN gives no row at all if one of the values is NULL, which is hardly "
                    "meant: write NOT EXISTS (SELECT ... WHERE ... = ...), or say that both "
                    "columns are never NULL, in the schema",
                    call,
                )
    return exp.EQ(this=value, expression=selected)


def _qualify(tree: exp.Expr, sources: tuple[Source, ...]) -> None:
    """Give columns the name of the first of these sources that has them."""
    for column in tree.find_all(exp.Column):
        if not column.table and not isinstance(column.this, exp.Star):
            owner = next((s for s in sources if s.find(column.name) is not None), None)
            if owner is not None:
                column.set("table", exp.to_identifier(owner.alias))


def _existence_test(tree: exp.Expr) -> tuple[bool, exp.Expr] | None:
    """Find an EXISTS or IN (SELECT ...), and whether it is under NOT; None if it is neither."""
    is_not = False
    while isinstance(tree, exp.Not | exp.Paren):
        is_not ^= isinstance(tree, exp.Not)
        tree = tree.this
    is_test = isinstance(tree, exp.Exists) or (isinstance(tree, exp.In) and tree.args.get("query"))
    return (is_not, tree) if is_test else None
