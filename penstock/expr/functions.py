"""Functions of floats: what they are called, what they take, and how columns go through them.

What they compute stands in :mod:`.scalars`, once for columns and for the pairs of a join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ..types import FLOAT64, INT64, Type, integer

#: As Java's ``Math.toRadians`` and ``toDegrees`` multiply.
RADIANS, DEGREES = 0.017453292519943295, 57.29577951308232
#: Metres: the mean radius of the Earth.
EARTH_RADIUS_M = 6371008.8


@dataclass(frozen=True)
class Function:
    """A total, pure function of float64 values.

    Parameters
    ----------
    name : str
        Of its definition in :mod:`.scalars`.
    arity : int
        Number of arguments.
    type : Type
        Of its value.
    """

    name: str
    arity: int = 1
    type: Type = FLOAT64

    @property
    def source(self) -> str:
        """How compiled code that has imported the module ``scalars`` names it."""
        return f"scalars.{self.name}"

    def __call__(self, *args: np.ndarray) -> np.ndarray:
        """Compute it for the values of columns.

        Parameters
        ----------
        args : ndarray of float64, of one shape
        """
        flat = [np.ascontiguousarray(arg, np.float64).reshape(-1) for arg in args]
        out = np.empty(flat[0].shape, np.int64 if self.type.is_integral else np.float64)
        _loop(self.name)(*flat, out)
        return out.reshape(args[0].shape)


_BIGINT = integer(*INT64)

_EVERY: Sequence[Function] = (
    *map(Function, ("sqrt", "cbrt", "exp", "ln", "log10", "log1p", "expm1")),
    *map(Function, ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")),
    *(Function(name, 2) for name in ("divide", "power", "atan2", "hypot", "rounded")),
    *(Function(name, 1, _BIGINT) for name in ("floor", "ceil")),
    Function("haversine", 4),
)
FUNCTIONS = {one.name: one for one in _EVERY}


@cache
def _loop(name: str) -> Callable[..., Any]:
    return import_module(".scalars", __package__).loop(name)
