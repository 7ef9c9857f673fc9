"""Bounds of sets of tuples, and which sets may hold a match of a program.

A set of window tuples is a *block*, one of stream tuples a *group*. What is bounded are the keys
that devices get: NULL, open ends and text have become codes or flags by then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.expr.node import Op, walk
from penstock.program import BandProgram, GeneralProgram, Program, empty_code, null_code
from penstock.types import Kind, Type

from ..device.storage import key_dtype
from .intervals import Bounds, Range, Truth, bounds_of, range_of, unbounded

#: Bounds of some sets, per key; what they are depends on the program.
Boxes = list[Any]


class Tester(ABC):
    """Bounds of keys, and a test of them.

    Columns are as in ``Task.stream`` and ``WindowBuffer.write``. ``edges`` (int, ascending, from 0
    to the number of rows) cut rows into sets that are not empty.
    """

    @abstractmethod
    def blocks(self, columns: Sequence[np.ndarray], edges: np.ndarray) -> Boxes:
        """Bounds of window tuples: per key, of each set."""

    @abstractmethod
    def groups(self, columns: Sequence[np.ndarray], edges: np.ndarray) -> Boxes:
        """Bounds of stream tuples."""

    @abstractmethod
    def may_match(self, groups: Boxes, blocks: Boxes) -> np.ndarray:
        """Whether a tuple of a group may match a tuple of a block: bool, (groups, blocks)."""

    @staticmethod
    def cut(boxes: Boxes, low: int, high: int) -> Boxes:
        """The bounds of the sets ``[low, high)``."""
        return [_cut(box, slice(low, high)) for box in boxes]

    @abstractmethod
    def window_axes(self, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """Columns that window tuples may be clustered by, by their place among the boxes."""

    @abstractmethod
    def stream_axes(self, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """The same of stream tuples."""


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

    def blocks(self, columns: Sequence[np.ndarray], edges: np.ndarray) -> Boxes:
        boxes = []
        for d in self.tests:
            codes, at = columns[d], edges[:-1]
            # A NULL key matches nothing, so it is in no bounds; without any key lo > hi.
            known = codes != self.null
            lo = np.minimum.reduceat(codes, at)
            hi = np.maximum.reduceat(np.where(known, codes, self.dtype.type(0)), at)
            boxes.append((lo, np.where(lo == self.null, self.dtype.type(0), hi)))
        return boxes

    def groups(self, columns: Sequence[np.ndarray], edges: np.ndarray) -> Boxes:
        boxes = []
        for d in self.tests:
            lo, hi, at = columns[2 * d], columns[2 * d + 1], edges[:-1]
            some = (lo <= hi) & (lo != self.empty)
            lo, hi = np.where(some, lo, self.largest), np.where(some, hi, self.dtype.type(0))
            boxes.append((np.minimum.reduceat(lo, at), np.maximum.reduceat(hi, at)))
        return boxes

    def may_match(self, groups: Boxes, blocks: Boxes) -> np.ndarray:
        held = {
            d: (lo[:, None] <= high[None, :]) & (low[None, :] <= hi[:, None])
            for d, (lo, hi), (low, high) in zip(self.tests, groups, blocks, strict=True)
        }
        found: np.ndarray | None = None
        for cube in self.cubes:
            term: np.ndarray | None = None
            for d in (d for d in self.tests if cube >> d & 1):
                term = held[d] if term is None else term & held[d]
            if term is None:
                return np.ones((1, 1), bool)
            found = term if found is None else found | term
        return np.zeros((1, 1), bool) if found is None else found

    def window_axes(self, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        return {k: columns[d] for k, d in enumerate(self.tests)}

    def stream_axes(self, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        half = self.dtype.type(1)
        return {
            k: (columns[2 * d] >> half) + (columns[2 * d + 1] >> half)
            for k, d in enumerate(self.tests)
        }


class GeneralTester(Tester):
    """Bounds of typed keys; interval arithmetic over the predicate."""

    def __init__(self, program: GeneralProgram) -> None:
        self.program = program
        self.used = {e.attr for e in walk(program.predicate) if e.op is Op.KEY}

    def blocks(self, columns: Sequence[np.ndarray], edges: np.ndarray) -> Boxes:
        return self._boxes("w", self.program.window, columns, edges)

    def groups(self, columns: Sequence[np.ndarray], edges: np.ndarray) -> Boxes:
        return self._boxes("s", self.program.stream, columns, edges)

    def _boxes(
        self, side: str, types: Sequence[Type], columns: Sequence[np.ndarray], edges: np.ndarray
    ) -> Boxes:
        at = edges[:-1]
        return [
            _reduced(column, at, dtype) if (side, k) in self.used else None
            for k, (column, dtype) in enumerate(zip(columns, types, strict=True))
        ]

    def may_match(self, groups: Boxes, blocks: Boxes) -> np.ndarray:
        keys: dict[tuple[str, int], Bounds] = {}
        for side, boxes, shape in (("s", groups, (-1, 1)), ("w", blocks, (1, -1))):
            for k, box in enumerate(boxes):
                if box is not None:
                    keys[side, k] = _shaped(box, shape)
        return bounds_of(self.program.predicate, keys).true

    def window_axes(self, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        return self._axes("w", columns)

    def stream_axes(self, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        return self._axes("s", columns)

    def _axes(self, side: str, columns: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
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


def _shaped(box: Bounds, shape: tuple[int, int]) -> Bounds:
    if isinstance(box, Truth):
        return Truth(box.true.reshape(shape), box.false.reshape(shape))
    nan = box.nan if isinstance(box.nan, bool) else box.nan.reshape(shape)
    return Range(box.lo.reshape(shape), box.hi.reshape(shape), nan)


def _cut(box: Any, part: slice) -> Any:
    if box is None:
        return None
    if isinstance(box, Truth):
        return box if box.true.ndim > 1 else Truth(box.true[part], box.false[part])
    if isinstance(box, Range):
        if box.lo.ndim > 1:  # one for all
            return box
        nan = box.nan if isinstance(box.nan, bool) else box.nan[part]
        return Range(box.lo[part], box.hi[part], nan)
    lo, hi = box
    return lo[part], hi[part]
