"""Keys as parameters of a statement: arrays that PostgreSQL compares with the key's columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector
from penstock.types import from_arrow

from ...rows.columns import to_arrow
from .server_columns import LEAST_DAY, LEAST_US, PostgresColumn, quoted

_DAYS = (LEAST_DAY, (1 << 31) - 1)
_MICROSECONDS = (LEAST_US, (1 << 63) - 1)
_INT64 = (-(1 << 63), (1 << 63) - 1)
#: Python's codecs of PostgreSQL's encodings that are not Unicode.
_CODECS = {
    **{f"LATIN{n}": f"iso8859_{n}" for n in range(1, 5)},
    "LATIN5": "iso8859_9",
    "LATIN6": "iso8859_10",
    "LATIN7": "iso8859_13",
    "LATIN8": "iso8859_14",
    "LATIN9": "iso8859_15",
    "LATIN10": "iso8859_16",
    **{f"ISO_8859_{n}": f"iso8859_{n}" for n in range(5, 9)},
    **{f"WIN{n}": f"cp{n}" for n in (866, 874, *range(1250, 1259))},
    "KOI8R": "koi8_r",
    "KOI8U": "koi8_u",
    "EUC_JP": "euc_jp",
    "EUC_KR": "euc_kr",
    "EUC_CN": "gb2312",
}


def has_keys_in(encoding: str) -> bool:
    """Whether it is known which texts a database with an encoding can hold."""
    return encoding in ("UTF8", "SQL_ASCII") or encoding in _CODECS


def condition(key: Sequence[PostgresColumn]) -> str:
    """SQL condition: a row's key is among the arrays ``$1``, ``$2``, ...; each row comes once."""
    names = [quoted(one.name) for one in key]
    if len(names) == 1:
        return f"{names[0]} = ANY ($1)"
    places = ", ".join(f"${n + 1}" for n in range(len(names)))
    # A join would double rows where two keys are equal to PostgreSQL, by a collation.
    return f"({', '.join(names)}) IN (SELECT * FROM unnest({places}))"


def parameters(
    key: Sequence[PostgresColumn], values: Sequence[Vector], encoding: str
) -> pa.RecordBatch | None:
    """Parameters of :func:`condition`, without keys that the table cannot hold; None if all are.

    Parameters
    ----------
    key : sequence of PostgresColumn
    values : sequence of Vector, each of shape (keys,)
        Of the key's columns, without NULL: integers in the column's scale or unit, floats, texts.
    encoding : str
        Encoding of the database.
    """
    fits = np.ones(len(values[0].values), bool)
    for column, vector in zip(key, values, strict=True):
        fits &= _fits(column, vector.values, encoding)
    rows = np.flatnonzero(fits)
    if not len(rows):
        return None
    arrays = [_array(one, vector.values[rows]) for one, vector in zip(key, values, strict=True)]
    lists = [pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), a) for a in arrays]
    return pa.RecordBatch.from_arrays(lists, names=[str(n) for n in range(len(lists))])


def _fits(column: PostgresColumn, values: np.ndarray, encoding: str) -> np.ndarray:
    """Whether the column could hold each value; the server would refuse the others."""
    dtype = column.type
    if pa.types.is_string(dtype):
        codec = _CODECS.get(encoding)
        return np.fromiter((_is_text(v, codec) for v in values), bool, len(values))
    if pa.types.is_decimal(dtype):
        most = 10**dtype.precision
        return _within(values, (1 - most, most - 1))
    if pa.types.is_date32(dtype):
        return _within(values, _DAYS)
    if pa.types.is_timestamp(dtype):
        return _within(values, _MICROSECONDS)
    if pa.types.is_integer(dtype):
        return _within(values, _INT64)
    return np.ones(len(values), bool)


def _within(values: np.ndarray, ends: tuple[int, int]) -> np.ndarray:
    if values.dtype != object:
        ends = max(ends[0], _INT64[0]), min(ends[1], _INT64[1])
    return ((values >= ends[0]) & (values <= ends[1])).astype(bool)


def _is_text(value: str, codec: str | None) -> bool:
    if "\0" in value:
        return False
    if codec is None:
        return True
    try:
        value.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


def _array(column: PostgresColumn, values: np.ndarray) -> pa.Array:
    dtype = column.type
    if pa.types.is_integer(dtype):
        # The stream's value may be wider than the column, which makes it no match.
        return pa.array(values.astype(np.int64))
    if pa.types.is_floating(dtype):
        return pa.array(values.astype(np.float64))
    return to_arrow(Vector(values), from_arrow(dtype, column=column.name), dtype)
