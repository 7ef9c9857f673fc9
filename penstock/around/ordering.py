"""The order of a chain of joins: by how many pairs each has in its window, relations last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import combinations
from math import inf

from sqlglot import exp

from .sides import aliases_in, conditions_of, is_closed, items_of, kind_of

#: Says how many pairs two items of FROM have under some conditions; None if it is not known.
Estimate = Callable[[exp.Expr, exp.Expr, list[exp.Expr]], int | None]


def order_joins(select: exp.Select, estimate: Estimate) -> None:
    """Put the joins of a SELECT with the fewest pairs first, if all are inner joins.

    Items whose pairs are not known keep their place behind the others.
    """
    joins = select.args.get("joins") or []
    items = _items(select)
    if len(joins) < 2 or len(items) <= len(joins) or not all(map(_is_inner, joins)):
        return
    if not all(map(is_closed, items.values())):
        return
    conditions = [one for join in joins for one in conditions_of(join)]
    if any(one.find(exp.Query) for one in conditions):
        return
    pairs: dict[frozenset[str], int] = {}
    for a, b in combinations(items, 2):
        between = [one for one in conditions if aliases_in(one) <= {a, b}]
        meet = any(aliases_in(one) == {a, b} for one in between)
        if meet and (count := estimate(items[a], items[b], between)) is not None:
            pairs[frozenset((a, b))] = count
    if len(pairs) < 2:
        return
    _reorder(select, items, list(_ordered(list(items), pairs)))


def relations_last(select: exp.Select, relations: Collection[str]) -> None:
    """Join what comes as rows first, and look up relations for the rows that this gives.

    Where the joins are not all inner joins, those with relations follow others that do not read
    their columns, since what is left as it is, or given a NULL, is the same then.
    """
    joins = select.args.get("joins") or []
    items = _items(select)
    lookups = [
        name for name, one in items.items() if isinstance(one, exp.Table) and one.name in relations
    ]
    if not lookups or len(lookups) == len(items) or len(items) <= len(joins):
        return
    if all(map(_is_inner, joins)) and all(map(is_closed, items.values())):
        if not any(one.find(exp.Query) for join in joins for one in conditions_of(join)):
            _reorder(select, items, sorted(items, key=lambda name: name in lookups))
        return
    kept_joins = [join for join in joins if join.this.alias_or_name not in lookups]
    is_read = any(aliases_in(join) & set(lookups) for join in kept_joins)
    kept = all(str(join.side or "").upper() in ("", "LEFT") for join in joins)
    if kept and not is_read and select.args["from_"].this.alias_or_name not in lookups:
        moved = [join for join in joins if join.this.alias_or_name in lookups]
        select.set("joins", [*kept_joins, *moved])


def _items(select: exp.Select) -> dict[str, exp.Expr]:
    """Items of FROM by alias."""
    return {one.alias_or_name: one for one in items_of(select)}


def _reorder(select: exp.Select, items: dict[str, exp.Expr], order: list[str]) -> None:
    """Put the inner joins of a SELECT in an order, each condition where all it reads is there."""
    if order == list(items):
        return
    left = [one for join in select.args["joins"] for one in conditions_of(join)]
    select.set("from_", exp.From(this=items[order[0]]))
    reordered = []
    for place, name in enumerate(order[1:], 1):
        known = set(order[: place + 1])
        on = [one for one in left if aliases_in(one) <= known]
        left = [one for one in left if not aliases_in(one) <= known]
        reordered.append(exp.Join(this=items[name], on=exp.and_(*on) if on else exp.true()))
    select.set("joins", reordered)


def _ordered(names: list[str], pairs: dict[frozenset[str], int]) -> Iterator[str]:
    """Yield the two tables with the fewest pairs, then the next with the fewest, and so on."""
    first = min(pairs, key=lambda both: pairs[both])
    done = [name for name in names if name in first]
    yield from done

    def fewest(name: str) -> float:
        return min((pairs.get(frozenset((name, one)), inf) for one in done), default=inf)

    while left := [name for name in names if name not in done]:
        done.append(min(left, key=fewest))
        yield done[-1]


def _is_inner(join: exp.Join) -> bool:
    return not kind_of(join) and not join.args.get("using")
