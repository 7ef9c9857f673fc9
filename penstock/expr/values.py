"""Order of values, substitutes for NULL, CAST, and lists of IN."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DataError
from ..types import INT64, TIMESTAMPS, UNIT_NS, Kind, Type

#: Most values of a list in a text.
_SHOWN = 8
_ZEROS = {Kind.BOOL: False, Kind.FLOAT32: 0.0, Kind.FLOAT64: 0.0, Kind.STRING: "", Kind.BINARY: b""}


def order_key(value: Any) -> Any:
    """A key that sorts floats as Spark does: NaN equals NaN and is above all, -0.0 is 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def zero_of(dtype: Type) -> Any:
    """The value a device sees in place of NULL."""
    return _ZEROS.get(dtype.kind, 0)


def cast_value(value: Any, source: Type, target: Type) -> Any:
    """Cast one value, between types that :func:`penstock.expr.ops.cast` allows.

    Raises
    ------
    DataError
        The value does not fit the target type.
    """
    if target.is_float:
        if target.kind is Kind.FLOAT32:
            return _single(value, 10**source.scale)
        return value / 10**source.scale if source.kind is Kind.DECIMAL else float(value)
    if source.is_float:
        if not math.isfinite(value):
            raise DataError(f"CAST of {value} to {target}: it is not a finite number")
        if target.kind is Kind.DECIMAL:
            number = _half_up(value * 10**target.scale)
        else:
            number = math.trunc(value)
    else:
        number = _integral_cast(int(value), source, target)
    if not target.lo <= number <= target.hi:
        raise DataError(
            f"CAST of {value} to {target} overflows {target.lo}..{target.hi}; "
            "cast to a wider type or filter the row"
        )
    return number


def _integral_cast(value: int, source: Type, target: Type) -> int:
    if source.unit and target.unit:
        return value * UNIT_NS[source.unit] // UNIT_NS[target.unit]
    if source.kind in TIMESTAMPS:  # to an integer: whole seconds, as Spark
        return value * UNIT_NS[source.unit] // UNIT_NS["s"]
    if target.scale >= source.scale:
        return value * 10 ** (target.scale - source.scale)
    step = 10 ** (source.scale - target.scale)
    if target.kind is Kind.DECIMAL:
        return (abs(value) * 2 + step) // (2 * step) * (-1 if value < 0 else 1)
    return abs(value) // step * (-1 if value < 0 else 1)


def _single(value: float, divisor: int) -> float:
    """Divide to a float32 with one rounding; by way of float64 there would be two."""
    with np.errstate(all="ignore"):
        near = np.float32(value / divisor if divisor > 1 else float(value))
        if isinstance(value, float) or not np.isfinite(near):
            return float(near)
        around = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]
    exact = Fraction(value, divisor)
    # Of two at equal distance, the one with 0 as its last bit.
    candidates = [x for x in (near, *around) if np.isfinite(x)]
    best = min(
        candidates, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1)
    )
    return float(best)


def _half_up(value: float) -> int:
    return math.floor(abs(value) + 0.5) * (-1 if value < 0 else 1)


class Members:
    """The values of an IN list: distinct constants of one type, ascending, as a node's attribute.

    Parameters
    ----------
    values : iterable of int, float, str or bytes
        All of one type; integers are in units of the type's scale.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        # Values that compare equal are one: 0.0 and -0.0.
        self.values: tuple[Any, ...] = tuple(
            sorted({order_key(v): v for v in values}.values(), key=order_key)
        )

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        """A text that differs wherever the values do: nodes are interned by it."""
        return f"<{len(self.values)} values, {self._digest}>"

    def __contains__(self, value: Any) -> bool:
        return order_key(value) in self._keys

    def isin(self, values: np.ndarray) -> np.ndarray:
        """Tell for each value whether it is in the list, as an array of bool."""
        if values.dtype == object:
            is_member = [value in self for value in values.flat]
            return np.array(is_member, dtype=bool).reshape(values.shape)
        if values.dtype.kind == "f":
            known = np.array(self.values, np.float64)
            is_member = np.isin(values.astype(np.float64), known[known == known])
            return is_member | np.isnan(values) if np.isnan(known).any() else is_member
        return np.isin(values, self._int64)

    def text(self) -> str:
        """The list as a person reads it, cut where it is long."""
        shown = ", ".join(map(repr, self.values[:_SHOWN]))
        more = len(self.values) - _SHOWN
        return f"({shown}, and {more} more)" if more > 0 else f"({shown})"

    @cached_property
    def _keys(self) -> frozenset[Any]:
        return frozenset(map(order_key, self.values))

    @cached_property
    def _int64(self) -> np.ndarray:
        return np.array([v for v in self.values if INT64[0] <= v <= INT64[1]], np.int64)

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(repr(self.values).encode()).hexdigest()
