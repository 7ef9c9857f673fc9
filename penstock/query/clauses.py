"""Known clauses of a SELECT and of an item of FROM; any other clause is an error."""

from __future__ import annotations

from sqlglot import exp

from .dialect import refused

OF_SELECT = frozenset({"expressions", "from_", "joins", "where", "hint", "kind"})
#: Clauses that only the outermost SELECT may have.
GROUPING = frozenset({"group", "having", "distinct"})
OF_TABLE = frozenset({"this", "alias", "db", "catalog"})
OF_JOIN = frozenset({"this", "on", "method", "side", "kind", "using"})
#: Parser's names of clauses whose SQL reads otherwise.
_WORDS = {
    "group": "GROUP BY",
    "order": "ORDER BY",
    "windows": "WINDOW",
    "with_": "WITH",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "laterals": "LATERAL VIEW",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "locks": "FOR UPDATE",
}

_OTHER = "leave it out"
_BEFORE = "do that before, and give its result as the table"
_AFTER = "leave it out, and do that with the rows that the query gives"
_GROUPS = "group in a query of its own, and give its result as the table"
#: What to write instead.
_INSTEAD = {
    "group": _GROUPS,
    "having": _GROUPS,
    "distinct": _GROUPS,
    "with_": "put it at the beginning of the whole query",
    "order": _AFTER,
    "limit": _AFTER,
    "offset": _AFTER,
    "sort": _AFTER,
    "qualify": _AFTER,
    "windows": _AFTER,
    "laterals": _BEFORE,
    "sample": _BEFORE,
    "pivots": _BEFORE,
}


def check(tree: exp.Expr, read: frozenset[str], within: str) -> None:
    """Refuse clauses that would be ignored.

    Parameters
    ----------
    within : str
        What the tree is, for messages.

    Raises
    ------
    QueryError
    """
    for key, part in tree.args.items():
        if part and key not in read:
            node = part[0] if isinstance(part, list) else part
            words = _WORDS.get(key, key.upper().replace("_", " "))
            where = node if isinstance(node, exp.Expr) else tree
            instead = _INSTEAD.get(key, _OTHER)
            raise refused(f"{words} is not supported in {within}: {instead}", where)
