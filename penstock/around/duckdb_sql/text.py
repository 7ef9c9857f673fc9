"""The text that DuckDB gets: nothing that a user wrote stands in it unquoted."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from ...errors import QueryError
from ...query.dialect import refused, snippet
from ..computed_calls import is_ours

_UNITS = "YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND"
#: Words of SQL that the parser keeps as texts in nodes of what is taken: of joins, windows and
#: intervals. Any other text that is neither a name nor a literal is refused.
_WORDS = frozenset(
    (
        "LEFT RIGHT FULL OUTER INNER CROSS SEMI ANTI NATURAL ASOF "
        "OVER ROWS RANGE UNBOUNDED PRECEDING FOLLOWING FIRST NEXT "
        f"{_UNITS} {' '.join(f'{unit}S' for unit in _UNITS.split())}"
    ).split()
) | {"", "CURRENT ROW"}
_TYPES = frozenset(
    (
        *(exp.DType.BOOLEAN, exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT),
        *(exp.DType.BIGINT, exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL),
        *(exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR, exp.DType.BINARY),
        *(exp.DType.VARBINARY, exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ),
        *(exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ, exp.DType.INTERVAL, exp.DType.ARRAY),
        *(exp.DType.STRUCT, exp.DType.MAP, exp.DType.NULL),
    )
)
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
#: Of a function that Penstock calls.
_NAME = re.compile(r"[a-z]\w*", re.ASCII)
#: What stands for a word of the user's until the text is written, and how that finds it again.
_PLACE = "ps_word_"
_PLACES = re.compile(rf"""(['"])?{_PLACE}(\d+)(?(1)\1)""")


def text_of(tree: exp.Query) -> str:
    """Write a translated query as DuckDB's text; changes the query.

    The generator sees numbered places instead of names and texts, so that none of them reaches
    the text but through :func:`quoted`, however the generator treats it.

    Raises
    ------
    QueryError
        There is a word in the query that is neither quoted nor known.
    """
    places: dict[str, int] = {}
    for node in tree.walk():
        is_text = isinstance(node, exp.Literal) and node.is_string
        if is_text or isinstance(node, exp.Identifier):
            word = str(node.this)
            if "\0" in word:
                raise refused("a name or text with the character 0 is not supported", node)
            node.set("this", f"{_PLACE}{places.setdefault(word, len(places))}")
        else:
            _check_words(node)
    words = list(places)
    text = tree.sql(dialect="duckdb", identify=True, comments=False)

    def word_of(match: re.Match[str]) -> str:
        word, sign = words[int(match[2])], match[1]
        # The generator leaves names of lambdas bare; a text could end the text that it is in.
        if sign is None and not word.isidentifier():
            raise QueryError(f"the name {word} is not supported here; choose one of letters")
        return quoted(word, sign or '"')

    return _PLACES.sub(word_of, text)


def quoted(word: str, sign: str = "'") -> str:
    """Quote a text with ``'``, or a name with ``"``."""
    return f"{sign}{word.replace(sign, 2 * sign)}{sign}"


def _check_words(node: exp.Expr) -> None:
    if isinstance(node, exp.Anonymous) and is_ours(node) and _NAME.fullmatch(node.name):
        return
    if isinstance(node, exp.Literal):
        if not _NUMBER.fullmatch(str(node.this)):
            raise refused(f"{node.this} is not a number", node)
        return
    if isinstance(node, exp.Placeholder):
        raise refused(f"parameter {snippet(node)} has no value; give params=", node)
    if isinstance(node, exp.Table) and (node.args.get("db") or node.args.get("catalog")):
        raise refused("a table has one name, without a database", node)
    for arg in node.args.values():
        for one in arg if isinstance(arg, list) else [arg]:
            _check_word(one, node)


def _check_word(word: Any, node: exp.Expr) -> None:
    if isinstance(word, str) and word.upper() not in _WORDS:
        raise refused(f"{snippet(node)} is not supported here", node)
    if isinstance(word, exp.DType) and word not in _TYPES:
        raise refused(f"the type {word.value} is not supported", node)
