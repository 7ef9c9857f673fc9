"""The SQL that Penstock reads: Spark's, plus how the papers write windows and exclusive or.

``FROM a [ROWS 100], b [ROWS 50]`` (paper 4, figure 1) gives a side a window of its last rows;
``⊕`` (paper 1, section 5.1) is ``^``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType

from penstock.errors import QueryError

#: Key under which a table node keeps the n of its ``[ROWS n]``.
ROWS = "penstock_rows"


class Penstock(Spark):
    """Spark SQL with ``[ROWS n]`` after a table and ``⊕`` for exclusive or."""

    class Tokenizer(Spark.Tokenizer):
        SINGLE_TOKENS: ClassVar = {**Spark.Tokenizer.SINGLE_TOKENS, "⊕": TokenType.CARET}

    class Parser(Spark.Parser):
        # GROUP BY may begin with window(...).
        QUERY_MODIFIER_TOKENS: ClassVar = Spark.Parser.QUERY_MODIFIER_TOKENS - {TokenType.WINDOW}

        def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
            table = super()._parse_table_parts(*args, **kwargs)
            if table is not None and self._match_pair(TokenType.L_BRACKET, TokenType.ROWS):
                count = self._parse_number()
                if count is None or not str(count.this).isdigit():
                    self.raise_error("ROWS needs a number of rows, as in [ROWS 100]")
                else:
                    table.meta[ROWS] = int(count.this)
                if not self._match(TokenType.R_BRACKET):
                    self.raise_error("] is missing after [ROWS n")
            return table


def parse(text: str) -> exp.Expr:
    """Syntax tree of one statement.

    Raises
    ------
    QueryError
        The text is not one SQL statement; the place is given.
    """
    try:
        trees = Penstock().parse(text)
    except (ParseError, TokenError) as error:
        details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        where = f" (line {details['line']}, column {details['col']})" if details else ""
        reason = details.get("description") or str(error).splitlines()[0]
        raise QueryError(f"this is not SQL: {reason.rstrip('.')}{where}") from None
    trees = [t for t in trees if t is not None]
    if len(trees) != 1:
        raise QueryError(f"one SELECT statement is needed, not {len(trees)}")
    return trees[0]


def place(tree: exp.Expr) -> str:
    """Where a node stands in the text, for the end of an error message."""
    places = [
        (meta["line"], meta["col"] - (meta["end"] - meta["start"]))
        for found in tree.walk()
        if "line" in (meta := found._meta or {})
    ]
    if not places:  # the parser notes the places of names only
        return f"at: {snippet(tree)}"
    line, column = min(places)
    return f"at line {line}, column {column}: {snippet(tree)}"


def snippet(tree: exp.Expr) -> str:
    text = tree.sql(dialect=Penstock)
    return text if len(text) <= 60 else text[:57] + "..."
