"""Finds the keys by which rows of a query can be dealt to lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import UsageError
from penstock.plan.query import JoinQuery
from penstock.plan.routing_keys import RoutingKeys, group_keys, routing_keys

#: Columns of the key of each side, by side: the argument ``keys`` of a call.
Wanted = tuple[tuple[str, frozenset[str]], ...]


def wanted_keys(query: JoinQuery, keys: Mapping[str, str | Sequence[str]] | None) -> Wanted | None:
    """The argument ``keys`` of a call: a column or columns by alias or table of each side.

    Raises
    ------
    UsageError
        A side is missing, or named that the query does not have.
    """
    if keys is None:
        return None
    if not isinstance(keys, Mapping):
        raise UsageError(f"keys has columns by alias, as in keys={{{query.left.alias!r}: 'user'}}")
    columns_of = {
        name.lower(): (key,) if isinstance(key, str) else tuple(key) for name, key in keys.items()
    }
    wanted = []
    for side in query.sides:
        name = next((n for n in (side.alias.lower(), side.table.lower()) if n in columns_of), None)
        columns = () if name is None else columns_of.pop(name)
        if not columns:
            raise UsageError(
                f"keys has no column of {side.alias}; give one of each side, as in "
                f"keys={{{query.left.alias!r}: 'user', {query.right.alias!r}: 'user'}}"
            )
        wanted.append((side.side, frozenset(columns)))
    if columns_of:
        aliases = " and ".join(side.alias for side in query.sides)
        raise UsageError(f"keys names {next(iter(columns_of))}, but the query joins {aliases}")
    return tuple(wanted)


def find_keys(
    query: JoinQuery, wanted: Wanted | None, *, stepwise: bool = False
) -> RoutingKeys | None:
    """The keys of a query, over the wanted columns if there are any; None if it has none.

    In steps, the keys of its groups stand in where the condition has none that will do.
    """
    keys = routing_keys(query.predicate, None if wanted is None else dict(wanted))
    if not stepwise or wanted is not None:
        return keys
    if keys is not None and _why_not_stepwise(query, keys) is None:
        return keys
    return group_keys(query) or keys


def why_not_by_keys(
    query: JoinQuery, wanted: Wanted | None, *, stepwise: bool = False
) -> str | None:
    """Why a query's rows cannot be dealt by keys, in batch or in steps; None if they can be."""
    if query.is_rows:
        return "places in a ROWS window count rows of all keys"
    if query.nearest is not None:
        return "each left row is compared with all right rows"
    keys = find_keys(query, wanted, stepwise=stepwise)
    if keys is not None:
        return _why_not_stepwise(query, keys) if stepwise else None
    if wanted is not None:
        shown = [
            ", ".join(f"{query.names[side]}.{name}" for name in sorted(key)) for side, key in wanted
        ]
        return f"no conjunct of its condition ties {shown[0]} to {shown[1]} alone"
    left, right = query.left.alias, query.right.alias
    return (
        f"no conjunct of its condition has the form `f({left}) = g({right})`, with columns of one "
        f"side on each side of =, or keeps two numbers close, as `abs({left}.x - {right}.x) < 5`"
    )


def _why_not_stepwise(query: JoinQuery, keys: RoutingKeys) -> str | None:
    """Why a stream's aggregates would differ from whole tables'; None if they are the same."""
    if query.aggregation is None:
        return None
    first = next((one for one in query.aggregation.aggregates if one.by is not None), None)
    if first is None or (keys.band is None and keys.are_keys_of_groups(query)):
        return None
    lanes = "other keys than those of its groups" if keys.band is None else "ranges"
    return f"{first.text} decides ties by the order of rows, which {lanes} do not keep"


def require_keys(query: JoinQuery, wanted: Wanted | None, *, stepwise: bool = False) -> None:
    """Refuse a query whose rows cannot be dealt by keys.

    Raises
    ------
    UsageError
    """
    why = why_not_by_keys(query, wanted, stepwise=stepwise)
    if why is not None:
        has_none = not query.is_rows and find_keys(query, wanted, stepwise=stepwise) is None
        remedy = "add one with AND, or " if has_none else ""
        raise UsageError(
            f"rows cannot be dealt to lanes by keys, since {why}; {remedy}leave partitioning and "
            "keys out"
        )
