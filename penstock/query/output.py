"""What a SELECT gives: the names of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.node import Expr
from penstock.query.dialect import place


def check_output(select: Sequence[tuple[str, Expr]], tree: exp.Select) -> None:
    """Refuse an output with two columns of one name.

    Raises
    ------
    QueryError
    """
    for name, count in Counter(name for name, _ in select).items():
        if count > 1:
            raise QueryError(
                f"the output has two columns named {name}; rename one with AS ({place(tree)})"
            )
