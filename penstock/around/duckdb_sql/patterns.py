"""Patterns in texts."""

from __future__ import annotations

import re

from sqlglot import exp

from ...query.dialect import refused
from .calls import call


def like(tree: exp.Expr) -> exp.Expr:
    return exp.Escape(this=tree, expression=exp.Literal.string("\\"))


#: What Java's regular expressions have, and RE2's have not or read otherwise.
_OF_JAVA = re.compile(r"\(\?[=!<>]|\\[1-9kKpPGRXhHvVQE]|[*+?}]\+|&&")


def pattern(tree: exp.Expr | None, whole: exp.Expr) -> exp.Expr:
    if tree is None or not tree.is_string:
        raise refused("a regular expression is a constant text", whole)
    if _OF_JAVA.search(tree.name):
        raise refused(
            "a regular expression without look-around, back references, possessive quantifiers and "
            "classes of Java's alone is needed",
            whole,
        )
    return tree


def regexp_replace(tree: exp.RegexpReplace) -> exp.Expr:
    to = tree.args.get("replacement")
    if to is None or not to.is_string:
        raise refused("regexp_replace takes a constant text to put in", tree)
    said = exp.Literal.string(re.sub(r"\$(\d)", r"\\\1", to.name))
    return call(
        "regexp_replace", tree.this, pattern(tree.expression, tree), said, exp.Literal.string("g")
    )


def regexp_extract(tree: exp.RegexpExtract) -> exp.Expr:
    group = tree.args.get("group") or exp.Literal.number(1)
    return call("regexp_extract", tree.this, pattern(tree.expression, tree), group)


def regexp_like(tree: exp.RegexpLike) -> exp.Expr:
    return call("regexp_matches", tree.this, pattern(tree.expression, tree))


def regexp_split(tree: exp.RegexpSplit) -> exp.Expr:
    return call("string_split_regex", tree.this, pattern(tree.expression, tree))
