"""Calls of functions, and types of expressions."""

from __future__ import annotations

from sqlglot import exp

TIMES = ("timestamp", "timestamptz", "timestampntz", "timestampltz")


TEXTS = ("text", "varchar", "char", "nvarchar")


INTEGERS = ("tinyint", "smallint", "int", "bigint")


def call(name: str, *args: exp.Expr | int) -> exp.Expr:
    given = [exp.Literal.number(arg) if isinstance(arg, int) else arg for arg in args]
    return exp.Anonymous(this=name, expressions=given)


def is_of(tree: exp.Expr, *kinds: str) -> bool:
    return tree.type is not None and any(tree.is_type(kind) for kind in kinds)
