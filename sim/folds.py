"""From what a chain gives for its stream tuples to the aggregates of the device contract."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.host.device.base import Folds
from penstock.hw.join.modes import Folding
from penstock.program import Mode

#: Widest value that int64 holds.
_INT64_BITS = 64


def read_folds(folding: Folding, mode: Mode, given: Sequence[int], start: np.ndarray) -> Folds:
    """Aggregates of stream tuples.

    Parameters
    ----------
    folding : Folding
        The build.
    mode : Mode
        The task's mode; not PAIRS.
    given : sequence of int, of length n
        What the chain gave for each tuple, packed as ``folding.layout``.
    start : ndarray of int64, shape (n,)
        Where the tuples' ranges start.
    """
    layout = folding.layout

    def field(name: str) -> list[int]:
        at = layout[name]
        return [word >> at.offset & (1 << at.width) - 1 for word in given]

    values = field("value") if folding.value_bits else []
    found = np.array(field("found") if folding.finds else values, bool)
    if mode is Mode.EXISTS:
        return Folds(found, found)
    bits, inverse = folding.operand_bits, -(mode is Mode.MAX)
    if mode is Mode.COUNT:
        bits = folding.position_bits
    elif mode is Mode.SUM:
        bits = folding.value_bits
    numbers = [_number(value, bits, mode is not Mode.COUNT) ^ inverse for value in values]
    dtype = np.int64 if bits <= _INT64_BITS else object
    kept = [number if hit else 0 for number, hit in zip(numbers, found, strict=True)]
    position = None
    if mode is Mode.NEAREST:
        position = np.where(found, start + np.array(field("position"), np.int64), -1)
    return Folds(found, np.array(kept, dtype), position)


def no_folds(mode: Mode, like: Folds | None, rows: int) -> Folds:
    """Aggregates of tuples without matches, of the same type as others."""
    dtype = np.dtype(bool if mode is Mode.EXISTS else np.int64)
    if like is not None:
        dtype = like.value.dtype
    position = np.full(rows, -1, np.int64) if mode is Mode.NEAREST else None
    return Folds(np.zeros(rows, bool), np.zeros(rows, dtype), position)


def _number(word: int, bits: int, signed: bool) -> int:
    word &= (1 << bits) - 1
    return word - (word >> (bits - 1) << bits) if signed else word
