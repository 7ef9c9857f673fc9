"""Numbers: rounding, logarithms, casts, and how a value is written as text."""

from __future__ import annotations

from sqlglot import exp

from ...query.dialect import refused
from ..calls import INTEGERS, TEXTS, TIMES, call, is_of

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg, exp.Abs)


def widen(tree: exp.Expr) -> None:
    """Give arithmetic of integers, in the tree itself, the 64 bits that Penstock's engine gives.

    DuckDB computes in the type of the operands, so that ``id - 1`` overflows where the column
    ``id`` is unsigned and has a 0.
    """
    keys = [key for key in ("this", "expression") if tree.args.get(key) is not None]
    if not isinstance(tree, _ARITHMETIC) or (isinstance(tree, exp.Neg) and tree.is_number):
        return
    if not all(is_of(tree.args[key], *INTEGERS) for key in keys):
        return
    for key in keys:
        value = tree.args[key]
        is_unsigned = is_of(value, exp.DType.UBIGINT)
        if is_unsigned and isinstance(tree, exp.Mod | exp.Abs):  # which give no more than it
            return
        if not isinstance(value.unnest(), _ARITHMETIC):
            wide = "decimal(20, 0)" if is_unsigned else "bigint"
            # Not exp.cast, which believes that an unsigned column is a BIGINT.
            tree.set(key, exp.Cast(this=value, to=exp.DataType.build(wide)))


def rounded(tree: exp.Round) -> exp.Expr:
    digits = tree.args.get("decimals") or exp.Literal.number(0)
    if not (digits.is_number or (isinstance(digits, exp.Neg) and digits.this.is_number)):
        raise refused("round takes a constant number of digits", tree)
    if is_of(tree.this, *INTEGERS, "decimal"):
        return call("round", tree.this, digits)
    return call("ps_round", tree.this, digits)


def whole(tree: exp.Floor | exp.Ceil) -> exp.Expr:
    """The integer below, or above; an integer itself, of which a double may lose digits."""
    if is_of(tree.this, *INTEGERS):
        return exp.cast(tree.this, "bigint")
    return call("ps_floor" if isinstance(tree, exp.Floor) else "ps_ceil", tree.this)


def log(tree: exp.Log) -> exp.Expr:
    base, x = tree.this, tree.expression
    if base.is_number and base.name == "10":
        return call("ps_log10", x)
    return call("ps_log", base, x)


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
    # Of a chain, only the whole is measured.
    return exp.paren(found) if isinstance(tree.parent, exp.DPipe) else call("ps_short", found)


def concat_ws(tree: exp.ConcatWs) -> exp.Expr:
    by, *parts = tree.expressions
    texts = (as_text(p) if is_of(p, *TIMES, "double") else p for p in parts)
    return call("ps_short", call("concat_ws", by, *texts))


def format_number(tree: exp.Anonymous) -> exp.Expr:
    value, *others = tree.expressions
    if is_of(value, "decimal", "bigint"):  # which lose digits as doubles
        raise refused("format_number takes a double; cast the number to DOUBLE first", tree)
    return call("ps_format_number", value, *others)


def cast(tree: exp.Cast) -> exp.Expr:
    to, value = tree.to, tree.this
    name = to.this
    if name in (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR):
        return as_text(value)
    if to.is_type(*INTEGERS) and not is_of(value, *INTEGERS, *TEXTS, "boolean"):
        if is_of(value, *TIMES):
            return call("ps_unix", value, 1_000_000)
        value = call("trunc", value)
    if to.is_type("double", "float") and is_of(value, *TIMES):
        micros = exp.cast(call("epoch_us", value), "double", copy=False)
        return exp.Div(this=micros, expression=exp.Literal.number("1e6"), typed=True)
    is_tried = isinstance(tree, exp.TryCast) and bool(tree.args.get("safe"))
    if is_of(value, *TEXTS) and to.is_type(*INTEGERS):
        value = call("ps_whole_or_null" if is_tried else "ps_whole", value)
    elif is_tried and is_of(value, *TEXTS):
        if not to.is_type("double", "float", "decimal"):
            raise refused("TRY_CAST of text takes numbers: test a date or truth value first", tree)
        value = call("ps_number_or_null", value)
    if to.is_type("decimal") and not is_of(value, *INTEGERS, *TEXTS, "decimal"):
        digits = to.expressions[1].this if len(to.expressions) > 1 else exp.Literal.number(0)
        value = call("ps_round", value, digits.copy())
    if to.is_type("timestamp", "timestamptz", "timestampltz"):
        to = exp.DataType.build("timestamptz", dialect="duckdb")
    return exp.TryCast(this=value, to=to) if is_tried else exp.Cast(this=value, to=to)


def total(tree: exp.Sum) -> exp.Expr:
    """A sum; of integers, a BIGINT as in Spark."""
    return tree if isinstance(tree.parent, exp.Window) else _as_bigint(tree, tree)


def over(tree: exp.Window) -> exp.Expr:
    """An aggregate over a window."""
    return _as_bigint(tree, tree.this) if isinstance(tree.this, exp.Sum) else tree


def _as_bigint(tree: exp.Expr, total: exp.Sum) -> exp.Expr:
    of = total.this.expressions[0] if isinstance(total.this, exp.Distinct) else total.this
    if not is_of(of, *INTEGERS):
        return tree
    return exp.Cast(this=tree, to=exp.DataType.build("bigint"))
