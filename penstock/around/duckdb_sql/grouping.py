"""Clauses of GROUP BY."""

from __future__ import annotations

from sqlglot import exp

from ...query.dialect import refused


def name_keys(select: exp.Select) -> None:
    """Give ``grouping_id()`` without arguments all keys, as Spark has it."""
    group = select.args.get("group")
    for call in select.find_all(exp.GroupingId):
        if call.expressions or call.find_ancestor(exp.Select) is not select:
            continue
        if group is None:
            raise refused("grouping_id() is for GROUP BY ROLLUP, CUBE or GROUPING SETS", call)
        every = [*group.expressions, *group.args.get("rollup", ()), *group.args.get("cube", ())]
        for one in every:
            keys = one.expressions if isinstance(one, exp.Rollup | exp.Cube) else [one]
            for key in keys:
                call.append("expressions", key.copy())


def pivot(tree: exp.Pivot) -> exp.Expr:
    raise refused("PIVOT is not supported; write count(*) FILTER (WHERE k = 1) AS k1, ...", tree)
