"""Turns a pipeline's values for stream tuples into the device contract's aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.program import Mode

from ...device.base import Folds

#: Widest value that int64 holds.
_INT64_BITS = 64


def read_folds(
    fields: Mapping[str, int],
    operand_bits: int,
    mode: Mode,
    words: Sequence[int],
    start: np.ndarray,
) -> Folds:
    """Aggregates of stream tuples.

    Parameters
    ----------
    fields : mapping of str to int
        Widths of the build's fields of a tuple, from bit 0 on: some of ``value``, ``found`` and
        ``position``.
    operand_bits : int
        Width of the folded value.
    mode : Mode
        The task's mode; not PAIRS.
    words : sequence of int, of length n
        The pipeline's word for each tuple.
    start : ndarray of int64, shape (n,)
        Where the tuples' ranges start.
    """

    def field(name: str) -> list[int]:
        offset = sum(width for other, width in fields.items() if order[other] < order[name])
        mask = (1 << fields[name]) - 1
        return [word >> offset & mask for word in words]

    order = {name: number for number, name in enumerate(fields)}
    values = field("value") if "value" in fields else []
    matched = np.array(field("found") if "found" in fields else values, bool)
    if mode is Mode.EXISTS:
        return Folds(matched, matched)
    bits, inverse = operand_bits, -(mode is Mode.MAX)
    if mode is Mode.COUNT:
        bits = min(fields["value"], _INT64_BITS)
    elif mode is Mode.SUM:
        bits = fields["value"]
    numbers = [_number(value, bits, mode is not Mode.COUNT) ^ inverse for value in values]
    dtype = np.int64 if bits <= _INT64_BITS else object
    kept = [number if hit else 0 for number, hit in zip(numbers, matched, strict=True)]
    position = None
    if mode is Mode.NEAREST:
        position = np.where(matched, start + np.array(field("position"), np.int64), -1)
    return Folds(matched, np.array(kept, dtype), position)


def _number(word: int, bits: int, signed: bool) -> int:
    word &= (1 << bits) - 1
    return word - (word >> (bits - 1) << bits) if signed else word
