"""Look up names in a query: sources and their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from ..errors import QueryError
from ..expr.node import Expr, Op, walk


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
