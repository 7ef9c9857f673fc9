"""Functions of users: of columns of one side, or of the values of a pair."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa

from .errors import UsageError
from .expr import ops
from .expr.functions import FUNCTIONS, Function
from .expr.node import Expr


@dataclass(frozen=True)
class ColumnFunction:
    """A Python function of Arrow arrays of one side's rows; made by :func:`udf`.

    Parameters
    ----------
    function : callable
        Takes arrays of one length, and returns one of that length.
    takes : tuple of pyarrow.DataType
    returns : pyarrow.DataType
    """

    function: Callable[..., pa.Array]
    takes: tuple[pa.DataType, ...]
    returns: pa.DataType

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        return self.function(*arrays)


@dataclass(frozen=True)
class PairFunction:
    """A scalar function that Numba has compiled; made by :func:`udf`.

    Parameters
    ----------
    function : callable
        As it was written.
    key : str
        Under which expressions find it: its name, and a hash of what it does.
    is_condition : bool
        Whether it returns a truth value.
    """

    function: Callable[..., Any]
    key: str
    is_condition: bool

    @property
    def arity(self) -> int:
        """Number of arguments."""
        return FUNCTIONS[self.key].arity

    def __call__(self, *values: float) -> Any:
        return self.function(*values)

    def call(self, *args: Expr) -> Expr:
        """The function of some expressions.

        Raises
        ------
        ExprTypeError
            They are of another number, or no numbers.
        """
        name = self.function.__name__
        if len(args) != self.arity:
            raise ops.ExprTypeError(f"{name} takes {self.arity} arguments, not {len(args)}")
        try:
            value = ops.call(self.key, *args)
        except ops.ExprTypeError as error:
            raise ops.ExprTypeError(str(error).replace(self.key, name)) from None
        return ops.ne(value, ops.const(0.0)) if self.is_condition else value


#: What queries take as functions.
Udf = ColumnFunction | PairFunction


@overload
def udf(function: Callable[..., Any], /) -> PairFunction: ...


@overload
def udf(
    *, takes: Sequence[pa.DataType], returns: pa.DataType
) -> Callable[[Callable[..., pa.Array]], ColumnFunction]: ...


def udf(
    function: Callable[..., Any] | None = None,
    /,
    *,
    takes: Sequence[pa.DataType] | None = None,
    returns: pa.DataType | None = None,
) -> Any:
    """Make a function that queries can call; give it as ``functions={"name": function}``.

    As ``@penstock.udf`` it makes a function of a pair's values, which Numba compiles: it takes
    float64 values, whatever numbers the query gives it, and returns a number, as float64, or a
    truth value. It may be anywhere in ON and SELECT, and is NULL where an argument is. It runs as
    Python would, without reordered arithmetic; a division by 0 is infinite or NaN.

    As ``@penstock.udf(takes=[...], returns=...)`` it makes a function of columns of one side: it
    takes Arrow arrays, whose NULL it sees, and is computed once for each row before the join, or
    after it.

    Either kind must give the same value for the same arguments, and may be called for rows that
    join nothing.

    Parameters
    ----------
    function : callable
    takes : sequence of pyarrow.DataType, optional
    returns : pyarrow.DataType, optional

    Returns
    -------
    PairFunction, ColumnFunction or decorator

    Raises
    ------
    UsageError
        Numba cannot compile it, or an argument is missing.

    Examples
    --------
    >>> import pyarrow as pa, penstock
    >>> @penstock.udf
    ... def taxi(ax, ay, bx, by):
    ...     return abs(ax - bx) + abs(ay - by)
    >>> points = pa.table({"t": [1, 2], "x": [0, 3], "y": [0, 4]})
    >>> penstock.sql(
    ...     "SELECT a.t AS at, b.t AS bt FROM a JOIN b ON taxi(a.x, a.y, b.x, b.y) > 5 "
    ...     "AND b.t BETWEEN a.t AND a.t + 1",
    ...     {"a": points, "b": points}, time={"a": "t", "b": "t"}, functions={"taxi": taxi},
    ... ).to_pylist()
    [{'at': 1, 'bt': 2}]
    """
    if function is not None:
        if takes is not None or returns is not None:
            raise UsageError("udf takes a function, or takes= and returns=, not both")
        return _of_pairs(function)
    if takes is None or returns is None:
        raise UsageError("udf needs takes=[Arrow types] and returns=an Arrow type")

    def decorated(compute: Callable[..., pa.Array]) -> ColumnFunction:
        return ColumnFunction(compute, tuple(takes), returns)

    return decorated


def _of_pairs(function: Callable[..., Any]) -> PairFunction:
    if not inspect.isfunction(function):
        raise UsageError(f"udf needs a Python function, not {type(function).__name__}")
    from .expr import scalars  # which imports Numba

    parameters = inspect.signature(function).parameters.values()
    if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise UsageError(f"udf {function.__name__} must take positional arguments only")
    arity = len(parameters)
    if not arity:
        raise UsageError(f"udf {function.__name__} takes no argument; write its value instead")
    key = f"{function.__name__}_{_hash(function)}"
    is_condition = scalars.define(key, function, arity)
    FUNCTIONS[key] = Function(key, arity)
    return PairFunction(function, key, is_condition)


def _hash(function: Callable[..., Any]) -> str:
    """A hash of a function's code and of the values that it names."""
    code, seen = function.__code__, hashlib.sha256()  # type: ignore[attr-defined]
    named = inspect.getclosurevars(function)
    values = [*named.nonlocals.items(), *named.globals.items()]
    for part in (code.co_code, code.co_consts, code.co_names, *values):
        seen.update(repr(part).encode())
    for _, value in values:  # of a long array, repr shows the ends
        if isinstance(value, np.ndarray):
            seen.update(value.tobytes())
    return seen.hexdigest()[:12]
