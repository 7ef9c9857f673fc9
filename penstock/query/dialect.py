"""The SQL that Penstock reads: Spark's, plus the papers' notation of windows and exclusive or.

``FROM a [ROWS 100], b [ROWS 50]`` (paper 4, figure 1) gives a side a window of its last rows;
``⊕`` (paper 1, section 5.1) is ``^``. ``''`` inside a string is a quote, as in Spark 4. So is
``JOIN b EXACT NEAREST 5 BY DISTANCE x`` as in Spark 4.3, behind which ON may stand here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType

from ..errors import BeyondError, LikelyMistakeError, QueryError

#: What sqlglot raises where a call lacks an argument, or has one of another kind.
MALFORMED = (LookupError, TypeError, AttributeError, AssertionError, ValueError)
#: An interval's text of one unit.
_ONE_UNIT = re.compile(rf"\s*(interval\s)?\s*\+?{exp.INTERVAL_STRING_RE.pattern}", re.IGNORECASE)
#: Key under which a table node keeps the n of its ``[ROWS n]``.
ROWS = "penstock_rows"
#: Keys of a join: its value as an ``exp.Ordered``, descending for a similarity, and its k.
NEAREST, COUNT = "nearest", "limit"
#: Key under which a table node keeps both until its join is made.
CLAUSE = "penstock_nearest"
#: Key under which a version of a table keeps its first and last character in the text.
SPAN = "penstock_span"


class Penstock(Spark):
    """Spark SQL with ``[ROWS n]`` after a table and ``⊕`` for exclusive or."""

    class Tokenizer(Spark.Tokenizer):
        SINGLE_TOKENS: ClassVar = {**Spark.Tokenizer.SINGLE_TOKENS, "⊕": TokenType.CARET}
        STRING_ESCAPES: ClassVar = ["\\", "'", '"']

    class Parser(Spark.Parser):
        # GROUP BY may begin with window(...).
        QUERY_MODIFIER_TOKENS: ClassVar = Spark.Parser.QUERY_MODIFIER_TOKENS - {TokenType.WINDOW}

        # By its own parser INITCAP gets a second argument, which Spark's has not.
        FUNCTION_PARSERS: ClassVar = {
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name != "INITCAP"
        }

        # Its BITWISE is one level of precedence; Spark has &, then ^, then |, all after << and >>.
        BITWISE: ClassVar = {}

        def _parse_bitwise(self) -> Any:
            shifted = super()._parse_bitwise

            def both() -> Any:
                return self._chain(shifted, TokenType.AMP, exp.BitwiseAnd)

            def one_of_them() -> Any:
                return self._chain(both, TokenType.CARET, exp.BitwiseXor)

            return self._chain(one_of_them, TokenType.PIPE, exp.BitwiseOr)

        def _chain(
            self, operand: Callable[[], Any], sign: TokenType, node: type[exp.Binary]
        ) -> Any:
            """Parse operands with a sign between them, from left to right."""
            this = operand()
            while this is not None and self._match(sign):
                this = self.expression(node(this=this, expression=operand()))
            return this

        def _parse_interval_span(self, this: Any, *args: Any, **kwargs: Any) -> Any:
            # What it finds beside one number and unit is dropped: '1 day ago' would be '1 day'.
            parts = exp.INTERVAL_STRING_RE.findall(this.name) if this.is_string else ()
            if len(parts) == 1 and not _ONE_UNIT.fullmatch(this.name):
                self.raise_error(f"{this.name!r} is no interval; write it as '10 seconds'")
            return super()._parse_interval_span(this, *args, **kwargs)

        def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
            table = super()._parse_table_parts(*args, **kwargs)
            if table is not None and self._match_pair(TokenType.L_BRACKET, TokenType.ROWS):
                count = self._parse_number()
                text = "" if count is None else str(count.this)
                if count is None or not (text.isascii() and text.isdecimal() and len(text) < 19):
                    self.raise_error("ROWS needs a number of rows, as in [ROWS 100]")
                else:
                    table.meta[ROWS] = int(text)
                if not self._match(TokenType.R_BRACKET):
                    self.raise_error("] is missing after [ROWS n")
            return table

        def _is_nearest(self) -> bool:
            """Whether NEAREST follows with the word before it, neither of which is a name here."""
            return any(
                self._match_text_seq(word, "NEAREST", advance=False) for word in ("APPROX", "EXACT")
            )

        def _parse_table_alias(self, *args: Any, **kwargs: Any) -> Any:
            return None if self._is_nearest() else super()._parse_table_alias(*args, **kwargs)

        def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
            table = super()._parse_table(*args, **kwargs)
            if table is not None and self._is_nearest():
                self._advance(2)
                count = self._parse_number() or exp.Literal.number(1)
                self._match_text_seq("BY")
                if self._prev.text.upper() != "BY":
                    self.raise_error("BY is missing behind NEAREST and its number of rows")
                is_distance = bool(self._match_text_seq("DISTANCE"))
                if not is_distance and not self._match_text_seq("SIMILARITY"):
                    self.raise_error("NEAREST needs BY DISTANCE or BY SIMILARITY, and a value")
                value = self._parse_disjunction()
                if value is None:
                    self.raise_error("NEAREST needs a value behind BY DISTANCE or BY SIMILARITY")
                ordered = exp.Ordered(this=value, desc=not is_distance)
                if self._match_text_seq("NULLS"):  # not in Spark: rows with NULL are candidates
                    is_first = bool(self._match_text_seq("FIRST"))
                    if not is_first and not self._match_text_seq("LAST"):
                        self.raise_error("FIRST or LAST is missing behind NULLS")
                    ordered.set("nulls_first", is_first)
                table.meta[CLAUSE] = ordered, count
            return table

        def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
            is_listed = self._curr is not None and self._curr.token_type is TokenType.COMMA
            join = super()._parse_join(*args, **kwargs)
            if join is not None and (clause := join.this.meta.pop(CLAUSE, None)):
                if is_listed:
                    self.raise_error("NEAREST stands behind JOIN and its table")
                join.set(NEAREST, clause[0])
                join.set(COUNT, clause[1])
                if join.args.get("on") == exp.true():
                    join.set("on", None)
            return join

        def _parse_from(self, *args: Any, **kwargs: Any) -> Any:
            source = super()._parse_from(*args, **kwargs)
            if source is not None and source.this is not None and CLAUSE in source.this.meta:
                self.raise_error("NEAREST stands behind JOIN and its table")
            return source

        def _parse_version(self) -> Any:
            first = self._curr
            version = super()._parse_version()
            if version is not None:
                version.meta[SPAN] = first.start, self._prev.end
            return version

    class Generator(Spark.Generator):
        def join_sql(self, expression: exp.Join, *args: Any, **kwargs: Any) -> str:
            value = expression.args.get(NEAREST)
            if value is None:
                return super().join_sql(expression, *args, **kwargs)
            words = [expression.side, "JOIN", self.sql(expression, "this"), "EXACT NEAREST"]
            words += [self.sql(expression, COUNT), "BY"]
            words += ["SIMILARITY" if value.args.get("desc") else "DISTANCE", self.sql(value.this)]
            if (is_first := value.args.get("nulls_first")) is not None:
                words.append("NULLS FIRST" if is_first else "NULLS LAST")
            if on := self.sql(expression, "on"):
                words += ["ON", on]
            return self.seg(" ".join(word for word in words if word))

        # Spark has exact percentiles, too; without these lines they become PERCENTILE_APPROX.
        TRANSFORMS: ClassVar = {
            key: how for key, how in Spark.Generator.TRANSFORMS.items() if key != exp.WithinGroup
        }


def refused(reason: object, tree: exp.Expr) -> QueryError:
    """Make an error that ends with the place in the text."""
    return QueryError(f"{reason} ({place(tree)})")


def beyond(reason: object, tree: exp.Expr) -> BeyondError:
    """Make the error for a construct that one join lacks, but the SQL around joins may have."""
    return BeyondError(f"{reason} ({place(tree)})")


def misfit(reason: object, tree: exp.Expr) -> LikelyMistakeError:
    """Make the error about values that do not fit here, but may in the SQL around joins."""
    return LikelyMistakeError(f"{reason} ({place(tree)})")


def place(tree: exp.Expr) -> str:
    """Place of a node in the text, for the end of an error message."""
    places = [
        (meta["line"], meta["col"] - (meta["end"] - meta["start"]))
        for node in tree.walk()
        if "line" in (meta := node._meta or {})
    ]
    if not places:  # the parser notes the places of names only
        return f"at: {snippet(tree)}"
    line, column = min(places)
    return f"at line {line}, column {column}: {snippet(tree)}"


#: Operators by the parser's name.
_SIGNS = {
    exp.Div: "/",
    exp.IntDiv: "DIV",
    exp.DPipe: "||",
    exp.RegexpLike: "RLIKE",
    exp.ILike: "ILIKE",
    exp.Exists: "EXISTS",
}


def written(tree: exp.Expr) -> str:
    """Name of a function or operator in the text, for messages."""
    if sign := _SIGNS.get(type(tree)):
        return sign
    try:
        call = re.match(r"(\w+)\(", tree.sql(dialect="spark"))
    except MALFORMED:
        call = None
    if isinstance(tree, exp.Func) and call:
        return f"function {call[1].lower()}"
    return type(tree).__name__.upper()


def snippet(tree: exp.Expr) -> str:
    """The words of a node, cut for a message."""
    try:
        text = tree.sql(dialect=Penstock)
    except MALFORMED:
        text = f"{type(tree).__name__.upper()}(...)"
    return text if len(text) <= 60 else text[:57] + "..."


#: What to write instead, by how the name of the type begins.
_INSTEAD = {
    "struct": "its fields, as in {name}.x",
    "map": "a value of it, as in {name}['k'], or size({name})",
    "": "an element of it, as in {name}[0], or size({name})",
}
#: Most characters of a type in a message.
_MOST_SHOWN = 80


def not_compared(name: str, dtype: str) -> str:
    """Explain that a column of a nested type is not computed with; name a value that is.

    Parameters
    ----------
    name : str
        Of the column, or the expression.
    dtype : str
    """
    kind = next(one for one in _INSTEAD if dtype.lower().startswith(one))
    shown = dtype if len(dtype) <= _MOST_SHOWN else f"{dtype[:_MOST_SHOWN]}..."
    return (
        f"{name} is of type {shown}: it can be selected as it is, not compared, sorted or grouped "
        f"by; write {_INSTEAD[kind].format(name=name)}"
    )
