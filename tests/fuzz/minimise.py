"""Makes a failing case small: fewer rows, columns, conditions, select items, simpler values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.expr import FALSE, TRUE, E, integer
from tests.fuzz.query import Case, Query
from tests.fuzz.types import BOOL, INT

Fails = Callable[[Case], bool]


def minimise(case: Case, fails: Fails, seconds: float = 60.0) -> Case:
    """The smallest case found that still fails in the same way."""
    end = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for smaller in candidates(case):
            if time.monotonic() > end:
                break
            if still(smaller, fails):
                case, changed = smaller, True
                break
    return case


def still(case: Case, fails: Fails) -> bool:
    try:
        return fails(case)
    except (ValueError, KeyError, IndexError, TypeError):
        return False  # The change made no query.


def candidates(case: Case) -> Iterator[Case]:
    """Simpler cases, the boldest first."""
    yield from fewer_rows(case)
    for query in simpler_queries(case.query):
        yield replace(case, query=query)
    yield from fewer_columns(case)
    yield from simpler_values(case)


def fewer_rows(case: Case) -> Iterator[Case]:
    for side in (0,) if case.query.same else (0, 1):
        rows = case.rows[side]
        size = len(rows)
        while size:
            for start in range(0, len(rows), size):
                kept = rows[:start] + rows[start + size :]
                yield case.with_rows(side, kept)
            size //= 2


def without(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for i in range(len(items)):
        yield items[:i] + items[i + 1 :]


def simpler_queries(query: Query) -> Iterator[Query]:
    for side in (0, 1):
        for layers in without(query.layers[side]):
            both = (layers, query.layers[1]) if side == 0 else (query.layers[0], layers)
            yield replace(query, layers=both)
    for on in without(query.on):
        if on or query.join == "comma":
            yield replace(query, on=on)
    for where in without(query.where):
        yield replace(query, where=where)
    if query.having is not None:
        yield replace(query, having=None)
    if query.select is not None and len(query.select) > 1:
        for select in without(query.select):
            yield replace(query, select=select)
    for i in reversed(range(len(query.group))):
        used = {e.value for item, _ in query.select or () for e in item.walk() if e.op == "key"}
        if i == len(query.group) - 1 and i not in used:
            yield replace(query, group=query.group[:i])
    if query.join not in ("inner",):
        yield replace(query, join="inner")
    if query.within is not None:
        yield replace(query, within=None)
    yield from simpler_expressions(query)


def simpler_expressions(query: Query) -> Iterator[Query]:
    """Queries with one node of one expression replaced by something simpler."""
    for i, e in enumerate(query.on):
        for new in simpler(e):
            yield replace(query, on=(*query.on[:i], new, *query.on[i + 1 :]))
    for i, e in enumerate(query.where):
        for new in simpler(e):
            yield replace(query, where=(*query.where[:i], new, *query.where[i + 1 :]))
    if query.having is not None:
        for new in simpler(query.having):
            yield replace(query, having=new)
    for i, (e, name) in enumerate(query.select or ()):
        for new in simpler(e):
            items = query.select or ()
            yield replace(query, select=(*items[:i], (new, name), *items[i + 1 :]))
    for i, key in enumerate(query.group):
        for new in simpler(key):
            if new.sides():
                yield rekeyed(query, i, new)
    for side in (0, 1):
        for at, layer in enumerate(query.layers[side]):
            if layer.where is None:
                continue
            for new in simpler(layer.where):
                layers = list(query.layers[side])
                layers[at] = replace(layer, where=new)
                both = list(query.layers)
                both[side] = tuple(layers)
                yield replace(query, layers=(both[0], both[1]))


def rekeyed(query: Query, at: int, key: E) -> Query:
    """The query with another expression as one key of its groups."""

    def change(e: E) -> E | None:
        return E("key", (key,), key.type, at) if e.op == "key" and e.value == at else None

    select = tuple((e.map(change), name) for e, name in query.select or ())
    having = None if query.having is None else query.having.map(change)
    group = (*query.group[:at], key, *query.group[at + 1 :])
    return replace(query, group=group, select=select, having=having)


def simpler(e: E) -> Iterator[E]:
    """Expressions of the same type with one node less, or with a constant for a node."""
    if e.op in ("lit", "key"):
        return
    if e.op == "col":
        return
    if e.type == BOOL:
        yield from (TRUE, FALSE)
    elif e.type == INT and e.op not in ("param", "agg", "window"):
        yield integer(1)
    for arg in e.args:
        if arg.type == e.type and e.op != "agg":
            yield arg
    if e.op in ("window", "window_start", "window_end", "agg") and not e.args:
        return
    for i, arg in enumerate(e.args):
        for new in simpler(arg):
            yield replace(e, args=(*e.args[:i], new, *e.args[i + 1 :]))


def fewer_columns(case: Case) -> Iterator[Case]:
    query = case.query
    for side in (0, 1):
        if query.layers[side] or query.select is None or query.same:
            continue
        used = {e.value for whole in query.expressions() for e in whole.walk() if e.op == "col"}
        for i, column in enumerate(query.columns[side]):
            if column.name == "t" or (side, column.name) in used:
                continue
            columns = list(query.columns)
            columns[side] = columns[side][:i] + columns[side][i + 1 :]
            rows = tuple(row[:i] + row[i + 1 :] for row in case.rows[side])
            smaller = case.with_rows(side, rows)
            yield replace(smaller, query=replace(query, columns=(columns[0], columns[1])))


def simpler_values(case: Case) -> Iterator[Case]:
    for side in (0, 1):
        for at, row in enumerate(case.rows[side]):
            for i, x in enumerate(row):
                for new in simpler_value(x):
                    changed = (*row[:i], new, *row[i + 1 :])
                    rows = case.rows[side]
                    yield case.with_rows(side, (*rows[:at], changed, *rows[at + 1 :]))


def simpler_value(x: Any) -> Iterator[Any]:
    if isinstance(x, bool) or x is None or x in (0, 1):
        return
    if isinstance(x, (int, float)):
        yield type(x)(0)
        yield type(x)(1)
    elif len(x) > 1:
        yield x[:1]
