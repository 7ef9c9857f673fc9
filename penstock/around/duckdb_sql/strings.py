"""Patterns in texts, casts of texts, and how a value is written as text."""

from __future__ import annotations

import re

from sqlglot import exp

from ...query.dialect import refused, written
from ..computed_calls import INTEGERS, TEXTS, TIMES, call, is_of


def like(tree: exp.Expr) -> exp.Expr:
    """LIKE, where Spark escapes by \\ if nothing else is said."""
    if isinstance(tree.parent, exp.Escape):
        return tree
    return exp.Escape(this=tree, expression=exp.Literal.string("\\"))


#: What Java's regular expressions have, and RE2's have not or read otherwise.
_OF_JAVA = re.compile(r"\(\?[^:i]|\(\?i[^)]|\\[1-9kKpPGRXhHvVQE]|[*+?}]\+|&&|\[[^\]]*\[")
#: Texts in which a pattern that may match nothing does.
_PROBES = ("", "a", "a b", "-", "1 b\n")


def pattern(tree: exp.Expr | None, whole: exp.Expr) -> exp.Expr:
    if tree is None or not tree.is_string:
        raise refused("a regular expression is a constant text", whole)
    if _OF_JAVA.search(tree.name):
        raise refused(
            "a regular expression without look-around, back references, possessive quantifiers, "
            "flags but (?i), and classes of Java's alone is needed",
            whole,
        )
    if "(?i)" in tree.name and not tree.name.isascii():
        raise refused("a regular expression with (?i) is of ASCII letters", whole)
    return tree


def _of_something(tree: exp.Expr, whole: exp.Expr) -> exp.Expr:
    """A pattern that never matches nothing at all, where engines go on in different places."""
    try:
        compiled = re.compile(pattern(tree, whole).name)
    except re.error as error:
        raise refused(f"the regular expression is wrong: {error}", whole) from None
    if any(not one.group() for text in _PROBES for one in compiled.finditer(text)):
        raise refused("a regular expression is needed that matches a character at least", whole)
    return tree


def _only(tree: exp.Expr, *keys: str) -> None:
    """Refuse further arguments of a function."""
    unknown = [
        key for key, arg in tree.args.items() if isinstance(arg, exp.Expr) and key not in keys
    ]
    if unknown:
        raise refused(f"{written(tree)} takes {len(keys)} arguments", tree)


def regexp_replace(tree: exp.RegexpReplace) -> exp.Expr:
    _only(tree, "this", "expression", "replacement")
    to = tree.args.get("replacement")
    if to is None or not to.is_string or "\\" in to.name or "${" in to.name:
        raise refused("regexp_replace takes a constant text to put in, and groups as $1", tree)
    replacement = exp.Literal.string(re.sub(r"\$(\d)", r"\\\1", to.name))
    return call(
        "regexp_replace",
        call("ps_growing", tree.this, len(replacement.name) + 1),
        _of_something(tree.expression, tree),
        replacement,
        exp.Literal.string("g"),
    )


def regexp_extract(tree: exp.RegexpExtract) -> exp.Expr:
    group = tree.args.get("group") or exp.Literal.number(1)
    return call("regexp_extract", tree.this, pattern(tree.expression, tree), group)


def regexp_like(tree: exp.RegexpLike) -> exp.Expr:
    return call("regexp_matches", tree.this, pattern(tree.expression, tree))


def regexp_split(tree: exp.RegexpSplit) -> exp.Expr:
    _only(tree, "this", "expression")
    return call("string_split_regex", tree.this, _of_something(tree.expression, tree))


def levenshtein(tree: exp.Levenshtein) -> exp.Expr:
    _only(tree, "this", "expression")
    return call("ps_levenshtein", tree.this, tree.expression)


def pad(tree: exp.Pad) -> exp.Expr:
    """``lpad`` or ``rpad``."""
    fill = tree.args.get("fill_pattern") or exp.Literal.string(" ")
    name = "ps_lpad" if tree.args.get("is_left") else "ps_rpad"
    return call(name, tree.this, tree.expression, fill)


def trim(tree: exp.Trim) -> exp.Expr:
    """Spark trims spaces, and DuckDB all that is one."""
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
        str(tree.args.get("position") or ""), "trim"
    )
    return call(name, tree.this, tree.args.get("expression") or exp.Literal.string(" "))


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
