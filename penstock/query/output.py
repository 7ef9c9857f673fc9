"""The output of a SELECT: its columns and their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlglot import exp

from ..expr.node import Expr
from .dialect import refused
from .expressions import Lowering
from .scope import Scope, Source


def output_name(item: exp.Expr) -> str:
    """The name of an output column: its alias, that of a column, or the expression."""
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
    for item in tree.expressions:
        if is_star(item):
            out += _expand(scope, item)
            continue
        value = item.unalias()
        if isinstance(value, exp.AggFunc):
            raise refused("aggregates are not supported in a subquery in FROM", item)
        out.append((output_name(item), lowering.value(value)))
    check_output(out, tree)
    return tuple(out)


def _expand(scope: Scope, item: exp.Expr) -> list[tuple[str, Expr]]:
    """Columns of ``*`` or ``table.*``; a name that both sides have gets the alias in front."""
    if isinstance(item, exp.Star) and any(item.args.values()):
        raise refused("* takes no EXCEPT or REPLACE; list the columns", item)
    sources: Sequence[Source] = scope.sources
    if isinstance(item, exp.Column) and item.table:
        source = scope.source(item.table)
        if source is None:
            raise refused(scope.unknown(item.table, "*"), item)
        sources = (source,)
    seen = Counter(c.lower() for s in sources for c in s.columns)
    return [
        (name if seen[name.lower()] == 1 else f"{s.alias}_{name}", column)
        for s in sources
        for name, column in s.columns.items()
    ]
