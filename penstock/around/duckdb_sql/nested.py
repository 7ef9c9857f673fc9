"""Arrays, structs and maps: their elements, fields and values; they themselves are not compared."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ...query.dialect import Penstock, not_compared, refused, snippet
from ..computed_calls import INTEGERS, call, is_of

_NESTED = (exp.DType.ARRAY, exp.DType.STRUCT, exp.DType.MAP)
#: What compares values, and under which names it has them.
_COMPARING: tuple[tuple[tuple[type[exp.Expr], ...], tuple[str, ...]], ...] = (
    ((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), ("this", "expression")),
    ((exp.NullSafeEQ, exp.NullSafeNEQ, exp.Nullif), ("this", "expression")),
    ((exp.In, exp.Least, exp.Greatest), ("this", "expressions")),
    ((exp.Between, exp.Ordered, exp.Min, exp.Max, exp.ArrayUniqueAgg), ("this",)),
    ((exp.ArgMin, exp.ArgMax), ("expression",)),
    ((exp.Group, exp.Distinct), ("expressions",)),
    ((exp.Window,), ("partition_by",)),
)
_COMPARED: dict[type[exp.Expr], tuple[str, ...]] = {
    kind: keys for kinds, keys in _COMPARING for kind in kinds
}


def check_compared(tree: exp.Query) -> None:
    """Refuse a query that compares lists, structs or maps.

    Raises
    ------
    QueryError
    """
    for node in tree.walk():
        values = [node.args.get(key) for key in _COMPARED.get(type(node), ())]
        if isinstance(node, exp.Select) and node.args.get("distinct"):
            values.append(node.expressions)
        for value in values:
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, exp.Expr):
                    _check_one(_meant(one.unalias()))


def _check_one(value: exp.Expr) -> None:
    dtype = type_of(value)
    if dtype is not None and dtype.this in _NESTED:
        raise refused(not_compared(snippet(value), dtype.sql(dialect=Penstock).lower()), value)


def _meant(value: exp.Expr) -> exp.Expr:
    """The output column that a name in ORDER BY means; other values are themselves."""
    select = value.find_ancestor(exp.Select)
    if not isinstance(value, exp.Column) or value.table or select is None:
        return value
    alike = (one for one in select.expressions if one.alias_or_name == value.name)
    return next(alike, value).unalias()


def type_of(tree: Any) -> exp.DataType | None:
    """The type of an expression, also of a field or an element; None if it is not known."""
    dtype = tree.type
    if dtype is not None and dtype.this not in (exp.DType.UNKNOWN, exp.DType.NULL):
        return dtype
    if isinstance(tree, exp.Paren):
        return type_of(tree.this)
    outer = type_of(tree.this) if isinstance(tree, exp.Dot | exp.Bracket) else None
    if outer is None:
        return None
    if isinstance(tree, exp.Dot):
        fields = (one for one in outer.expressions if isinstance(one, exp.ColumnDef))
        name = tree.expression.name.lower()
        return next((one.args["kind"] for one in fields if one.name.lower() == name), None)
    return outer.expressions[-1] if outer.expressions else None


def element(tree: exp.Bracket) -> exp.Expr:
    """``a[i]``, which begins at 0, ``element_at(a, i)``, which begins at 1, or a map's value."""
    (place,), dtype = tree.expressions, type_of(tree.this)
    is_map = dtype is not None and dtype.this == exp.DType.MAP
    if is_map or (isinstance(place, exp.Literal) and place.is_string):
        return call("ps_value", tree.this, place)
    return call("ps_element" if tree.args.get("offset") == 1 else "ps_item", tree.this, place)


def size(tree: exp.Expr) -> exp.Expr:
    """The number of elements of an array or a map."""
    (argument,) = tree.expressions if isinstance(tree, exp.Anonymous) else (tree.this,)
    dtype = type_of(argument)
    is_map = dtype is not None and dtype.this == exp.DType.MAP
    return call("ps_map_size" if is_map else "ps_size", argument)


def sequence(tree: exp.GenerateSeries) -> exp.Expr:
    """``sequence(from, to[, step])``, whose length is checked before it is made."""
    start, end, step = tree.args["start"], tree.args["end"], tree.args.get("step")
    if all(is_of(one, *INTEGERS) for one in (start, end)):
        return call("ps_series", start, end, step or 1)
    return call("ps_times", start, end, step or call("to_days", 1))


def sorted_array(tree: exp.ArraySort) -> exp.Expr:
    """``sort_array``, whose NULLs come first if it ascends, or ``array_sort``, where they last."""
    asc = tree.args.get("asc")
    if tree.args.get("expression") or not (asc is None or isinstance(asc, exp.Boolean)):
        raise refused("an array is sorted by its values, in an order that the text says", tree)
    order = "ASC" if asc is None or asc.this else "DESC"
    nulls = "NULLS FIRST" if tree.args["nulls_first"].this else "NULLS LAST"
    return call("list_sort", tree.this, *map(exp.Literal.string, (order, nulls)))


def exists(tree: exp.Exists) -> exp.Expr:
    """``EXISTS (SELECT ...)``; Spark has a function of arrays by this name."""
    if tree.args.get("expression"):
        raise refused("exists(array, condition) is not supported", tree)
    return tree


def lateral(tree: exp.Lateral) -> exp.Expr:
    """``LATERAL VIEW``, which leaves out rows whose array is empty or NULL."""
    if tree.args.get("outer"):
        raise refused("LATERAL VIEW OUTER is not supported; LATERAL VIEW is, without OUTER", tree)
    return tree
