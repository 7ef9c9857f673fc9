"""Calls that Penstock writes, and which expressions around joins it computes, and which DuckDB.

Numbers, decimals, truth values and times are Penstock's; texts, nested values, and what is of
several rows, are DuckDB's.
"""

from __future__ import annotations

from sqlglot import exp

from ..expr.node import Expr
from ..query.operators import BY_NAME, BY_TYPE
from ..types import Kind

#: Names of types, as sqlglot has them.
TIMES = ("timestamp", "timestamptz", "timestampntz", "timestampltz")
TEXTS = ("text", "varchar", "char", "nvarchar")
INTEGERS = ("tinyint", "smallint", "int", "bigint", exp.DType.UBIGINT)


#: Marks a call that Penstock writes; a call of the same name that a user writes has no mark.
_OURS = "ours"


def call(name: str, *args: exp.Expr | int) -> exp.Expr:
    """A call of a function of DuckDB, or of a macro."""
    nodes = [exp.Literal.number(arg) if isinstance(arg, int) else arg for arg in args]
    return ours(exp.Anonymous(this=name, expressions=nodes))


def ours(tree: exp.Expr) -> exp.Expr:
    """Mark a call as one that Penstock writes."""
    tree.meta[_OURS] = True
    return tree


def is_ours(tree: exp.Expr) -> bool:
    """Whether a call is one that Penstock writes."""
    return _OURS in tree.meta


def is_of(tree: exp.Expr, *kinds: str | exp.DType) -> bool:
    """Whether an expression is known to be of one of these types."""
    return tree.type is not None and any(tree.is_type(kind) for kind in kinds)


#: Expressions whose values are never Penstock's: of several rows, of nested values.
OF_SEVERAL_ROWS = (exp.AggFunc, exp.Window, exp.Query, exp.Exists, exp.Bracket, exp.Filter)
OF_SEVERAL_ROWS += (exp.WithinGroup, exp.IgnoreNulls, exp.Unnest, exp.Explode, exp.Lambda, exp.Star)
#: Nodes without a value of their own, whose parts have values.
WITHOUT_VALUE = (exp.Order, exp.WindowSpec, exp.Distinct, exp.PropertyEQ, exp.Tuple, exp.Alias)
WITHOUT_VALUE += (exp.Cube, exp.Rollup, exp.GroupingSets, exp.Paren, exp.Ordered)
#: Nodes that are written as they are.
AS_WRITTEN = (exp.DataType, exp.Var, exp.TableAlias, exp.Interval, exp.Null, exp.Boolean)
AS_WRITTEN += (exp.Literal, exp.Identifier, exp.Star)
#: Expressions whose values are never DuckDB's.
OF_PENSTOCK = tuple(BY_TYPE.keys() - {exp.Negative, exp.Not, exp.BitwiseNot})
OF_PENSTOCK += (exp.Mul, exp.Mod, exp.DateTrunc, exp.TimestampTrunc)
#: Nodes around a call of an aggregate or window function.
AROUND_CALLS = (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls)


#: What DuckDB computes of texts; of other values, it is Penstock's.
COMPARING = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
COMPARING += (exp.Between, exp.In, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Least)
COMPARING += (exp.Greatest, exp.Is, exp.Cast, exp.TryCast, exp.StartsWith)
#: Functions of times, which may be written as text.
OF_TIMES = (exp.TimestampAdd, exp.TimestampDiff, exp.TsOrDsAdd)


def is_number_of_name(tree: exp.Expr) -> bool:
    """Whether a function that the parser does not know gives a number of Penstock's."""
    name = tree.name.lower() if isinstance(tree, exp.Anonymous) else ""
    return name in BY_NAME and not name.startswith("is")


def is_cast_of_text(tree: exp.Expr) -> bool:
    """Whether a CAST makes a text, or reads a constant one that is no time."""
    if not isinstance(tree, exp.Cast):
        return False
    is_constant = isinstance(tree.this, exp.Literal) and tree.this.is_string
    is_time = tree.to.is_type(*exp.DataType.TEMPORAL_TYPES)
    return tree.to.is_type(*exp.DataType.TEXT_TYPES) or (is_constant and not is_time)


def is_around(child: exp.Expr, tree: exp.Expr) -> bool:
    """Whether a node has parts with values, and none of its own."""
    is_branch = isinstance(child, exp.If) and isinstance(tree, exp.Case)
    return is_branch or isinstance(child, WITHOUT_VALUE) or not isinstance(child, exp.Condition)


def is_of_text(value: Expr) -> bool:
    """Whether an expression is of texts or nested values, which DuckDB computes with."""
    return any(one.type.is_text or one.type.kind is Kind.OTHER for one in (value, *value.args))


def is_test_of_null(tree: exp.Expr) -> bool:
    """Whether a column IS NULL, or IS NOT NULL, which both evaluators say alike."""
    tested = tree.this if isinstance(tree, exp.Not) else tree
    is_null = isinstance(tested, exp.Is) and isinstance(tested.expression, exp.Null)
    return is_null and isinstance(tested.this, exp.Column)


def is_over_doubles(tree: exp.Expr, key: str) -> bool:
    """Whether an aggregate computes with doubles: DuckDB gives some the type of their argument."""
    if isinstance(tree, exp.Ordered):
        return tree.parent is not None and isinstance(tree.parent.parent, exp.WithinGroup)
    kinds = (exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop, exp.Corr)
    kinds += (exp.CovarSamp, exp.CovarPop, exp.Median)
    return isinstance(tree, kinds) or (isinstance(tree, exp.Quantile) and key == "this")


def carries(tree: exp.Expr) -> bool:
    """Whether a node gives a value, or an order of values, as it is."""
    kinds = (exp.Min, exp.Max, exp.Ordered, exp.Group, exp.Window, exp.Lag, exp.Lead, exp.Distinct)
    kinds += (exp.FirstValue, exp.LastValue, exp.NthValue, exp.ArgMax, exp.ArgMin, exp.Count)
    kinds += (exp.Is, exp.In, exp.Sum, exp.IgnoreNulls, exp.Tuple)
    return isinstance(tree, kinds)
