"""Look up names in a query: sources and their columns, and the columns that a SELECT gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sqlglot import exp

from ..errors import QueryError
from ..expr.node import Expr, Op, walk
from .dialect import beyond, refused

if TYPE_CHECKING:
    from .expressions import Lowering


@dataclass(frozen=True)
class Source:
    """A table or subquery in FROM.

    Parameters
    ----------
    alias : str
        Name by which columns are qualified.
    table : str
        The base table that feeds it.
    columns : mapping of str to Expr
        Expression of each visible column, over columns of the base table.
    filter : Expr
        Condition from subqueries below, TRUE if none.
    rows : int or None
        From ``[ROWS n]``.
    """

    alias: str
    table: str
    columns: Mapping[str, Expr]
    filter: Expr
    rows: int | None = None

    def find(self, name: str) -> Expr | None:
        """Find a column by name; upper and lower case count as equal, as in Spark."""
        if name in self.columns:
            return self.columns[name]
        alike = [c for c in self.columns if c.lower() == name.lower()]
        if len(alike) > 1:
            raise QueryError(f"column {name} of {self.alias} may be any of {', '.join(alike)}")
        return self.columns[alike[0]] if alike else None


@dataclass(frozen=True)
class Scope:
    """The sources that an expression can name.

    Parameters
    ----------
    sources : tuple of Source
    units : mapping of Expr to str
        Declared units of integer columns.
    merged : mapping of str to Expr
        Columns that USING or NATURAL makes one of both sides'.
    """

    sources: tuple[Source, ...]
    units: Mapping[Expr, str] = field(default_factory=dict)
    merged: Mapping[str, Expr] = field(default_factory=dict)

    def source(self, name: str) -> Source | None:
        """Find a source by its alias or, where one source only has it, its table."""
        for attribute in ("alias", "table"):
            alike = [s for s in self.sources if getattr(s, attribute).lower() == name.lower()]
            if len(alike) == 1:
                return alike[0]
        return None

    def named(self, name: str, subject: str) -> Source:
        """Find the source that an option names.

        Raises
        ------
        QueryError
            There is none; the message begins with ``subject``.
        """
        source = self.source(name)
        if source is None:
            known = ", ".join(s.alias for s in self.sources)
            raise QueryError(f"{subject} given for {name}, but the query has {known}")
        return source

    def find(self, table: str | None, name: str) -> Expr | None:
        """Find a column's expression; None if there is no such column.

        Raises
        ------
        QueryError
            An unqualified name is a column of several sources.
        """
        if table is not None:
            source = self.source(table)
            return None if source is None else source.find(name)
        merged = [column for key, column in self.merged.items() if key.lower() == name.lower()]
        if merged:
            return merged[0]
        matches = [(s.alias, e) for s in self.sources if (e := s.find(name)) is not None]
        if len(matches) > 1:
            aliases = " or ".join(f"{alias}.{name}" for alias, _ in matches)
            raise QueryError(f"column {name} is ambiguous; write {aliases}")
        return matches[0][1] if matches else None

    def unknown(self, table: str | None, name: str) -> str:
        """The message for a column that does not exist."""
        if len(name) > _MOST_SHOWN:
            return f"unknown column {name[:_MOST_SHOWN]}..., a name of {len(name)} characters"
        if table is not None and self.source(table) is None:
            names = ", ".join(s.alias for s in self.sources)
            return f"unknown table {table}; the query has {names}"
        sources = self.sources if table is None else [s for s in (self.source(table),) if s]
        columns = [c for s in sources for c in s.columns]
        close = get_close_matches(name, columns, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; there are {_some(columns)}"
        owner = "" if table is None else f" in {table}"
        kind = "column" if table is not None else "column or parameter"
        return f"unknown {kind} {name}{owner}{hint}"

    def unit_of(self, expr: Expr) -> str | None:
        """The one unit in which all columns of an integer expression are declared, if any."""
        leaves = [leaf for leaf in walk(expr) if leaf.op is Op.COLUMN]
        units = {self.units.get(leaf) for leaf in leaves}
        return units.pop() if len(units) == 1 else None


#: Characters of a name that a message shows.
_MOST_SHOWN = 200


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


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
            raise beyond(f"the output has two columns named {name}; rename one with AS", tree)


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
        raise beyond("* takes no REPLACE or RENAME; list the columns", item)
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
        raise refused(scope.unknown(table or None, item.name), item)
    return item.name.lower(), aliases
