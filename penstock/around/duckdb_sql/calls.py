"""Calls of functions, and types of expressions."""

from __future__ import annotations

from sqlglot import exp

#: Names of types, as sqlglot has them.
TIMES = ("timestamp", "timestamptz", "timestampntz", "timestampltz")
TEXTS = ("text", "varchar", "char", "nvarchar")
INTEGERS = ("tinyint", "smallint", "int", "bigint")


def call(name: str, *args: exp.Expr | int) -> exp.Expr:
    """A call of a function of DuckDB, or of a macro."""
    given = [exp.Literal.number(arg) if isinstance(arg, int) else arg for arg in args]
    return exp.Anonymous(this=name, expressions=given)


def is_of(tree: exp.Expr, *kinds: str) -> bool:
    """Whether an expression is known to be of one of these types."""
    return tree.type is not None and any(tree.is_type(kind) for kind in kinds)
