"""Functions of floats, compiled: each gives the value of Java's ``Math``, as Spark does.

Nothing here traps or raises, whatever the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.errors import NumbaError

from ..errors import UsageError
from ..kept_code import keep
from . import functions
from .functions import EARTH_RADIUS_M, FUNCTIONS, RADIANS

#: From here on float64 has no fractions.
_NO_FRACTIONS = 2.0**52
_LEAST_BIGINT, _ABOVE_BIGINT = -(2.0**63), 2.0**63

_compiled = njit(error_model="numpy")
#: Functions whose value the C library has as Java does.
_OF_C: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt,
    "ln": math.log,
    **{name: getattr(math, name) for name in ("exp", "log10", "log1p", "expm1", "hypot")},
    **{name: getattr(math, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: getattr(math, name) for name in ("sinh", "cosh", "tanh")},
}


def _of_c(function: Callable[..., Any]) -> Any:
    @_compiled
    def call(*args):
        return function(*args)

    return call


globals().update({name: _of_c(function) for name, function in _OF_C.items()})


@_compiled
def divide(a, b):
    return a / b


@_compiled
def cbrt(x):
    root = np.cbrt(x)
    if root == 0.0 or not abs(root) < np.inf:
        return root
    # The C library's may be off by more than the last bit.
    return root - (root * root * root - x) / (3.0 * root * root)


@_compiled
def atan2(y, x):
    return math.atan2(y + 0.0, x + 0.0)  # which has no -0.0


@_compiled
def power(a, b):
    # C has 1 ** NaN and (-1) ** inf as 1, Java as NaN.
    if b != b or (abs(a) == 1.0 and abs(b) == np.inf):
        return np.nan
    return math.pow(a, b)


@_compiled
def rounded(x, digits):
    """HALF_UP at a decimal digit, of the shortest decimal that reads as ``x``.

    Such a decimal is half-way if ``x`` is the float nearest to what is half-way.
    """
    ten = math.pow(10.0, abs(digits))
    size = abs(x)
    scaled = size * ten if digits >= 0.0 else size / ten
    if not scaled < _NO_FRACTIONS:
        return x
    below = math.floor(scaled)
    half = (below + 0.5) / ten if digits >= 0.0 else (below + 0.5) * ten
    above = below + 1.0 if size >= half else below
    return math.copysign(above / ten if digits >= 0.0 else above * ten, x)


@_compiled
def floor(x):
    return _bigint(np.floor(x))


@_compiled
def ceil(x):
    return _bigint(np.ceil(x))


@_compiled
def _bigint(x):
    """The nearest BIGINT; 0 for NaN, as Java casts."""
    if x != x:
        return np.int64(0)
    if x < _LEAST_BIGINT:
        return np.int64(-(2**63))
    if x >= _ABOVE_BIGINT:
        return np.int64(2**63 - 1)
    return np.int64(x)


@_compiled
def haversine(lat1, lon1, lat2, lon2):
    """Metres between two places on a sphere, given in degrees; NaN beyond a pole."""
    if abs(lat1) > 90.0 or abs(lat2) > 90.0:
        return np.nan
    up = math.sin((lat2 - lat1) * RADIANS / 2.0)
    along = math.sin((lon2 - lon1) * RADIANS / 2.0)
    share = up * up + math.cos(lat1 * RADIANS) * math.cos(lat2 * RADIANS) * along * along
    # Rounding may lead above 1, of places opposite to each other.
    if share > 1.0:
        share = 1.0
    return 2.0 * EARTH_RADIUS_M * math.asin(math.sqrt(share))


def define(name: str, function: Callable[..., Any], arity: int) -> bool:
    """Add a user's function of so many float64 values; return whether it gives a truth value.

    Raises
    ------
    UsageError
        It cannot be compiled, or gives no number.
    """
    compiled = _compiled(function)
    try:
        compiled.compile((types.float64,) * arity)
    except NumbaError as error:
        reason = str(error).strip().splitlines()
        raise UsageError(
            f"udf {function.__name__} cannot be compiled for {arity} float64 values: "
            f"{next((line for line in reason[1:] if line.strip()), reason[0]).strip()}"
        ) from error
    result_type = compiled.nopython_signatures[0].return_type
    if not isinstance(result_type, types.Boolean | types.Integer | types.Float):
        raise UsageError(
            f"udf {function.__name__} returns {result_type}; return a number or a truth value"
        )
    globals()[name] = _compiled(_as_float(compiled))
    return isinstance(result_type, types.Boolean)


def _as_float(function: Any) -> Callable[..., Any]:
    def run(*args):
        return np.float64(function(*args))

    return run


def sources() -> list[bytes]:
    """All that the functions' machine code depends on."""
    return [Path(file).read_bytes() for file in (__file__, functions.__file__)]


def loop(name: str) -> Callable[..., Any]:
    """The function of this name for columns: its arguments, and an array for its values."""
    compiled = njit(nogil=True)(_over_columns(globals()[name], FUNCTIONS[name].arity))
    return keep(compiled, *sources(), name.encode()) if name in _OWN else compiled


def _over_columns(function: Any, arity: int) -> Callable[..., Any]:
    args = [f"x{k}" for k in range(arity)]
    values = ", ".join(f"{x}[k]" for x in args)
    source = f"def run({', '.join(args)}, out):\n    for k in range(len(out)):\n"
    # Machine code that is kept names the module that it is from.
    space: dict[str, Any] = {"of": function, "__name__": __name__}
    exec(f"{source}        out[k] = of({values})\n", space)
    return space["run"]


#: Functions that are defined here, not by users.
_OWN = frozenset(FUNCTIONS)
