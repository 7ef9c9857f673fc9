"""Programs for join devices: predicates over prepared keys.

A program knows nothing of SQL, columns, NULL or time. ``s`` is the stream side (loaded into the
join units), ``w`` the window side (flows past them). The host computes the prepared keys of each
tuple once; a device evaluates the program for each pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from .errors import DeviceError
from .expr.node import Expr
from .types import Type

#: Most band tests of one program; beyond it the truth table (2**D bits) stops being small.
MAX_BAND_TESTS = 8


class Mode(Enum):
    """Fate of a stream tuple's matches: emitted, or folded into one value."""

    #: Each match.
    PAIRS = "pairs"
    #: Number of matches.
    COUNT = "count"
    #: Whether there is a match.
    EXISTS = "exists"
    #: Sum, smallest and largest value over the matches.
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    #: The match with the smallest value; of several, that at the lowest window position.
    NEAREST = "nearest"

    @property
    def needs_value(self) -> bool:
        """Whether the program needs a value to fold."""
        return self not in (Mode.PAIRS, Mode.COUNT, Mode.EXISTS)


@dataclass(frozen=True)
class BandProgram:
    """A boolean function of ``tests`` band tests ``lo_d <= w_d <= hi_d``.

    Keys and bounds are unsigned codes of ``key_bits`` bits, the same for all tests. Two codes are
    reserved (see :func:`null_code`, :func:`empty_code`), so window keys are at most
    ``2**key_bits - 3``.

    Parameters
    ----------
    tests : int
        Number of band tests D, 1 to 8.
    table : int
        Truth table: bit ``sum(match_d << d)`` is the result for that outcome of the tests. The
        function is monotone: no test is negated, since a NULL operand makes its test fail.
    key_bits : int
        Width of a code, 2 to 64.
    payload : Type, optional
        Integer with exact bounds, never nullable: a value of each window tuple that ``SUM``,
        ``MIN`` and ``MAX`` fold. It is the last window column.
    unit_bits : int, optional
        Width of a code in the units that should find the pairs, if a device has such; less than
        ``key_bits``, where few of the pairs that narrow units find are expected to be false.
    """

    tests: int
    table: int
    key_bits: int = 32
    payload: Type | None = None
    unit_bits: int | None = None

    @property
    def modes(self) -> frozenset[Mode]:
        """Modes that the program can be asked for."""
        folds = {Mode.SUM, Mode.MIN, Mode.MAX} if self.payload is not None else set()
        return frozenset({Mode.PAIRS, Mode.COUNT, Mode.EXISTS} | folds)

    @cached_property
    def cubes(self) -> tuple[int, ...]:
        """Minimal sets of tests that together make the predicate true, as bit masks.

        The function is monotone, so it is the OR over cubes of the AND of the cube's tests.
        """
        true_points = [m for m in range(1 << self.tests) if self.table >> m & 1]
        return tuple(m for m in true_points if not any(o != m and o & m == o for o in true_points))


@dataclass(frozen=True)
class GeneralProgram:
    """Any boolean expression over prepared keys.

    Parameters
    ----------
    stream, window : tuple of Type
        Types of the prepared keys of a stream and of a window tuple: integers with exact bounds
        (NULL replaced by 0, guarded by a boolean key), booleans, floats. Never nullable.
    predicate : Expr
        Boolean DAG whose leaves are constants and ``Op.KEY`` nodes ``("s", k)``, ``("w", k)``.
        Two-valued: no IS NULL, no NULL constant. Integer arithmetic is exact: a device uses the
        width that each node's bounds require.
    value : Expr, optional
        Number over the same leaves, exact like the predicate, that ``SUM``, ``MIN``, ``MAX`` and
        ``NEAREST`` fold over the matches.
    """

    stream: tuple[Type, ...]
    window: tuple[Type, ...]
    predicate: Expr
    value: Expr | None = None

    @property
    def modes(self) -> frozenset[Mode]:
        """Modes that the program can be asked for."""
        return frozenset(mode for mode in Mode if self.value is not None or not mode.needs_value)


Program = BandProgram | GeneralProgram


def null_code(key_bits: int) -> int:
    """Code of a NULL window key: all ones, above every bound."""
    return (1 << key_bits) - 1


def empty_code(key_bits: int) -> int:
    """Code that no window key takes: ``lo = hi = empty_code`` is the canonical empty range."""
    return (1 << key_bits) - 2


@dataclass(frozen=True)
class WindowProgram:
    """A predicate for the window-join operator, which matches tuples of two sides as they arrive.

    Parameters
    ----------
    a, b : BandProgram or GeneralProgram
        Programs that match an arriving tuple of side A, or of side B, with the window over the
        other side; the arriving tuple is the stream tuple.
    rows : (int, int)
        ROWS of the windows over A and over B.
    """

    a: Program
    b: Program
    rows: tuple[int, int]

    def __post_init__(self) -> None:
        if min(self.rows) < 0:
            raise DeviceError(f"windows cannot have {self.rows[0]} and {self.rows[1]} rows")

    @property
    def modes(self) -> frozenset[Mode]:
        """Modes that the program can be asked for."""
        return frozenset({Mode.PAIRS})


#: Any program that a device opens: of a range join, or of a window join.
AnyProgram = Program | WindowProgram
