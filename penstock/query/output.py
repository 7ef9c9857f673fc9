"""The output of a SELECT: its columns and their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlglot import exp

from ..expr.node import Expr
from .dialect import beyond, mistaken, refused
from .expressions import Lowering
from .scope import Scope, Source


def output_name(item: exp.Expr) -> str:
    """The name of an output column: its alias, its column's name, or the expression."""
    value = item.unalias()
    return item.alias or (value.name if isinstance(value, exp.Column) else value.sql("spark"))


def is_star(item: exp.Expr) -> bool:
    """Whether an output column is ``*`` or ``table.*``."""
    return isinstance(item.this if isinstance(item, exp.Column) else item, exp.Star)


def check_output(select: Sequence[tuple[str, Expr]], tree: exp.Select) -> None:
    """Refuse an output with two columns of one name."""
    for name, count in Counter(name for name, _ in select).items():
        if count > 1:
            raise refused(f"the output has two columns named {name}; rename one with AS", tree)


def select_columns(
    tree: exp.Select, lowering: Lowering, scope: Scope
) -> tuple[tuple[str, Expr], ...]:
    """Names and expressions of the output columns of a SELECT without groups."""
    out: list[tuple[str, Expr]] = []
    #: Of columns that are selected as they are: the alias of their source.
    owners: dict[int, str] = {}
    for item in tree.expressions:
        if is_star(item):
            out += _expand(scope, item)
            continue
        value = item.unalias()
        if isinstance(value, exp.AggFunc):
            raise beyond("aggregates are not supported in a subquery in FROM", item)
        source = scope.source(item.table) if isinstance(item, exp.Column) else None
        if source is not None:
            owners[len(out)] = source.alias
        out.append((output_name(item), lowering.value(value)))
    count = Counter(name.lower() for name, _ in out)
    for place, alias in owners.items():
        name, value = out[place]
        if count[name.lower()] > 1:
            out[place] = f"{alias}_{name}", value
    check_output(out, tree)
    return tuple(out)


def _expand(scope: Scope, item: exp.Expr) -> list[tuple[str, Expr]]:
    """Columns of ``*`` or ``table.*``; a name that both sides have gets the alias in front."""
    star = item.this if isinstance(item, exp.Column) else item
    if any(part for key, part in star.args.items() if key != "except_"):
        raise refused("* takes no REPLACE or RENAME; list the columns", item)
    sources: Sequence[Source] = scope.sources
    if isinstance(item, exp.Column) and item.table:
        source = scope.source(item.table)
        if source is None:
            raise refused(scope.unknown(item.table, "*"), item)
        sources = (source,)
    merged = scope.merged if isinstance(item, exp.Star) else {}
    left_out = [_left_out(one, sources) for one in star.args.get("except_") or []]
    kept = [
        (s, name, column)
        for s in sources
        for name, column in s.columns.items()
        if not any(name.lower() == hidden and s.alias in aliases for hidden, aliases in left_out)
        and name.lower() not in map(str.lower, merged)
    ]
    seen = Counter(name.lower() for _, name, _ in kept)
    names = [hidden for hidden, _ in left_out]
    return [(name, column) for name, column in merged.items() if name.lower() not in names] + [
        (name if seen[name.lower()] == 1 else f"{s.alias}_{name}", column)
        for s, name, column in kept
    ]


def _left_out(item: exp.Expr, sources: Sequence[Source]) -> tuple[str, set[str]]:
    """The column that EXCEPT leaves out, and the sources that have it."""
    scope = Scope(tuple(sources))
    table = item.text("table")
    candidates = sources if not table else [s for s in (scope.source(table),) if s]
    aliases = {s.alias for s in candidates if s.find(item.name) is not None}
    if not aliases:
        raise mistaken(scope.unknown(table or None, item.name), item)
    return item.name.lower(), aliases
