"""Bounds of sets of tuples, and tests whether two sets may hold a match of a program.

A set of window tuples is a *block*, one of stream tuples a *group*. Bounds are those of device
keys, in which NULL, open ends and text are codes or flags already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce

import numpy as np

from penstock.expr.node import Op, walk
from penstock.program import BandProgram, GeneralProgram, Program, empty_code, null_code
from penstock.types import Kind, Type

from ..device.storage import key_dtype
from .intervals import Bounds, Range, Truth, bounds_of, range_of, unbounded

#: Bounds of some sets, per key; None for a key that the program does not use.
Boxes = list[Bounds | None]


class Tester(ABC):
    """Bounds of keys, and a test of them.

    A side is "s", with columns as in ``Task.stream``, or "w", with columns as in
    ``WindowBuffer.write``.
    """

    @abstractmethod
    def boxes(self, side: str, columns: Sequence[np.ndarray], edges: np.ndarray) -> Boxes:
        """Bounds of tuples: per key, of each set.

        ``edges`` (int, ascending, from 0 to the number of rows) cut rows into nonempty sets.
        """

    @abstractmethod
    def may_match(self, groups: Boxes, blocks: Boxes) -> np.ndarray:
        """Whether a tuple of a group may match a tuple of a block: bool, (groups, blocks)."""

    @abstractmethod
    def axes(self, side: str, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """Columns that may serve for clustering, by their place among the boxes."""


def cut(boxes: Boxes, low: int, high: int) -> Boxes:
    """The bounds of the sets ``[low, high)``."""

    def part(bound: np.ndarray) -> np.ndarray:
        return bound if bound.ndim > 1 else bound[low:high]  # one for all

    return [None if box is None else box.each(part) for box in boxes]


def make_tester(program: Program) -> Tester:
    """The tester of a program."""
    return BandTester(program) if isinstance(program, BandProgram) else GeneralTester(program)


class BandTester(Tester):
    """Bounds of codes; a test fails if no code of the block lies in the hull of the ranges."""

    def __init__(self, program: BandProgram) -> None:
        self.cubes = program.cubes
        used = int(np.bitwise_or.reduce(np.array(self.cubes, np.int64), initial=0))
        self.tests = [d for d in range(program.tests) if used >> d & 1]
        self.dtype = key_dtype(program.key_bits)
        self.null = self.dtype.type(null_code(program.key_bits))
        self.empty = self.dtype.type(empty_code(program.key_bits))
        self.largest = self.dtype.type(np.iinfo(self.dtype).max)

    def boxes(self, side: str, columns: Sequence[np.ndarray], edges: np.ndarray) -> Boxes:
        bounds = self._codes if side == "w" else self._ranges
        return [bounds(columns, d, edges[:-1]) for d in self.tests]

    def _codes(self, columns: Sequence[np.ndarray], d: int, at: np.ndarray) -> Range:
        codes = columns[d]
        # A NULL key matches nothing, so bounds leave it out; without any key lo > hi.
        known = np.where(codes != self.null, codes, self.dtype.type(0))
        return Range(np.minimum.reduceat(codes, at), np.maximum.reduceat(known, at))

    def _ranges(self, columns: Sequence[np.ndarray], d: int, at: np.ndarray) -> Range:
        lo, hi = columns[2 * d], columns[2 * d + 1]
        some = (lo <= hi) & (lo != self.empty)
        lo, hi = np.where(some, lo, self.largest), np.where(some, hi, self.dtype.type(0))
        return Range(np.minimum.reduceat(lo, at), np.maximum.reduceat(hi, at))

    def may_match(self, groups: Boxes, blocks: Boxes) -> np.ndarray:
        held = {
            d: (group.lo[:, None] <= block.hi[None, :]) & (block.lo[None, :] <= group.hi[:, None])
            for d, group, block in zip(self.tests, groups, blocks, strict=True)
            if isinstance(group, Range) and isinstance(block, Range)
        }
        if not self.tests:
            return np.full((1, 1), bool(self.cubes))
        members = ([held[d] for d in self.tests if cube >> d & 1] for cube in self.cubes)
        return reduce(np.logical_or, (reduce(np.logical_and, tests) for tests in members))

    def axes(self, side: str, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        if side == "w":
            return {k: columns[d] for k, d in enumerate(self.tests)}
        half = self.dtype.type(1)
        return {
            k: (columns[2 * d] >> half) + (columns[2 * d + 1] >> half)
            for k, d in enumerate(self.tests)
        }


class GeneralTester(Tester):
    """Bounds of typed keys; interval arithmetic over the predicate."""

    def __init__(self, program: GeneralProgram) -> None:
        self.predicate = program.predicate
        self.types = {"s": program.stream, "w": program.window}
        self.used = {e.attr for e in walk(program.predicate) if e.op is Op.KEY}

    def boxes(self, side: str, columns: Sequence[np.ndarray], edges: np.ndarray) -> Boxes:
        return [
            _reduced(column, edges[:-1], dtype) if (side, k) in self.used else None
            for k, (column, dtype) in enumerate(zip(columns, self.types[side], strict=True))
        ]

    def may_match(self, groups: Boxes, blocks: Boxes) -> np.ndarray:
        keys: dict[tuple[str, int], Bounds] = {}
        for side, boxes, shape in (("s", groups, (-1, 1)), ("w", blocks, (1, -1))):
            for k, box in enumerate(boxes):
                if box is not None:
                    keys[side, k] = box.each(lambda bound, shape=shape: bound.reshape(shape))
        return bounds_of(self.predicate, keys).true

    def axes(self, side: str, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        return {
            k: column
            for k, column in enumerate(columns)
            if (side, k) in self.used and column.dtype.kind in "iuf"
        }


def _reduced(column: np.ndarray, at: np.ndarray, dtype: Type) -> Bounds:
    if dtype.kind is Kind.BOOL:
        return Truth(np.logical_or.reduceat(column, at), ~np.logical_and.reduceat(column, at))
    if column.dtype.kind in "iu":
        return range_of(np.minimum.reduceat(column, at), np.maximum.reduceat(column, at), dtype)
    if column.dtype.kind == "f":
        nan = np.isnan(column)
        lo = np.minimum.reduceat(np.where(nan, np.inf, column), at)
        hi = np.maximum.reduceat(np.where(nan, -np.inf, column), at)
        return range_of(lo, hi, dtype, np.logical_or.reduceat(nan, at))
    return unbounded(dtype)  # text, and integers beyond 64 bits
