"""Seeded arrivals of two sides with band keys, and what a ROWS window join gives for them."""

from __future__ import annotations

from contextlib import closing
from typing import cast

import numpy as np

from penstock.host.device.base import Device
from penstock.host.device.cut import Cutting
from penstock.host.device.window_join import Arrivals
from penstock.host.execute.chunk import Chunk
from penstock.host.execute.memory import DeviceMemory
from penstock.host.execute.order import BoundArrivals, Order
from penstock.host.execute.pulling import Pulling
from penstock.host.execute.running import Running
from penstock.host.execute.trace import Trace
from penstock.host.windows.probe import Probe
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


def pulled(device: Device, tuples: Arrivals, program: WindowProgram, most: int) -> list[Chunk]:
    """Chunks of a join in tasks of at most so many evaluations, where they can be cut."""
    bound = BoundArrivals(cast(Probe, None), program, tuples)
    orders = (Order(0, bound, piece) for piece in bound.pieces(Cutting(device.lanes, most)))
    with (
        closing(DeviceMemory(device)) as memory,
        closing(Pulling([memory], Running(timeout_s=120), trace=Trace())) as pulling,
    ):
        return list(pulling.chunks(orders))


def pairs_of(chunks: list[Chunk]) -> list[tuple[int, int]]:
    """All pairs of some chunks, as rows of A and of B."""
    parts = [part for chunk in chunks for part in chunk.pairs]
    return sorted((int(a), int(b)) for part in parts for a, b in zip(part.i, part.j, strict=True))
