"""Seeded arrivals of two sides with band keys, and what a ROWS window join gives for them."""

from __future__ import annotations

import numpy as np

from penstock.host.device.window_join import Arrivals
from penstock.program import BandProgram, WindowProgram

#: Ways in which tuples of both sides follow each other.
ORDERS = ("random", "alternating", "runs", "one side first", "one side only")

#: Width of the codes.
KEY_BITS = 32


def order(rng: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Sides of so many tuples, True for B."""
    if kind == "alternating":
        return np.arange(count) % 2 == 1
    if kind == "runs":
        return np.repeat(np.arange(count) % 2 == 1, rng.integers(1, 9, count))[:count]
    if kind == "one side first":
        return np.arange(count) >= count // 2
    if kind == "one side only":
        return np.ones(count, bool)
    return rng.random(count) < 0.5


def arrivals(
    rng: np.random.Generator,
    count: int,
    kind: str = "random",
    tests: int = 2,
    spread: int = 6,
    rows: tuple[int, int] = (3, 3),
) -> tuple[Arrivals, WindowProgram]:
    """Tuples with random codes and bounds, and a program with random truth tables."""
    is_b = order(rng, kind, count)
    window, stream = [], []
    for own in (int((~is_b).sum()), int(is_b.sum())):
        window.append([rng.integers(0, spread, own).astype(np.uint32) for _ in range(tests)])
        bounds = []
        for _ in range(tests):
            low = rng.integers(0, spread, own)
            bounds += [low, low + rng.integers(0, 3, own)]
        stream.append([bound.astype(np.uint32) for bound in bounds])
    tables = [int(rng.choice(_monotone(tests))) for _ in "ab"]
    a, b = (BandProgram(tests, table, KEY_BITS) for table in tables)
    return Arrivals(is_b, tuple(window), tuple(stream)), WindowProgram(a, b, rows)


def _monotone(tests: int) -> list[int]:
    """Truth tables of "all tests", "any test" and "the first test"."""
    outcomes = range(1 << tests)
    everything = (1 << tests) - 1
    return [
        sum(1 << m for m in outcomes if m == everything),
        sum(1 << m for m in outcomes if m),
        sum(1 << m for m in outcomes if m & 1),
    ]


def expected(tuples: Arrivals, program: WindowProgram, history: int = 0) -> list[tuple[int, int]]:
    """Brute force, tuple by tuple: rows of A and of B of each pair, sorted."""
    seen: tuple[list[int], list[int]] = ([], [])
    pairs = []
    for place, is_b in enumerate(tuples.is_b):
        side = int(is_b)
        own, others = len(seen[side]), seen[1 - side]
        latest = others[len(others) - min(program.rows[1 - side], len(others)) :]
        if place >= history:
            for other in latest:
                if _joins(tuples, program, side, own, other):
                    pairs.append((other, own) if is_b else (own, other))
        seen[side].append(own)
    return sorted(pairs)


def _joins(tuples: Arrivals, program: WindowProgram, side: int, own: int, other: int) -> bool:
    part = program.b if side else program.a
    assert isinstance(part, BandProgram)
    bounds, codes = tuples.stream[side], tuples.window[1 - side]
    met = sum(
        (bounds[2 * d][own] <= codes[d][other] <= bounds[2 * d + 1][own]) << d
        for d in range(part.tests)
    )
    return bool(part.table >> int(met) & 1)
