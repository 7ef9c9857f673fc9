"""Casts of texts, and how a value is written as text."""

from __future__ import annotations

from sqlglot import exp

from ...query.dialect import refused
from ..calls import INTEGERS, TEXTS, TIMES, call, is_of


def as_text(tree: exp.Expr) -> exp.Expr:
    """A value as text, as Spark's CAST writes it."""
    if is_of(tree, *TEXTS):
        return tree
    if is_of(tree, *TIMES):
        return call("ps_text_of_time", tree)
    if is_of(tree, "double"):
        return call("ps_text_of_double", tree)
    if (
        is_of(tree, *INTEGERS, "decimal", "date", "boolean")
        or tree.type is None
        or is_of(tree, "unknown")
    ):
        return exp.cast(tree, "text")
    raise refused(f"a {tree.type} is not written as text; cast it to another type first", tree)


def concat(tree: exp.Expr) -> exp.Expr:
    parts = [tree.this, tree.expression] if isinstance(tree, exp.DPipe) else tree.expressions
    text = as_text(parts[0])
    for part in parts[1:]:
        text = exp.DPipe(this=text, expression=as_text(part))
    # Of a chain, only the whole is measured.
    return exp.paren(text) if isinstance(tree.parent, exp.DPipe) else call("ps_short", text)


def concat_ws(tree: exp.ConcatWs) -> exp.Expr:
    by, *parts = tree.expressions
    texts = (as_text(p) if is_of(p, *TIMES, "double") else p for p in parts)
    return call("ps_short", call("concat_ws", by, *texts))


def format_number(tree: exp.Anonymous) -> exp.Expr:
    value, *digits = tree.expressions
    if is_of(value, "decimal", "bigint"):  # which lose digits as doubles
        raise refused("format_number takes a double; cast the number to DOUBLE first", tree)
    return call("ps_format_number", value, *digits)


def cast(tree: exp.Cast) -> exp.Expr:
    to, value = tree.to, tree.this
    if to.this in (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR):
        return as_text(value)
    is_tried = isinstance(tree, exp.TryCast) and bool(tree.args.get("safe"))
    if is_of(value, *TEXTS) and to.is_type(*INTEGERS):
        value = call("ps_whole_or_null" if is_tried else "ps_whole", value)
    elif is_tried and is_of(value, *TEXTS):
        if not to.is_type("double", "float", "decimal"):
            raise refused("TRY_CAST of text takes numbers: test a date or truth value first", tree)
        value = call("ps_number_or_null", value)
    if to.is_type("timestamp", "timestamptz", "timestampltz"):
        to = exp.DataType.build("timestamptz", dialect="duckdb")
    return exp.TryCast(this=value, to=to) if is_tried else exp.Cast(this=value, to=to)
