"""Relations as of the versions, or times, that a query names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from penstock.errors import FileError, QueryError
from penstock.expr.columns import evaluate
from penstock.query.dialect import SPAN, refused, snippet
from penstock.query.expressions import Lowering
from penstock.query.options import QueryOptions
from penstock.query.parse import tree_of, with_room
from penstock.query.scope import Scope
from penstock.query.sources import table_of
from penstock.query.time_rules import TimeRules
from penstock.types import TIMES, UNIT_NS, Kind
from penstock.zones import zone_of

from ...relation import open_folder, server_of
from .relation_source import RelationTable, relations_of

T = TypeVar("T")

#: Words that such a clause has; looked for before a text is parsed once more.
_OF = re.compile(r"\b(?:OF|FOR)\b", re.IGNORECASE)


def at_versions(
    query: str, tables: Mapping[str, T], options: QueryOptions
) -> tuple[str, Mapping[str, T | RelationTable]]:
    """Fix relations at the versions that a query names by AS OF.

    Returns
    -------
    (str, mapping of str to table)
        The query with spaces in the place of these clauses, and the tables. A clause of a
        table that is no relation stays, and is refused by whoever reads the query.

    Raises
    ------
    QueryError
        It is not SQL, a version is not a constant, the relation has none, or several are named.
    FileError
        A version is gone, or never was there; or the relation cannot be read.
    """
    relations = relations_of(tables)
    if not relations or not isinstance(query, str) or not _OF.search(query):
        return query, tables
    tree = with_room(lambda: tree_of(query), query)
    parts = {one.alias.lower() for one in tree.find_all(exp.CTE)}
    fixed: dict[str, RelationTable] = {}
    text = query
    for table in tree.find_all(exp.Table):
        try:
            name = table_of(table, tables)
        except QueryError:
            continue  # who reads the query says so
        if name not in relations or table.name.lower() in parts:
            continue
        clause = table.args.get("version")
        at = relations[name] if clause is None else _at(relations[name], clause, options)
        if fixed.setdefault(name, at).version != at.version:
            raise refused(
                f"{name} is read as of several versions; give the relation under a name for each",
                table,
            )
        if clause is not None:
            first, last = clause.meta[SPAN]
            blank = re.sub(r"[^\n]", " ", text[first : last + 1])
            text = text[:first] + blank + text[last + 1 :]
    return text, {**tables, **fixed}


def _at(table: RelationTable, clause: exp.Version, options: QueryOptions) -> RelationTable:
    """Return a relation fixed at the version that a clause names."""
    words = snippet(clause)
    if (server := server_of(table.location)) is not None:
        raise refused(
            f"{table.shown} is a table in {server.kind}, which has no versions: leave that out, or "
            "store copies with `penstock relation build`",
            clause,
        )
    number, time_us = _constant(clause, words, options)
    with closing(open_folder(table.location, "has no versions")) as stored:
        try:
            if time_us is not None:
                number = stored.number_at(time_us)
            stored.version(number)
        except FileError as error:
            raise FileError(f"{words}: {error}") from error
    return replace(table, version=number)


def _constant(
    clause: exp.Version, words: str, options: QueryOptions
) -> tuple[int | None, int | None]:
    """Return the number of a version, or microseconds of Unix time; the other one is None."""
    if clause.args["kind"] != "AS OF" or clause.expression is None:
        raise refused("one version of a relation is read: write AS OF", clause)
    params = options.params or {}
    for column in clause.expression.find_all(exp.Column):
        if column.table or column.name not in params:
            raise refused(
                f"AS OF takes a constant, and {snippet(column)} is a column: a row of a relation "
                "that was valid at the time of a row is found by a condition on its times",
                clause,
            )
    rules = TimeRules(zone_of("UTC" if options.time_zone is None else options.time_zone))
    lowering = Lowering(Scope(()), params, {}, rules)
    value = lowering.lower(clause.expression)
    if clause.name == "VERSION":
        number = str(evaluate(value)).strip()
        is_number = value.type.kind in (Kind.INT, Kind.STRING)
        if not is_number or not re.fullmatch("[0-9]{1,18}", number):
            raise refused(f"{words}: a version is a whole number", clause)
        return int(number), None
    if value.type.kind is Kind.STRING:
        to = exp.DataType(this=exp.DataType.Type.TIMESTAMPTZ)
        value = lowering.lower(exp.Cast(this=clause.expression.copy(), to=to))
    instant = rules.instant(value) if value.type.kind in TIMES else None
    time = None if instant is None else evaluate(instant)
    if instant is None or time is None:
        raise refused(f"{words}: that is no time, such as '2024-05-06 07:08:09'", clause)
    return None, time * UNIT_NS[instant.type.unit] // UNIT_NS["us"]
