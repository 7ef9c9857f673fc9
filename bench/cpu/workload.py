"""The join that all of these benchmarks run: points near each other by Manhattan distance.

``abs(l.x - r.x) + abs(l.y - r.y) < d`` on random integer points. As a band program it has D = 2
tests: with the keys ``x + y`` and ``x - y`` it says that both lie within ``d - 1`` of the other
side's. Neither is a function of one column, so nothing prunes by ``x`` or ``y`` as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.program import BandProgram

#: Coordinates are in [0, SPAN).
SPAN = 1 << 20
#: Added to keys so that bounds below zero stay codes.
_BIAS = 1 << 22

MANHATTAN = BandProgram(tests=2, table=0b1000, key_bits=32)


def radius_for(selectivity: float) -> int:
    """``d`` at which about this share of all pairs match: the diamond's area over the square's."""
    return max(1, round((selectivity / 2) ** 0.5 * SPAN))


@dataclass(frozen=True)
class Points:
    """Points of both sides; int32 arrays of shape (rows,) and (window,).

    Parameters
    ----------
    rows, window : int
        Stream tuples and window tuples.
    d : int
        Radius of the predicate.
    """

    rows: int
    window: int
    d: int

    @cached_property
    def stream(self) -> tuple[np.ndarray, np.ndarray]:
        return _points(self.rows, seed=1)

    @cached_property
    def resident(self) -> tuple[np.ndarray, np.ndarray]:
        return _points(self.window, seed=2)

    @property
    def evaluations(self) -> int:
        return self.rows * self.window

    @cached_property
    def window_keys(self) -> list[np.ndarray]:
        """uint32 keys of the window, in the layout of a band program."""
        x, y = self.resident
        return [(x + y + _BIAS).astype(np.uint32), (x - y + _BIAS).astype(np.uint32)]

    @cached_property
    def stream_bounds(self) -> list[np.ndarray]:
        """uint32 ``lo_0, hi_0, lo_1, hi_1`` of the stream."""
        x, y = self.stream
        reach = self.d - 1
        return [
            (center + offset + _BIAS).astype(np.uint32)
            for center in (x + y, x - y)
            for offset in (-reach, reach)
        ]


def _points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, SPAN, (2, count), np.int32)
    return x, y
