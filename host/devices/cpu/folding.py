"""State of a task that folds its matches, in the layout of the compiled loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.program import Mode
from penstock.types import Type

from ...device.base import Folds, Task
from ...device.search import SearchTask
from . import fold_loops
from .loops import new_walk

_INT64 = np.iinfo(np.int64)
_RULES = {
    Mode.COUNT: fold_loops.COUNT,
    Mode.EXISTS: fold_loops.EXISTS,
    Mode.SUM: fold_loops.SUM,
    Mode.MIN: fold_loops.MIN,
    Mode.MAX: fold_loops.MAX,
    Mode.NEAREST: fold_loops.NEAREST,
}
#: The :func:`ordered` key of a float64 NaN: above every other key.
NAN_KEY = _INT64.max
#: Bits of the parts in which integers beyond int64 are summed: 2**32 such parts fit int64.
LIMB_BITS = 31


class FoldState:
    """State that loops fold into, see :func:`~penstock.host.devices.cpu.fold_loops.fold`.

    Parameters
    ----------
    task : Task
        Its mode is not PAIRS.
    block, tile : int
        Most stream tuples and window positions of a tile.
    value : Type, optional
        Type of the folded value; without it sums of integers take 64 bits. Floats are folded by
        their :func:`ordered` keys, except in sums.
    """

    def __init__(
        self, task: Task | SearchTask, block: int, tile: int, value: Type | None = None
    ) -> None:
        self.mode = task.mode
        # Arrays of one kind only: read-only ones would be another type to Numba.
        self.start, self.end = np.array(task.start, np.int64), np.array(task.end, np.int64)
        self.walk = new_walk(block, tile)
        self.is_float = value is not None and value.is_float
        self.rule = _RULES[task.mode]
        if task.mode is Mode.SUM and value is not None and value.is_integral:
            longest = int((self.end - self.start).max()) if task.rows else 0
            if max(abs(value.lo), abs(value.hi)) * longest > _INT64.max:
                self.rule = fold_loops.WIDE_SUM
        sums_floats = self.is_float and task.mode is Mode.SUM
        first = {Mode.MIN: _INT64.max, Mode.NEAREST: _INT64.max, Mode.MAX: _INT64.min}
        self.count = np.zeros(task.rows, np.int64)
        self.extra = np.full(task.rows, -1 if task.mode is Mode.NEAREST else 0, np.int64)
        self.value = np.full(
            task.rows, first.get(task.mode, 0), np.float64 if sums_floats else np.int64
        )

    @property
    def state(self) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """The arguments ``rule, count, value, extra`` of a loop."""
        return self.rule, self.count, self.value, self.extra

    def folds(self) -> Folds:
        """The aggregates, in the form of the device contract."""
        matched = self.count > 0
        if self.mode is Mode.COUNT:
            return Folds(matched, self.count)
        if self.mode is Mode.EXISTS:
            return Folds(matched, matched)
        if self.rule == fold_loops.WIDE_SUM:
            low = self.value.view(np.uint64)
            return Folds(matched, (self.extra.astype(object) << 32) + low.astype(object))
        value = self.value
        if self.is_float and self.mode is not Mode.SUM:
            value = unordered(value)
        value = np.where(matched, value, value.dtype.type(0))
        return Folds(matched, value, self.extra if self.mode is Mode.NEAREST else None)


def ordered(values: np.ndarray) -> np.ndarray:
    """int64 keys of float64 values in the order of Spark: NaN above all, -0.0 equal to 0.0."""
    bits = (values + 0.0).view(np.int64)
    keys = bits ^ ((bits >> 63) & _INT64.max)
    return np.where(np.isnan(values), NAN_KEY, keys)


def unordered(keys: np.ndarray) -> np.ndarray:
    """Inverse of :func:`ordered`; both zeros are 0.0."""
    bits = keys ^ ((keys >> 63) & _INT64.max)
    return np.where(keys == NAN_KEY, np.nan, bits.view(np.float64))


def limbs(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Python integers as int64 parts: ``values == sum(part << shift)``, parts below 2**31.

    Parameters
    ----------
    values : ndarray of object, shape (n,)

    Yields
    ------
    shift : int
    part : ndarray of int64, shape (n,)
        The highest part is signed.
    """
    bits = max((int(v).bit_length() for v in values), default=0) + 1
    for shift in range(0, bits, LIMB_BITS):
        part = values >> shift
        if shift + LIMB_BITS < bits:
            part = part & ((1 << LIMB_BITS) - 1)
        yield shift, part.astype(np.int64)
