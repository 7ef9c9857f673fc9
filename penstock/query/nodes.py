"""Arguments of the parser's nodes that Penstock reads; a query that sets any other is refused.

The parser knows the SQL of many engines, and its releases add to it. So the arguments are listed
here, by class of node, and checked on the tree as the user wrote it, before anything copies parts
of it. The readers of expressions check functions; one that is not listed may have operands only.
"""

from __future__ import annotations

from sqlglot import exp

from .dialect import COUNT, NEAREST, beyond, refused, written

#: Arguments that every reader of a node reads.
OPERANDS = frozenset({"this", "expression", "expressions"})
#: Clauses of any query.
_CLAUSES = "with_ order limit offset"

_ROWS: tuple[tuple[str, tuple[type[exp.Expr], ...]], ...] = (
    # Clauses
    (
        f"from_ joins where hint group having distinct qualify laterals windows {_CLAUSES}",
        (exp.Select,),
    ),
    (f"distinct by_name {_CLAUSES}", (exp.Union, exp.Except, exp.Intersect)),
    (f"alias pivots {_CLAUSES}", (exp.Subquery,)),
    ("alias pivots", (exp.Table,)),
    ("columns", (exp.TableAlias,)),
    ("alias", (exp.CTE, exp.Alias, exp.PivotAlias, exp.Values)),
    ("recursive", (exp.With,)),
    ("grouping_sets cube rollup all", (exp.Group,)),
    ("desc nulls_first", (exp.Ordered,)),
    ("view outer alias", (exp.Lateral,)),
    ("on", (exp.Distinct,)),
    (
        "alias fields unpivot group columns include_nulls default_on_null pivot_column_naming",
        (exp.Pivot,),
    ),
    ("partition_by order spec alias over", (exp.Window,)),
    ("kind start start_side end end_side", (exp.WindowSpec,)),
    (
        "",
        (
            *(exp.From, exp.Where, exp.Having, exp.Qualify, exp.Limit, exp.Offset, exp.Order),
            *(exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple, exp.Filter, exp.WithinGroup),
            *(exp.IgnoreNulls, exp.RespectNulls, exp.Aliases),
        ),
    ),
    # Names, constants and types
    ("quoted", (exp.Identifier,)),
    ("table db catalog", (exp.Column,)),
    ("except_ replace rename", (exp.Star,)),
    ("is_string", (exp.Literal,)),
    ("nested", (exp.DataType,)),
    ("kind", (exp.ColumnDef,)),
    ("unit", (exp.Interval,)),
    (
        "",
        (
            *(exp.Null, exp.Boolean, exp.HexString, exp.RawString, exp.Placeholder, exp.Var),
            *(exp.IntervalSpan, exp.PropertyEQ, exp.Lambda),
        ),
    ),
    # Operators
    ("low high symmetric", (exp.Between,)),
    ("query", (exp.In,)),
    ("negate", (exp.Like, exp.ILike, exp.Is)),
    ("offset safe", (exp.Bracket,)),
    ("zone", (exp.AtTimeZone, exp.FromTimeZone)),
    (
        "",
        (
            *(
                exp.Paren,
                exp.Not,
                exp.Neg,
                exp.Div,
                exp.DPipe,
                exp.BitwiseNot,
                exp.Add,
                exp.Sub,
                exp.Mul,
                exp.Mod,
            ),
            *(exp.IntDiv, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift),
            *(exp.BitwiseRightShift, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
            *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.Dot, exp.Escape, exp.Any, exp.All),
        ),
    ),
    # Functions; those without a row have operands only, or are Spark's alone
    ("ifs default", (exp.Case,)),
    ("true false", (exp.If,)),
    ("to", (exp.Cast,)),
    ("to safe", (exp.TryCast,)),
    ("decimals", (exp.Round,)),
    ("offset default", (exp.Lag, exp.Lead)),
    ("offset", (exp.NthValue,)),
    (
        "unit",
        (
            exp.DateDiff,
            exp.DateTrunc,
            exp.TimestampAdd,
            exp.TimestampDiff,
            exp.TimestampTrunc,
            exp.TsOrDsAdd,
        ),
    ),
    (
        "format",
        (exp.StrToUnix, exp.TimeToStr, exp.StrToTime, exp.UnixToStr, exp.TsOrDsToDate),
    ),
    ("year month day hour min sec", (exp.TimestampFromParts,)),
    ("start end step", (exp.GenerateSeries,)),
    ("asc nulls_first", (exp.ArraySort,)),
    ("key", (exp.MapContainsKey,)),
    ("fill_pattern is_left", (exp.Pad,)),
    ("quantile", (exp.Quantile,)),
    ("group", (exp.RegexpExtract,)),
    ("replacement", (exp.RegexpReplace, exp.Replace)),
    ("times", (exp.Repeat,)),
    ("delimiter part_index", (exp.SplitPart,)),
    ("delimiter count", (exp.SubstringIndex,)),
    ("substr position", (exp.StrPosition,)),
    ("start length", (exp.Substring,)),
    ("from_ to", (exp.Translate,)),
    ("position", (exp.Trim,)),
    ("alias", (exp.Unnest,)),
)
#: Nodes that have more operands elsewhere than readers read: their first one.
_OF_ONE = (exp.ArraySize, exp.DataTypeParam, exp.Explode, exp.Initcap, exp.PercentileCont)
#: Arguments that are read, by class.
TAKEN: dict[type[exp.Expr], frozenset[str]] = {
    **{kind: OPERANDS.union(names.split()) for names, kinds in _ROWS for kind in kinds},
    **{kind: frozenset({"this"}) for kind in _OF_ONE},
    exp.Join: frozenset({"this", "on", "using", "method", "side", "kind", NEAREST, COUNT}),
}

#: Arguments by which the parser says what a function, or an operator, of Spark's always does.
_MARKS: dict[type[exp.Expr], frozenset[str]] = {
    exp.ArrayAgg: frozenset({"nulls_excluded"}),
    exp.Concat: frozenset({"safe"}),
    exp.ConcatWs: frozenset({"safe", "coalesce", "flatten"}),
    exp.Count: frozenset({"big_int"}),
    exp.Div: frozenset({"safe"}),
    exp.DPipe: frozenset({"safe"}),
    exp.Greatest: frozenset({"ignore_nulls"}),
    exp.Least: frozenset({"ignore_nulls"}),
    exp.Placeholder: frozenset({"widget"}),
    exp.RegexpExtract: frozenset({"null_if_pos_overflow"}),
    exp.TsOrDsToDate: frozenset({"safe"}),
}

#: Clauses that the engine itself reads, without the parts around it.
OF_SELECT = frozenset({"expressions", "from_", "joins", "where", "hint"})
#: Clauses that only the outermost SELECT may have.
GROUPING = frozenset({"group", "having", "distinct"})
OF_TABLE = frozenset({"this", "alias"})
OF_JOIN = TAKEN[exp.Join]
_OTHER = "leave it out"
_BEFORE = "do that before, and give its result as the table"
_AFTER = "leave it out, and do that with the rows that the query gives"
_GROUPS = "group in a query of its own, and give its result as the table"
#: Arguments of the parser: their SQL, and what to write instead.
_REFUSED = {
    "group": ("GROUP BY", _GROUPS),
    "having": ("HAVING", _GROUPS),
    "distinct": ("DISTINCT", _GROUPS),
    "with_": ("WITH", "put it at the beginning of the whole query"),
    "order": ("ORDER BY", _AFTER),
    "limit": ("LIMIT", _AFTER),
    "offset": ("OFFSET", _AFTER),
    "sort": ("SORT BY", _AFTER),
    "qualify": ("QUALIFY", _AFTER),
    "windows": ("WINDOW", _AFTER),
    "laterals": ("LATERAL VIEW", _BEFORE),
    "sample": ("TABLESAMPLE", _BEFORE),
    "pivots": ("PIVOT", _BEFORE),
    "distribute": ("DISTRIBUTE BY", _AFTER),
    "cluster": ("CLUSTER BY", _AFTER),
    "locks": ("FOR UPDATE", _OTHER),
    "for_": ("FOR UPDATE", _OTHER),
    "version": ("AS OF", "only a relation (penstock.relation) has versions"),
    "db": ("a database's name before a table's", "name the table alone"),
}


def check_tree(tree: exp.Expr) -> None:
    """Refuse a query with an argument that nothing reads.

    Raises
    ------
    QueryError
    """
    for node in tree.walk(prune=lambda node: isinstance(node, exp.Hint)):
        if isinstance(node, exp.Func) and type(node) not in TAKEN:
            continue  # whoever computes it calls check_function; Spark reads its text
        if type(node) not in TAKEN and not isinstance(node, exp.Hint):
            raise refused(f"{written(node)} is not supported: {_OTHER}", node)
        unread = _unread(node, TAKEN.get(type(node), OPERANDS))
        if unread is not None:
            raise refused(*_refusal(node, unread, ""))


def check_function(tree: exp.Expr) -> None:
    """Refuse a function, or operator, with arguments that nothing reads.

    Raises
    ------
    QueryError
    """
    unread = _unread(tree, TAKEN.get(type(tree), OPERANDS))
    if unread is not None:
        raise refused(*_refusal(tree, unread, ""))


def check(tree: exp.Expr, read: frozenset[str], within: str) -> None:
    """Refuse clauses that would be ignored.

    Parameters
    ----------
    within : str
        What the tree is, for messages.

    Raises
    ------
    QueryError
    """
    unread = _unread(tree, read)
    if unread is not None:
        raise beyond(*_refusal(tree, unread, f" in {within}"))


def _unread(tree: exp.Expr, read: frozenset[str]) -> str | None:
    """Name of an argument that is set and not read."""
    marks = _MARKS.get(type(tree), frozenset())
    for key, part in tree.args.items():
        if part and key not in read and not (key in marks and part is True):
            return key
    return None


def _refusal(tree: exp.Expr, key: str, within: str) -> tuple[str, exp.Expr]:
    """Return the message about an argument that nothing reads, and the node that it is about."""
    part = tree.args[key]
    node = part[0] if isinstance(part, list) else part
    words, instead = _REFUSED.get(key, (key.upper().strip("_").replace("_", " "), _OTHER))
    if not isinstance(tree, exp.Query | exp.Table | exp.Join):
        within = f" in {written(tree)}"
    where = node if isinstance(node, exp.Expr) else tree
    return f"{words} is not supported{within}: {instead}", where
