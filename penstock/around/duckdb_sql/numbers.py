"""Numbers: rounding, logarithms, casts, and how a value is written as text."""

from __future__ import annotations

from sqlglot import exp

from ...query.dialect import refused
from .calls import INTEGERS, TEXTS, TIMES, call, is_of


def rounded(tree: exp.Round) -> exp.Expr:
    digits = tree.args.get("decimals") or exp.Literal.number(0)
    if not (digits.is_number or (isinstance(digits, exp.Neg) and digits.this.is_number)):
        raise refused("round takes a constant number of digits", tree)
    if is_of(tree.this, *INTEGERS, "decimal"):
        return exp.Anonymous(this="round", expressions=[tree.this, digits])
    return call("ps_round", tree.this, digits)


def log(tree: exp.Log) -> exp.Expr:
    base, x = tree.this, tree.expression
    if base.is_number and base.name == "10":
        return call("ps_log10", x)
    return call("ps_divide", call("ps_ln", x), call("ps_ln", base))


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
    found = as_text(parts[0])
    for part in parts[1:]:
        found = exp.DPipe(this=found, expression=as_text(part))
    return exp.paren(found, copy=False)


def cast(tree: exp.Cast) -> exp.Expr:
    to, value = tree.to, tree.this
    name = to.this
    if name in (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR):
        return as_text(value)
    if to.is_type(*INTEGERS) and not is_of(value, *INTEGERS, *TEXTS, "boolean"):
        if is_of(value, *TIMES):
            return call("ps_unix", value, 1_000_000)
        value = call("trunc", value)
    if to.is_type("double") and is_of(value, *TIMES):
        return call("epoch", value)
    if to.is_type("decimal") and not is_of(value, *INTEGERS, *TEXTS, "decimal"):
        digits = to.expressions[1].this if len(to.expressions) > 1 else exp.Literal.number(0)
        value = call("ps_round", value, digits.copy())
    if to.is_type("timestamp", "timestamptz", "timestampltz"):
        to = exp.DataType.build("timestamptz", dialect="duckdb")
    return exp.Cast(this=value, to=to)


def total(tree: exp.Sum) -> exp.Expr:
    of = tree.this.expressions[0] if isinstance(tree.this, exp.Distinct) else tree.this
    return exp.cast(tree, "bigint", copy=False) if is_of(of, *INTEGERS) else tree
