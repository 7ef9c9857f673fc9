"""Arrow columns to exact vectors and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError, QueryError, SchemaError
from penstock.expr.columns import Vector, int_vector
from penstock.types import Kind, Type

from . import gather

_INT64 = (-(1 << 63), (1 << 63) - 1)
#: Fewest texts to number.
_SOME_TEXTS = 1 << 8
#: Arrow has no unit of days for durations.
SECONDS_OF_DAY = 86_400


def load(
    table: pa.Table | pa.RecordBatch, names: Iterable[str], scales: Mapping[str, int], where: str
) -> dict[str, Vector]:
    """Vectors of some columns.

    Parameters
    ----------
    table : Table or RecordBatch
    names : iterable of str
    scales : mapping of column to decimal digits
        Float columns that hold fixed-point numbers.
    where : str
        Name of the table in error messages.

    Raises
    ------
    SchemaError
        A column is missing.
    DataError
        A value of a fixed-point column is off its grid.
    """
    out = {}
    for name in names:
        if name not in table.schema.names:
            raise SchemaError(
                f"table {where} has no column {name}; it has {', '.join(table.schema.names)}"
            )
        column = table.column(name)
        if column.null_count and not table.schema.field(name).nullable:
            raise DataError(
                f"{where}.{name} holds NULL, but its schema says that it never does; mend the "
                "schema or the data"
            )
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        out[name] = vector(array, scales.get(name), f"{where}.{name}")
    return out


def vector(array: pa.Array, digits: int | None, where: str) -> Vector:
    """Exact vector of one Arrow array; see :func:`load`."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    dtype = array.type
    if pa.types.is_dictionary(dtype):
        words = array.dictionary
        is_short = 0 < len(words) <= len(array) and not words.null_count
        if is_short and _is_text(dtype.value_type):
            return _of_dictionary(array, gather.valid(array))
        array, dtype = array.dictionary_decode(), dtype.value_type
    if pa.types.is_null(dtype):
        return Vector(np.zeros(len(array), dtype=np.int64), np.zeros(len(array), dtype=bool))
    valid = gather.valid(array)
    if digits is not None:
        return _fixed_point(array, valid, digits, where)
    if pa.types.is_decimal(dtype):
        return _decimals(array, valid)
    if gather.word(dtype) is not None:
        return _numbers(array, valid)
    if valid is not None:
        array = pc.fill_null(array, pa.scalar(False if pa.types.is_boolean(dtype) else b"", dtype))
    if len(array) > _SOME_TEXTS and _is_text(dtype):
        return _of_dictionary(array.dictionary_encode(), valid)
    return Vector(array.to_numpy(zero_copy_only=False), valid)


def _is_text(dtype: pa.DataType) -> bool:
    kinds = pa.types.is_string, pa.types.is_large_string, pa.types.is_binary
    return any(is_one(dtype) for is_one in (*kinds, pa.types.is_large_binary))


def _of_dictionary(array: pa.DictionaryArray, valid: np.ndarray | None) -> Vector:
    """Texts by number; rows of equal ones share an object."""
    names, place = numbered(array.dictionary)
    objects = np.empty(len(names), dtype=object)
    objects[place] = array.dictionary.to_numpy(zero_copy_only=False)
    rows = place.astype(np.int32)[pc.fill_null(array.indices, 0).to_numpy()]
    return Vector(objects[rows], valid, texts=(names, rows))


def numbered(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Distinct texts as bytes, ascending, and the place of each row's among them; none is NULL."""
    encoded = texts.cast(pa.large_binary()).dictionary_encode()
    order = pc.call_function("sort_indices", [encoded.dictionary])
    names = np.empty(len(order), dtype=object)
    names[:] = encoded.dictionary.take(order).to_pylist()
    place = np.empty(len(order), dtype=np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    return names, place[encoded.indices.to_numpy()]


def _numbers(array: pa.Array, valid: np.ndarray | None) -> Vector:
    dtype = array.type
    if pa.types.is_date64(dtype):
        array = array.cast(pa.date32())
    word = gather.word(array.type)
    assert word is not None
    kind = "f" if pa.types.is_floating(dtype) else "i"
    values = gather.values(
        array, word if pa.types.is_unsigned_integer(dtype) else np.dtype(f"{kind}{word.itemsize}")
    )
    if valid is not None:
        values = np.where(valid, values, values.dtype.type(0))
    if kind == "f":
        return Vector(values, valid)
    if values.dtype == np.uint64:
        if values.size and int(values.max()) > _INT64[1]:
            return int_vector(values.astype(object), valid)
        values = values.view(np.int64)
    return int_vector(values, valid)


def _decimals(array: pa.Array, valid: np.ndarray | None) -> Vector:
    """Unscaled integers straight from the buffer: little-endian words of 64 bits."""
    if array.type.bit_width not in (128, 256):
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    words = array.type.bit_width // 64
    buffer = array.buffers()[1]
    raw = np.frombuffer(buffer, dtype=np.int64)
    raw = raw[array.offset * words : (array.offset + len(array)) * words].reshape(-1, words)
    raw = raw if valid is None else np.where(valid[:, None], raw, 0)
    low = raw[:, 0].copy()
    if np.all(raw[:, 1:] == (low >> 63)[:, None]):
        return int_vector(low, valid)
    total = raw[:, -1].astype(object)
    for word in range(words - 2, -1, -1):
        total = (total << 64) | raw[:, word].view(np.uint64).astype(object)
    return int_vector(total, valid)


def _fixed_point(array: pa.Array, valid: np.ndarray | None, digits: int, where: str) -> Vector:
    """Floats that are decimals of ``digits`` digits, as the integers they stand for."""
    if pa.types.is_integer(array.type):
        plain = vector(array, None, where).values.astype(object) * 10**digits
        if plain.size and max(abs(int(plain.min())), abs(int(plain.max()))) >= 10**18:
            raise DataError(f"{where} with {digits} decimal digits needs more than 18 digits")
        return int_vector(plain.astype(np.int64), valid)
    filled = array if valid is None else pc.fill_null(array, pa.scalar(0.0, array.type))
    values = filled.to_numpy(zero_copy_only=False)
    step = 10.0**digits
    with np.errstate(all="ignore"):
        scaled = np.rint(values.astype(np.float64) * step)
        back = (scaled / step).astype(values.dtype)
    bad = ~(back == values) | ~(np.abs(scaled) < 2.0**53)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{where} is declared with {digits} decimal digits, but row {row} holds "
            f"{values[row].item()!r}; declare more digits, or round the column first"
        )
    return int_vector(scaled.astype(np.int64), valid)


# -- back to Arrow --------------------------------------------------------------------------------


def arrow_type(dtype: Type, name: str, zone: str | None = None) -> pa.DataType:
    """Arrow type of a computed column: the smallest of int64, uint64 and the decimals that fits.

    Parameters
    ----------
    dtype : Type
    name : str
        Of the column, for messages.
    zone : str or None
        Time zone of instants; None for timestamps without one.

    Raises
    ------
    QueryError
        The value may need more than 76 digits.
    """
    if dtype.kind is Kind.INT and _INT64[0] <= dtype.lo and dtype.hi <= _INT64[1]:
        return pa.int64()
    if dtype.kind is Kind.INT and dtype.lo >= 0 and dtype.hi < 1 << 64:
        return pa.uint64()
    if dtype.kind in (Kind.INT, Kind.DECIMAL):
        digits = dtype.precision
        if digits > 76:
            raise QueryError(f"output column {name} may need {digits} digits; CAST its operands")
        make = pa.decimal128 if digits <= 38 else pa.decimal256
        return make(digits, dtype.scale)
    unit = "s" if dtype.unit == "D" else dtype.unit
    return {
        Kind.BOOL: pa.bool_(),
        Kind.FLOAT32: pa.float32(),
        Kind.FLOAT64: pa.float64(),
        Kind.STRING: pa.string(),
        Kind.BINARY: pa.binary(),
        Kind.NULL: pa.null(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp(unit or "us", zone),
        Kind.TIMESTAMP_NTZ: pa.timestamp(unit or "us"),
        Kind.DURATION: pa.duration(unit or "us"),
    }[dtype.kind]


def to_arrow(v: Vector, dtype: Type, target: pa.DataType) -> pa.Array:
    """Arrow array of a computed column.

    Raises
    ------
    DataError
        A date, time or duration lies outside the bits of its type.
    """
    mask = None if v.valid is None else ~v.valid
    values = v.values
    if pa.types.is_null(target):
        return pa.nulls(len(values))
    if pa.types.is_decimal(target):
        return _to_decimals(values, v.valid, target)
    if pa.types.is_temporal(target):
        is_of_days = dtype.unit == "D" and not pa.types.is_date32(target)
        scale = SECONDS_OF_DAY if is_of_days else 1
        steps = _steps(values, mask, target, scale, target.bit_width)
        return gather.array_of(target, steps, v.valid)
    if pa.types.is_integer(target):
        wide = pa.uint64() if pa.types.is_uint64(target) else pa.int64()
        return gather.array_of(wide, values.astype(wide.to_pandas_dtype(), copy=False), v.valid)
    if values.dtype == object:
        return pa.array(list(values), type=target, mask=mask)
    return pa.array(np.ascontiguousarray(values), type=target, mask=mask)


def _steps(
    values: np.ndarray, mask: np.ndarray | None, target: pa.DataType, scale: int, bits: int
) -> np.ndarray:
    """Values of a temporal type times ``scale``, as integers of so many bits; 0 where masked."""
    if mask is not None:
        values = np.where(mask, 0, values)
    if len(values):
        ends = (int(values.min()) * scale, int(values.max()) * scale)
        if ends[0] < -(1 << (bits - 1)) or ends[1] >= 1 << (bits - 1):
            raise DataError(
                f"a computed {target} needs more than {bits} bits; leave such rows out with WHERE "
                "or a subquery in FROM, or compute in a coarser unit"
            )
    return values.astype(np.int32 if bits == 32 else np.int64) * scale


def _to_decimals(values: np.ndarray, valid: np.ndarray | None, target: pa.DataType) -> pa.Array:
    words = np.empty((len(values), target.bit_width // 64), np.int64)
    if values.dtype == object:
        for word in range(words.shape[1]):
            limb = (values >> (64 * word)) & ((1 << 64) - 1)
            words[:, word] = limb.astype(np.uint64).view(np.int64)
    else:
        words[:, 0] = values
        words[:, 1:] = (words[:, 0] >> 63)[:, None]
    return gather.array_of(target, words, valid)
