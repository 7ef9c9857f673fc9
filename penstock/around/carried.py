"""Types of values between Penstock's expressions and DuckDB: how they travel, and come back.

DuckDB has no instants in nanoseconds, and no durations that keep their order: these travel as the
integers that they are, in their own unit, and get their type back where they leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from ..errors import SchemaError
from ..expr.vector import fits_int64
from ..query.aggregates import sum_type
from ..query.constants import ARROW_TYPES
from ..types import FLOAT64, INT64, MOST_DIGITS, TIMESTAMPS, Kind, Type, from_arrow, int_of

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
    try:
        return Known(from_arrow(dtype, column=""), dtype)
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
