"""Folds of groups: the words that hold each, its zero, and how two values merge.

An entry holds a group as words of 64 bits; a fold owns some of them. A row's *contribution* is the
entry of a group of that row alone, so adding a row is merging its contribution. A NULL contributes
zero, the identity of the merge. Whether any value was not NULL is a flag, which merges by OR: the
fold ``exists``.

| fold | words | zero | merge |
|---|---|---|---|
| exists | one bit | 0 | OR |
| count | 1 | 0 | sum |
| sum of integers | 2, or 4 beyond 96 bits | 0 | sum with carry |
| sum of floats | 1 | 0.0 | sum in float64 |
| min, max | 1, 2 or 4 | greatest, least integer of the words | the less, the greater |
| min_by, max_by | by, time, place, value | by as min, max; greatest time and place | the nearer |

avg is a sum and a count. Floats are compared as integers in Spark's order, see
:mod:`~penstock.host.emit.groups.floats`. Of ``min_by``, the least (by, time, place) wins, of
``max_by`` the greatest by, then the least (time, place). Merges are commutative and associative (a
float sum up to rounding), but not idempotent: a contribution counts each time that it is merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from penstock.errors import QueryError
from penstock.expr.node import Expr
from penstock.types import Type

#: Bits by which a sum of up to 2**31 values, each the sum of 2**32 rows, exceeds one of them: a
#: group has far fewer rows. So sums of values of up to 96 bits, sign included, take 128 bits.
MORE_BITS = 32
#: Words that hold an integer, and the most bits of each, sign included.
_WIDTHS = ((1, 64), (2, 128), (4, 256))


class Merge(IntEnum):
    """Ways in which the words of two folds merge, numbered as in the compiled loop."""

    SUM = 0  # integers of any number of words
    FLOAT_SUM = 1
    MIN = 2
    MAX = 3
    MIN_BY = 4
    MAX_BY = 5


@dataclass(frozen=True)
class GroupFold:
    """A fold as entries hold it; equal folds of a query are held once.

    Parameters
    ----------
    merge : Merge
    value : Expr or None
        Summed or compared; for ``min_by`` and ``max_by`` the value of the nearest row; None to
        count rows.
    by : Expr or None
        Compared by ``min_by`` and ``max_by``.
    words : int
        Of the sum or extreme; of ``by`` for ``min_by`` and ``max_by``.
    value_words : int
        Of the value that ``min_by`` and ``max_by`` carry along.
    is_count : bool
        Whether rows are counted whose ``value`` is not NULL.
    """

    merge: Merge
    value: Expr | None
    by: Expr | None = None
    words: int = 1
    value_words: int = 0
    is_count: bool = False

    @property
    def has_nearest(self) -> bool:
        return self.merge in (Merge.MIN_BY, Merge.MAX_BY)

    @property
    def total_words(self) -> int:
        """Words of the fold in an entry."""
        return self.words + (2 + self.value_words if self.has_nearest else 0)

    @property
    def zero(self) -> tuple[int, ...]:
        """Words of a group without a value, the lowest first."""
        if self.merge in (Merge.SUM, Merge.FLOAT_SUM):
            return (0,) * self.words
        lower, top = (-1, _MOST) if self.merge in (Merge.MIN, Merge.MIN_BY) else (0, -_MOST - 1)
        extreme = (lower,) * (self.words - 1) + (top,)
        return extreme + ((_MOST, _MOST) + (0,) * self.value_words if self.has_nearest else ())


_MOST = (1 << 63) - 1


def words_for(bits: int, text: str) -> int:
    """Return how many words hold an integer of so many bits, sign included.

    Raises
    ------
    QueryError
        It needs more than 256 bits.
    """
    for words, most in _WIDTHS:
        if bits <= most:
            return words
    raise QueryError(f"{text} may need more than 76 digits; CAST its argument to DOUBLE")


def words_of(dtype: Type, text: str) -> int:
    """Return how many words hold a value of a type: one, except for wide integers."""
    return words_for(dtype.signed_bits, text) if dtype.is_integral else 1
