"""Types of values between Penstock's expressions and DuckDB: how they travel, and come back.

DuckDB has no instants in nanoseconds, and no durations that keep their order: these travel as the
integers that they are, in their own unit, and get their type back where they leave.

Expressions of integers, decimals and truth values are in DuckDB's words where both agree. DuckDB
has the value that Penstock has where every integer in an expression fits 64 bits, and every decimal
38 digits, by the types of its columns, and nothing is rounded. It need not call a function of
Penstock's then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from ..errors import SchemaError
from ..expr.node import Expr, Op, walk
from ..expr.ops.typed_nodes import keeps_raw
from ..expr.vector import fits_int64
from ..query.aggregates import sum_type
from ..query.constants import ARROW_TYPES
from ..types import FLOAT64, INT64, MOST_DIGITS, TIMESTAMPS, Kind, Type, from_field, int_of
from .computed_calls import ours

_PLAIN = {
    Kind.BOOL: pa.bool_(),
    Kind.FLOAT32: pa.float32(),
    Kind.FLOAT64: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.NULL: pa.int32(),
}


@dataclass(frozen=True)
class Known:
    """The type of a column.

    Parameters
    ----------
    type : Type
    arrow : DataType, optional
        Of a column that is given as it is; None for a computed one.
    """

    type: Type
    arrow: pa.DataType | None = None


def known_as(dtype: pa.DataType) -> Known:
    """A column of an Arrow type."""
    return known_field(pa.field("", dtype))


def known_field(field: pa.Field) -> Known:
    """A column of a table or of a part of the query."""
    dtype = field.type
    try:
        return Known(from_field(field, column=""), dtype)
    except SchemaError:
        return Known(Type(Kind.OTHER, unit=str(dtype), nested=str(dtype)), dtype)


def is_coded(dtype: Type) -> bool:
    """Whether values travel as integers in the place of times.

    DuckDB rounds times in nanoseconds to the next microsecond before 1970, and down after it.
    """
    return dtype.kind is Kind.DURATION or (dtype.kind in TIMESTAMPS and dtype.unit == "ns")


def carried(dtype: Type, zone: str = "UTC") -> pa.DataType:
    """The Arrow type in which values of a type travel."""
    if dtype.kind in _PLAIN:
        return _PLAIN[dtype.kind]
    if dtype.kind is Kind.DECIMAL or not (dtype.unit or fits_int64(dtype.lo, dtype.hi)):
        return pa.decimal128(min(dtype.precision, MOST_DIGITS), dtype.scale)
    if dtype.kind is Kind.INT or is_coded(dtype):
        return pa.int64()
    return pa.timestamp("us", zone) if dtype.kind is Kind.TIMESTAMP else time_type(dtype, zone)


def time_type(dtype: Type, zone: str) -> pa.DataType:
    """The Arrow type of a time, or of an integer that is one."""
    if dtype.kind is Kind.INT:
        return pa.int64()
    if dtype.kind is Kind.DATE:
        return pa.date32()
    return pa.timestamp(dtype.unit, zone if dtype.kind is Kind.TIMESTAMP else None)


#: What a struct is called whose times travel as all do; those in others are as DuckDB has them.
WINDOW = "window"


def window_of(time: Type, zone: str) -> Known:
    """A window: a struct of two times."""
    ends = time_type(time, zone)
    return Known(Type(Kind.OTHER, nested=WINDOW), pa.struct({"start": ends, "end": ends}))


def known_by_name(dtype: exp.DataType | None, zone: str) -> Known | None:
    """A value whose type the parser knows; None if it does not."""
    arrow = None if dtype is None else _arrow(dtype, zone)
    return None if arrow is None else known_as(arrow)


def _arrow(dtype: exp.DataType, zone: str) -> pa.DataType | None:
    if dtype.this is exp.DType.UBIGINT:
        return pa.uint64()
    if dtype.this is exp.DType.DECIMAL and len(dtype.expressions) == 2:
        return pa.decimal128(*(int(one.name) for one in dtype.expressions))
    if dtype.this is exp.DType.ARRAY and dtype.expressions:
        element = _arrow(dtype.expressions[0], zone)
        return None if element is None else pa.list_(element)
    arrow = ARROW_TYPES.get(dtype.this)
    if arrow in (pa.int8(), pa.int16()):  # the parser's for functions of INT, such as year
        return pa.int32()
    return pa.timestamp("us", zone) if arrow == pa.timestamp("us", "UTC") else arrow


_COUNT = Known(int_of(64).within(0, INT64[1]))
_FLOAT = Known(FLOAT64)
#: Nodes that give a value of their first argument.
_OF_FIRST = (exp.Min, exp.Max, exp.ArgMin, exp.ArgMax, exp.Lag, exp.Lead, exp.FirstValue)
_OF_FIRST += (exp.LastValue, exp.NthValue, exp.Distinct, exp.Filter, exp.Window, exp.IgnoreNulls)
_OF_FIRST += (exp.Subquery, exp.Any)
_COUNTS = (exp.Count, exp.CountIf, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_FLOATS = (exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop, exp.Corr)
_FLOATS += (exp.CovarSamp, exp.CovarPop, exp.Median, exp.PercentRank, exp.CumeDist, exp.Avg)
_FLOATS += (exp.PercentileCont, exp.Quantile, exp.WithinGroup)


def type_of_engines(
    tree: exp.Expr, parts: Mapping[str, Known | None], named: Known | None
) -> Known | None:
    """The type of a value that DuckDB computes; None if it is not known.

    Parameters
    ----------
    parts : mapping of argument to Known
    named : Known, optional
        By the parser.
    """
    first = parts.get("this")
    if isinstance(tree, _COUNTS):
        return _COUNT
    if isinstance(tree, exp.Quantile) and not tree.args["quantile"].is_number:
        return known_as(pa.list_(pa.float64()))
    if isinstance(tree, _FLOATS):
        return _FLOAT
    if isinstance(tree, exp.ArraySize):
        return known_as(pa.int32())
    if isinstance(tree, exp.Sum):
        if first is None or first.type.kind not in (Kind.INT, Kind.DECIMAL):
            return _FLOAT if first is not None and first.type.is_float else first
        return Known(sum_type(first.type))
    if isinstance(tree, _OF_FIRST):
        return first
    if isinstance(tree, exp.Dot):
        return _field(first, tree.expression.name)
    return named


def _field(outer: Known | None, name: str) -> Known | None:
    """A field of a struct."""
    if outer is None or outer.arrow is None or not pa.types.is_struct(outer.arrow):
        return None
    fields = [one for one in outer.arrow if one.name.lower() == name.lower()]
    known = known_as(fields[0].type) if len(fields) == 1 else None
    if known is not None and outer.type.nested == WINDOW:
        return Known(known.type)  # a computed time
    return None if known is not None and is_coded(known.type) else known


def element_of(known: Known | None) -> Known | None:
    """Return the type of the elements of a list; None if it is not known."""
    arrow = None if known is None else known.arrow
    is_list = arrow is not None and (pa.types.is_list(arrow) or pa.types.is_large_list(arrow))
    element = known_as(arrow.value_type) if is_list and arrow is not None else None
    return None if element is None or is_coded(element.type) else element


_UNARY = {Op.NEG: exp.Neg, Op.NOT: exp.Not, Op.ABS: exp.Abs}
_BINARY = {Op.ADD: exp.Add, Op.SUB: exp.Sub, Op.MUL: exp.Mul, Op.MOD: exp.Mod, Op.DIV: exp.IntDiv}
_BINARY |= {Op.LT: exp.LT, Op.LE: exp.LTE, Op.EQ: exp.EQ, Op.AND: exp.And, Op.OR: exp.Or}
_ALIKE = _UNARY.keys() | _BINARY.keys() | {Op.CONST, Op.CASE, Op.IS_NULL}
#: Operations that may change the scale of decimals.
_SCALING = (Op.CONST, Op.MUL, Op.IS_NULL)
#: Most nodes of an expression; a longer one is evaluated faster in Penstock.
_MOST = 64
#: Digits of the decimals that DuckDB has in 64 bits.
_NARROW_DIGITS = 18


def in_words(root: Expr, columns: Mapping[Expr, exp.Expr]) -> exp.Expr | None:
    """Write an expression of exact numbers and truth values in DuckDB's words.

    Parameters
    ----------
    columns : mapping of Expr to sqlglot's expression
        Columns, and what DuckDB computes, as they are written.

    Returns
    -------
    sqlglot's expression or None
        None where DuckDB might have another value, or none.
    """
    nodes = [*walk(root)]
    operands = [arg for one in nodes for arg in one.args if arg.args]
    # The text has an operand as often as it is used, and so each operand of that one.
    if len(nodes) > _MOST or len(set(operands)) < len(operands):
        return None
    written: dict[Expr, exp.Expr] = {}
    for one in nodes:
        if one in columns:
            is_tested = one is not root and all(
                user.op is Op.IS_NULL for user in nodes if one in user.args
            )
            if not is_tested and _type_in_words(one.type) is None:
                return None
            written[one] = _typed(one.type, columns[one].copy())
        elif _is_alike(one):
            written[one] = _node(one, [written[arg].copy() for arg in one.args])
        else:
            return None
    return written[root]


def _type_in_words(dtype: Type) -> exp.DataType | None:
    """DuckDB's type that has every value of a type; None if it has none."""
    if dtype.kind is Kind.BOOL:
        return exp.DataType.build("boolean")
    if not dtype.is_integral:
        return None
    if carried(dtype) == pa.int64():
        return exp.DataType.build("bigint")
    is_known = _is_decimal(dtype) and dtype.precision <= MOST_DIGITS
    return _decimal(dtype.precision, dtype.scale) if is_known else None


def _decimal(digits: int, scale: int) -> exp.DataType:
    return exp.DataType.build(f"decimal({digits}, {scale})")


def _is_alike(one: Expr) -> bool:
    """Whether DuckDB has the value of a node if it has the values of the operands."""
    if _type_in_words(one.type) is None:
        return False
    if one.op is Op.CAST:
        return keeps_raw(one.args[0].type, one.type)
    if one.op not in _ALIKE:
        return False
    if one.op is Op.MUL and not _appends_digits(one):
        return one.type.scale == sum(arg.type.scale for arg in one.args)
    numbers = [arg.type for arg in (one, *one.args) if arg.type.is_integral]
    if one.op not in _SCALING and len({dtype.scale for dtype in numbers}) > 1:
        return False
    if one.op in (Op.MOD, Op.DIV):
        return one.args[1].type.lo > 0 and not any(map(_is_decimal, numbers))
    return not one.type.unit or fits_int64(one.type.lo, one.type.hi)


def _is_decimal(dtype: Type) -> bool:
    """Whether values are decimals in DuckDB, as integers of more than 64 bits are."""
    return dtype.is_integral and pa.types.is_decimal(carried(dtype))


def _appends_digits(one: Expr) -> bool:
    """Whether a product writes a decimal with more digits after the point, and leaves its value."""
    number, factor = one.args
    power = one.type.scale - number.type.scale
    return power > 0 and factor.is_const and factor.attr == 10**power


def _typed(dtype: Type, tree: exp.Expr) -> exp.Expr:
    """A value that DuckDB may have in another type, such as a column of narrower integers."""
    to = _type_in_words(dtype)
    return tree if to is None else ours(exp.Cast(this=tree, to=to))


def _node(one: Expr, args: list[exp.Expr]) -> exp.Expr:
    """One node, of operands that are written."""
    if one.op is Op.CONST:
        return _typed(one.type, _constant(one))
    if one.op is Op.CAST or (one.op is Op.MUL and _appends_digits(one)):
        return _typed(one.type, args[0])
    if any(_is_decimal(node.type) for node in (one, *one.args)):
        args = _as_decimals(one, args)
    if one.op is Op.CASE:
        ifs = [exp.If(this=a, true=b) for a, b in zip(args[:-1:2], args[1::2], strict=True)]
        tree: exp.Expr = exp.Case(ifs=ifs, default=args[-1])
    elif one.op is Op.IS_NULL:
        tree = exp.Is(this=args[0], expression=exp.null())
    elif one.op in _UNARY:
        tree = _UNARY[one.op](this=args[0])
    else:
        binary = _BINARY[one.op]
        tree = reduce(lambda a, b: ours(binary(this=a, expression=b)), args)
    tree = exp.paren(ours(tree), copy=False)
    return _typed(one.type, tree) if _is_decimal(one.type) else tree


def _as_decimals(one: Expr, args: list[exp.Expr]) -> list[exp.Expr]:
    """The operands of a node with so many digits that DuckDB gives the result enough."""
    # Of two operands of at most 18 digits, DuckDB gives no sum or product of more.
    is_wide = one.op in (Op.ADD, Op.SUB, Op.MUL) and one.type.precision > _NARROW_DIGITS
    cast = []
    for arg, tree in zip(one.args, args, strict=True):
        digits = max(arg.type.precision, _NARROW_DIGITS + 1 if is_wide and not cast else 0)
        is_same = not arg.type.is_integral or (
            _is_decimal(arg.type) and digits == arg.type.precision
        )
        to = _decimal(digits, arg.type.scale)
        cast.append(tree if is_same else ours(exp.Cast(this=tree, to=to)))
    return cast


def _constant(one: Expr) -> exp.Expr:
    """A constant as SQL writes it."""
    if one.attr is None or not one.type.scale:
        return exp.convert(one.attr)
    digits = tuple(map(int, str(abs(one.attr))))
    literal = exp.Literal.number(f"{Decimal((0, digits, -one.type.scale)):f}")
    return exp.Neg(this=literal) if one.attr < 0 else literal
