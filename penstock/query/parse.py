"""Parse SQL, in bounded time and memory whatever the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType

from ..errors import QueryError
from ..stack import run_deep
from . import nodes
from .dialect import MALFORMED, ROWS, Penstock, refused
from .nearest import check_nearest

T = TypeVar("T")

#: Characters of a query, at most: 50,000 values of 36 characters fit.
MOST_CHARACTERS = 2 << 20
#: Words, numbers, texts and signs of a query, at most: 50,000 negative numbers with their commas
#: fit. Each takes the parser about 10 us and 700 bytes.
MOST_TOKENS = 160_000
#: Most tables of a query to read before it is refused: the parser's time doubles with each.
_MOST_JOINS = 8
#: Characters of a number, at most: more than its bits may hold.
MOST_DIGITS = 200
#: Lists, structs and maps of a type inside one another, at most, which is about Arrow's limit.
MOST_TYPE_LEVELS = 60
#: Characters of a query that nearly any thread has room for.
_SHORT = 1000

#: Comments, texts and quoted names, words and numbers, signs. No alternative can fail once it has
#: begun, so the time is linear.
_TOKEN = re.compile(
    r"--[^\n]*"
    # Possessive, since backtracking would take memory for each step.
    r"|/\*(?:[^*]++|\*(?!/))*+"
    r"|'(?:[^'\\]++|\\.)*+'?"
    r'|"(?:[^"\\]++|\\.)*+"?'
    r"|`[^`]*`?"
    r"|\w+|[^\w\s]",
    re.DOTALL,
)

#: Half of a pair that UTF-16 writes a character with; no text has one alone.
HALF_CHARACTER = re.compile("[\ud800-\udfff]")


#: Nodes below which a NOT needs no parentheses.
_LOOSE = (exp.Connector, exp.Where, exp.Join, exp.Having, exp.Paren, exp.Alias, exp.Select)


def plain(tree: exp.Expr) -> exp.Expr:
    """Rewrite short forms in the tree itself.

    ``x NOT LIKE 'a%'`` becomes ``NOT x LIKE 'a%'``: some releases of the parser keep the NOT in
    the node itself. ``LIKE ANY`` and ``LIKE ALL`` become OR and AND, and so does ``BETWEEN
    SYMMETRIC``, whose bounds have any order.
    """
    for node in list(tree.find_all(exp.Like, exp.ILike, exp.Is)):
        is_not = bool(node.args.pop("negate", False))
        if isinstance(node.expression, exp.Any | exp.All):
            _spread(node, is_not=is_not)
        elif is_not:
            # ESCAPE is around the LIKE that it belongs to.
            _wrap(node.parent if isinstance(node.parent, exp.Escape) else node, exp.Not)
    for node in list(tree.find_all(exp.Between)):
        if node.args.pop("symmetric", False):
            x, low, high = (node.args[key] for key in ("this", "low", "high"))
            other = exp.Between(this=x.copy(), low=high.copy(), high=low.copy())
            node.replace(exp.paren(exp.or_(node.copy(), other, copy=False), copy=False))
    return tree


def _spread(node: exp.Expr, *, is_not: bool) -> None:
    """Replace LIKE ANY or LIKE ALL by one LIKE for each pattern.

    Raises
    ------
    QueryError
        This release of the parser does not tell ``NOT x LIKE ANY`` from ``x NOT LIKE ANY``.
    """
    several = node.expression
    if isinstance(node.parent, exp.Not) and "negate" not in node.arg_types:
        raise refused("NOT with LIKE ANY or LIKE ALL needs sqlglot 30.30 or later", node.parent)
    patterns = several.this.expressions or [several.this.unnest()]
    parts: list[exp.Expr] = [type(node)(this=node.this.copy(), expression=p) for p in patterns]
    if is_not:
        parts = [exp.Not(this=part) for part in parts]
    join = exp.or_ if isinstance(several, exp.Any) else exp.and_
    node.replace(exp.paren(join(*parts, copy=False), copy=False))


def _wrap(node: exp.Expr, around: type[exp.Expr]) -> None:
    """Wrap a node in another one, in the tree itself."""
    parent = node.parent
    wrapper = around()
    node.replace(wrapper)
    wrapper.set("this", node)
    if parent is not None and not isinstance(parent, _LOOSE):
        wrapper.replace(exp.Paren(this=wrapper))


def parse(text: str) -> exp.Expr:
    """Parse one statement; refuse any part of it that nothing reads.

    Recursive: to be called through :func:`with_room`.

    Raises
    ------
    QueryError
        As for :func:`tree_of`, or something is set that nothing reads.
    """
    tree = tree_of(text)
    if isinstance(tree, exp.Query):  # another statement is refused as such
        nodes.check_tree(tree)
        check_nearest(tree)
    return plain(tree)


def tree_of(text: str) -> exp.Expr:
    """Parse one statement, as it is written.

    Recursive: to be called through :func:`with_room`.

    Raises
    ------
    QueryError
        The text is not one SQL statement, or too long; the place is given.
    """
    if not isinstance(text, str):
        raise QueryError(f"a query is SQL text, not a {type(text).__name__}")
    try:
        trees = Penstock().parser().parse(_tokens(text), text)
    except (ParseError, TokenError) as error:
        details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        where = f" (line {details['line']}, column {details['col']})" if details else ""
        reason = details.get("description") or str(error).splitlines()[0]
        if "<class" in reason:  # sqlglot's own, of an operand or a name
            reason = f"something is missing near `{details['highlight']}`"
        raise QueryError(f"this is not SQL: {reason.rstrip('.')}{where}") from None
    except QueryError:
        raise
    except ValueError as error:  # a function's builder that lacks an argument
        raise QueryError(f"this is not SQL: {str(error).rstrip('.')}") from None
    except MALFORMED:
        raise QueryError(
            "this is not SQL: a function or literal lacks an argument, or has one of another kind"
        ) from None
    # A comment behind the semicolon stands alone.
    statements = [t for t in trees if t is not None and not isinstance(t, exp.Semicolon)]
    if len(statements) != 1:
        raise QueryError(f"one SELECT statement is needed, not {len(statements)}")
    return statements[0]


def canonical(text: str) -> str:
    """Rewrite a statement without spaces, line breaks and comments, keywords in upper case.

    Texts of the same form are the same query.

    Raises
    ------
    QueryError
        As for :func:`parse`.
    """

    def written() -> str:
        tree = parse(text)
        rows = [table.meta.get(ROWS) for table in tree.find_all(exp.Table)]
        return f"{tree.sql(dialect=Penstock, comments=False)} {rows}"

    return with_room(written, text)


def with_room(work: Callable[[], T], text: str) -> T:
    """Call ``work``, which reads a text, with room for its recursion; returns its result.

    Raises
    ------
    QueryError
        It is nested too deeply even so.
    """
    if len(text) <= _SHORT:  # a thread would double the time
        with suppress(RecursionError):
            return work()
    try:
        return run_deep(work)
    except RecursionError:
        raise QueryError(
            "the query is nested too deeply, by some hundreds of levels; compute parts of it in "
            "columns before, or write a chain of many operators as several columns"
        ) from None


def _tokens(text: str) -> list[Any]:
    """Split a text into tokens; one that is too long is refused.

    Raises
    ------
    QueryError
    """
    if len(text) > MOST_CHARACTERS:
        raise QueryError(
            f"the query has {len(text):,} characters, more than {MOST_CHARACTERS:,}; {_INSTEAD}"
        )
    count = sum(1 for _ in _TOKEN.finditer(text))
    if count > MOST_TOKENS:
        raise QueryError(
            f"the query has {count:,} words, numbers and signs, more than {MOST_TOKENS:,}; "
            f"{_INSTEAD}"
        )
    if not text.isprintable() and (half := HALF_CHARACTER.search(text)):
        raise QueryError(f"the query has half a character, U+{ord(half[0]):X}; leave it out")
    tokens = Penstock().tokenize(text)
    if tokens and tokens[0].token_type is TokenType.VAR:
        begins = text.split(maxsplit=1)[0]
        raise QueryError(f"a query begins with SELECT; this one begins with {begins[:60]}")
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and not token.text:
            where = f"line {token.line}, column {token.col - 1}"
            raise QueryError(f"`` is no name of a table, column or function ({where})")
        if token.token_type is TokenType.NUMBER and len(token.text) > MOST_DIGITS:
            raise QueryError(
                f"a number has {len(token.text):,} digits, more than {MOST_DIGITS}; give a shorter "
                f"one (line {token.line})"
            )
    _check_types(tokens)
    joins = sum(token.token_type is TokenType.JOIN for token in tokens)
    if joins > _MOST_JOINS:
        raise QueryError(
            f"the query has {joins} joins, more than {_MOST_JOINS}: run some of them before, and "
            "give what they give as a table"
        )
    return tokens


def _check_types(tokens: list[Any]) -> None:
    """Refuse a type of many levels, since the parser reads each as often as the level says.

    Raises
    ------
    QueryError
    """
    levels, before = 0, None
    for token in tokens:
        if token.token_type is TokenType.LT and before in _NESTED:
            levels += 1
            if levels > MOST_TYPE_LEVELS:
                raise QueryError(
                    f"a type has more than {MOST_TYPE_LEVELS} lists, structs or maps inside one "
                    f"another (line {token.line}, column {token.col}); take its values apart"
                )
        elif token.token_type is TokenType.GT:
            levels = max(levels - 1, 0)
        elif token.token_type is TokenType.R_PAREN:
            levels = 0
        before = token.token_type


#: What begins a type of others.
_NESTED = (TokenType.ARRAY, TokenType.STRUCT, TokenType.MAP)

_INSTEAD = "put long lists of values into a table and join it, or a column that is computed before"
