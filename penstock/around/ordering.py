"""The order of a chain of inner joins, by how many pairs each has in its window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import inf

from sqlglot import exp

from ..query.operators import members
from .sides import aliases_in, is_closed

#: Says how many pairs two items of FROM have under some conditions; None if it is not known.
Estimate = Callable[[exp.Expr, exp.Expr, list[exp.Expr]], int | None]


def order_joins(select: exp.Select, estimate: Estimate) -> None:
    """Put the joins of a SELECT with the fewest pairs first, if all are inner joins.

    Items whose pairs are not known keep their place behind the others.
    """
    joins = select.args.get("joins") or []
    items = {
        one.alias_or_name: one for one in (select.args["from_"].this, *(j.this for j in joins))
    }
    if len(joins) < 2 or len(items) <= len(joins) or not all(map(_is_inner, joins)):
        return
    if not all(map(is_closed, items.values())):
        return
    conditions = [one for join in joins for one in _conditions(join)]
    if any(one.find(exp.Query) for one in conditions):
        return
    pairs: dict[frozenset[str], int] = {}
    for a, b in combinations(items, 2):
        own = [one for one in conditions if aliases_in(one) <= {a, b}]
        meet = any(aliases_in(one) == {a, b} for one in own)
        if meet and (count := estimate(items[a], items[b], own)) is not None:
            pairs[frozenset((a, b))] = count
    if len(pairs) < 2:
        return
    order = list(_ordered(list(items), pairs))
    if order == list(items):
        return
    select.set("from_", exp.From(this=items[order[0]]))
    made, left = [], conditions
    for place, name in enumerate(order[1:], 1):
        known = set(order[: place + 1])
        on = [one for one in left if aliases_in(one) <= known]
        left = [one for one in left if not aliases_in(one) <= known]
        made.append(exp.Join(this=items[name], on=exp.and_(*on) if on else exp.true()))
    select.set("joins", made)


def _ordered(names: list[str], pairs: dict[frozenset[str], int]) -> Iterator[str]:
    """The pair with the fewest pairs, then what has the fewest with one before it."""
    first = min(pairs, key=lambda both: pairs[both])
    done = [name for name in names if name in first]
    yield from done

    def fewest(name: str) -> float:
        return min((pairs.get(frozenset((name, one)), inf) for one in done), default=inf)

    while left := [name for name in names if name not in done]:
        done.append(min(left, key=fewest))
        yield done[-1]


def _is_inner(join: exp.Join) -> bool:
    words = {str(join.args.get(key) or "").upper() for key in ("method", "side", "kind")}
    return words <= {"", "INNER", "CROSS"} and not join.args.get("using")


def _conditions(join: exp.Join) -> list[exp.Expr]:
    return members(join.args["on"]) if join.args.get("on") else []
