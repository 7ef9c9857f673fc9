"""The values of an IN list."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from ..types import INT64
from .values import order_key

#: Most values of a list in a text.
_SHOWN = 8


class Members:
    """Distinct constants of one type, ascending, as a node's attribute.

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
