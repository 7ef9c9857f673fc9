"""Scalar types with exact value ranges.

Every integer-like value (integers, decimals, dates, timestamps, durations) is an exact integer of
a known interval ``[lo, hi]``; a decimal carries the power of ten it is scaled by, a time its unit.
Widths follow from intervals, so a result can never overflow.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

import pyarrow as pa

from .errors import SchemaError


class Kind(Enum):
    """The meaning of a value. INT to DURATION are integers."""

    # Members are equal by identity only; Enum's own hash is in Python, and called often.
    __hash__ = object.__hash__

    INT = "integer"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"  # an instant
    TIMESTAMP_NTZ = "timestamp_ntz"  # a wall clock, of no particular zone
    DURATION = "duration"
    BOOL = "boolean"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    STRING = "string"
    BINARY = "binary"
    NULL = "null"
    OTHER = "other"  # lists, structs, ...: passed through, not computed with


TIMESTAMPS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
TIMES = TIMESTAMPS | {Kind.DATE}
INTEGRAL = TIMES | {Kind.INT, Kind.DECIMAL, Kind.DURATION}
FLOATING = frozenset({Kind.FLOAT32, Kind.FLOAT64})
TEXTUAL = frozenset({Kind.STRING, Kind.BINARY})

#: The least and the greatest machine integer of 64 bits.
INT64 = (-(1 << 63), (1 << 63) - 1)

#: Digits of Spark's widest decimal.
MOST_DIGITS = 38

_BITS = {Kind.BOOL: 1, Kind.FLOAT32: 32, Kind.FLOAT64: 64}

#: Key, in the metadata of Arrow fields of decimals, of the bounds of the integers that these are.
_BOUNDS = b"penstock integers"

#: Length of one unit of time in nanoseconds.
UNIT_NS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class Type:
    """Type of an expression.

    Parameters
    ----------
    kind : Kind
        Meaning of the value.
    lo, hi : int
        Exact bounds of an integer-like value, both included, in units of ``10**-scale`` (decimals)
        or of ``unit`` (times). Zero for the other kinds.
    scale : int
        Decimal digits after the point; 0 unless ``kind`` is DECIMAL.
    unit : str
        "D", "s", "ms", "us" or "ns" for times, Arrow's name of the type where ``kind`` is OTHER, ""
        otherwise.
    nullable : bool
        Whether a value may be NULL.
    nested : str
        Arrow's name of a list, struct or map, whose ``kind`` is OTHER; "" for all other types.
    digits : int
        Decimal digits of the type of a DECIMAL, at least those of its bounds; 0 for exactly those,
        and for other kinds.
    """

    kind: Kind
    lo: int = 0
    hi: int = 0
    scale: int = 0
    unit: str = ""
    nullable: bool = True
    nested: str = ""
    # Not shown: fingerprints of queries hold types as they are shown.
    digits: int = field(default=0, repr=False)

    @property
    def is_integral(self) -> bool:
        return self.kind in INTEGRAL

    @property
    def is_float(self) -> bool:
        return self.kind in FLOATING

    @property
    def is_text(self) -> bool:
        return self.kind in TEXTUAL

    @property
    def signed(self) -> bool:
        """Whether a register for this value needs a sign bit."""
        return self.lo < 0

    @property
    def bits(self) -> int:
        """Width in bits of a register that holds every value in ``[lo, hi]``; 1 for booleans."""
        return _BITS[self.kind] if self.kind in _BITS else bits_for(self.lo, self.hi)

    @property
    def signed_bits(self) -> int:
        """Width of a signed register that holds every value of an integer type."""
        return self.bits + (not self.signed)

    @property
    def precision(self) -> int:
        """Decimal digits of an integer or decimal."""
        return self.digits or max(len(str(abs(self.lo))), len(str(abs(self.hi))), self.scale)

    def within(self, lo: int, hi: int) -> Type:
        """The same type with other bounds."""
        return Type(self.kind, lo, hi, self.scale, self.unit, self.nullable, "", self.digits)

    def in_unit(self, unit: str) -> Type:
        """The same kind of time in another unit, of any value of 64 bits."""
        return Type(self.kind, *INT64, unit=unit, nullable=self.nullable)

    def as_nullable(self, nullable: bool) -> Type:
        """The same type, with or without NULL."""
        if nullable == self.nullable:
            return self
        fields = self.lo, self.hi, self.scale, self.unit
        return Type(self.kind, *fields, nullable, self.nested, self.digits)

    def __str__(self) -> str:
        text = self.kind.value
        if self.kind is Kind.DECIMAL:
            text += f"(scale {self.scale})"
        if self.unit and self.kind is not Kind.DATE:
            text += f"[{self.unit}]"
        return text


def bits_for(lo: int, hi: int) -> int:
    """Bits of the smallest register that holds all of ``[lo, hi]``; signed if ``lo < 0``."""
    if lo < 0:
        return max((-lo - 1).bit_length(), hi.bit_length() if hi > 0 else 0) + 1
    return max(hi.bit_length(), 1)


BOOL = Type(Kind.BOOL)
NULL = Type(Kind.NULL)
FLOAT32 = Type(Kind.FLOAT32)
FLOAT64 = Type(Kind.FLOAT64)
STRING = Type(Kind.STRING)
BINARY = Type(Kind.BINARY)


def integer(lo: int, hi: int, *, nullable: bool = True) -> Type:
    """Integer of the interval ``[lo, hi]``."""
    return Type(Kind.INT, lo, hi, nullable=nullable)


def int_of(bits: int, *, signed: bool = True, nullable: bool = True) -> Type:
    """Machine integer of ``bits`` bits."""
    if signed:
        return integer(-(1 << (bits - 1)), (1 << (bits - 1)) - 1, nullable=nullable)
    return integer(0, (1 << bits) - 1, nullable=nullable)


def decimal(precision: int, scale: int, *, nullable: bool = True) -> Type:
    """Decimal of ``precision`` digits, with ``scale`` digits after the point."""
    bound = 10**precision - 1
    return Type(Kind.DECIMAL, -bound, bound, scale, nullable=nullable, digits=precision)


_OF_ARROW = {
    pa.bool_(): BOOL,
    pa.float32(): FLOAT32,
    pa.float64(): FLOAT64,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.binary(): BINARY,
    pa.large_binary(): BINARY,
}


def from_arrow(dtype: pa.DataType, *, column: str, nullable: bool = True) -> Type:
    """Type of an Arrow column.

    Raises
    ------
    SchemaError
        The Arrow type has no meaning in Penstock (lists, structs, ...); ``column`` is named.
    """
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    if dtype in _OF_ARROW:
        return _OF_ARROW[dtype].as_nullable(nullable)
    if pa.types.is_integer(dtype):
        signed = pa.types.is_signed_integer(dtype)
        return int_of(dtype.bit_width, signed=signed, nullable=nullable)
    if pa.types.is_decimal(dtype):
        return decimal(dtype.precision, max(dtype.scale, 0), nullable=nullable)
    if pa.types.is_date(dtype):
        return replace(int_of(32), kind=Kind.DATE, unit="D", nullable=nullable)
    if pa.types.is_timestamp(dtype):
        kind = Kind.TIMESTAMP_NTZ if dtype.tz is None else Kind.TIMESTAMP
        return replace(int_of(64), kind=kind, unit=dtype.unit, nullable=nullable)
    if pa.types.is_duration(dtype):
        return replace(int_of(64), kind=Kind.DURATION, unit=dtype.unit, nullable=nullable)
    if pa.types.is_null(dtype):
        return NULL
    raise SchemaError(
        f"column {column} has type {dtype}, which cannot be joined on; leave it out of the "
        "predicate and of computed columns"
    )


def from_field(field: pa.Field, *, column: str) -> Type:
    """Type of an Arrow column, an integer where :func:`marked` noted that its decimals are.

    Raises
    ------
    SchemaError
        As for :func:`from_arrow`.
    """
    bounds = (field.metadata or {}).get(_BOUNDS)
    if bounds is None:
        return from_arrow(field.type, column=column, nullable=field.nullable)
    return integer(*map(int, bounds.split()), nullable=field.nullable)


def marked(field: pa.Field, dtype: Type) -> pa.Field:
    """Note the type of integers beyond 64 bits in their field, since Arrow has decimals for them.

    Only parts of a query give such fields to one another; no user sees them, or can give them.
    """
    if dtype.kind is Kind.INT and pa.types.is_decimal(field.type):
        return field.with_metadata({_BOUNDS: f"{dtype.lo} {dtype.hi}"})
    return field


def unmarked(field: pa.Field) -> pa.Field:
    """Take the note of :func:`marked` off a user's column, which has the values of its type."""
    metadata = {key: text for key, text in (field.metadata or {}).items() if key != _BOUNDS}
    return field.with_metadata(metadata)
