"""Calls that Penstock writes, and types of expressions."""

from __future__ import annotations

from sqlglot import exp

#: Names of types, as sqlglot has them.
TIMES = ("timestamp", "timestamptz", "timestampntz", "timestampltz")
TEXTS = ("text", "varchar", "char", "nvarchar")
INTEGERS = ("tinyint", "smallint", "int", "bigint", exp.DType.UBIGINT)


#: Marks a call that Penstock writes; a call of the same name that a user writes has no mark.
_OURS = "ours"


def call(name: str, *args: exp.Expr | int) -> exp.Expr:
    """A call of a function of DuckDB, or of a macro."""
    nodes = [exp.Literal.number(arg) if isinstance(arg, int) else arg for arg in args]
    return ours(exp.Anonymous(this=name, expressions=nodes))


def ours(tree: exp.Expr) -> exp.Expr:
    """Mark a call as one that Penstock writes."""
    tree.meta[_OURS] = True
    return tree


def is_ours(tree: exp.Expr) -> bool:
    """Whether a call is one that Penstock writes."""
    return _OURS in tree.meta


def is_of(tree: exp.Expr, *kinds: str | exp.DType) -> bool:
    """Whether an expression is known to be of one of these types."""
    return tree.type is not None and any(tree.is_type(kind) for kind in kinds)
