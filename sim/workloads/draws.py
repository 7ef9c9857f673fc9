"""Distributions that workloads draw keys from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd, log

import numpy as np
import numpy.typing as npt

#: Ranks whose shares are added one by one; those of the others are integrated.
_EXACT = 1 << 16


@dataclass(frozen=True)
class Zipf:
    """Zipf's law over any number of keys: the key of rank k, from 1, weighs ``k**-exponent``.

    Parameters
    ----------
    count : int
        Keys.
    exponent : float
        0 is even.
    """

    count: int
    exponent: float

    def keys(self, rng: np.random.Generator, size: int) -> npt.NDArray[np.int64]:
        """``size`` keys of 0 .. count - 1, the popular ones spread among the others."""
        if self.exponent == 0:
            return rng.integers(0, self.count, size)
        return self.ranks(rng.random(size)) * self._step % self.count

    def ranks(self, chance: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Ranks from 0, the most popular first, by even random numbers."""
        head = self._head
        exact, last = len(head), self.count + 0.5
        low, power = exact + 0.5, 1 - self.exponent
        tail = (last**power - low**power) / power if power else log(last / low)
        at = chance * (head[-1] + (tail if self.count > exact else 0.0))
        beyond = np.maximum(at - head[-1], 0.0)
        if power == 0:
            rank = low * np.exp(beyond)
        else:
            rank = (low**power + beyond * power) ** (1 / power)
        rank = np.where(at < head[-1], np.searchsorted(head, at, side="right"), rank - 0.5)
        return np.minimum(rank.astype(np.int64), self.count - 1)

    @cached_property
    def _head(self) -> npt.NDArray[np.float64]:
        ranks = np.arange(1, min(self.count, _EXACT) + 1, dtype=np.float64)
        return np.cumsum(ranks**-self.exponent)

    @cached_property
    def _step(self) -> int:
        return spreading_step(self.count)


def prices(rng: np.random.Generator, size: int) -> npt.NDArray[np.int64]:
    """Prices of NEXMark in cents: 1.00 to 1,000,000.00, even on a scale of logarithms."""
    return np.rint(10 ** (6 * rng.random(size)) * 100).astype(np.int64)


def letters(rng: np.random.Generator, lengths: npt.NDArray[np.int64]) -> list[str]:
    """Random texts of lower-case letters, as long as told."""
    ends = np.cumsum(lengths)
    text = rng.integers(ord("a"), ord("z") + 1, ends[-1], dtype=np.uint8).tobytes().decode()
    return [text[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def spreading_step(count: int) -> int:
    """A number prime to ``count``: ``k * step % count`` spreads 0 .. count - 1 over themselves."""
    step = int(count * 0.618) | 1
    while gcd(step, count) > 1:
        step += 2
    return step


def zipf_cdf(count: int, exponent: float) -> npt.NDArray[np.float64]:
    """Cumulative probabilities of ranks 0 .. count-1, where rank k weighs ``(k+1)**-exponent``."""
    return cdf(np.arange(1, count + 1, dtype=np.float64) ** -exponent)


def cdf(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Cumulative probabilities of ``weights``; the last is exactly 1."""
    total = np.cumsum(weights)
    total /= total[-1]
    return total


def draw(
    rng: np.random.Generator, cumulative: npt.NDArray[np.float64], size: int
) -> npt.NDArray[np.int64]:
    """``size`` ranks with the given cumulative probabilities."""
    # side="right" since random() may be exactly 0 but never 1: every rank stays in range.
    return np.searchsorted(cumulative, rng.random(size), side="right")
