"""The joins of the bench, each with its target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from bench.peers import equality, intervals, sphere, streams, synthetic
from bench.peers.files import data_folder
from bench.peers.join import Join


class Against(Enum):
    """What Penstock's time is compared with."""

    FASTEST_PEER = auto()
    EVERY_PAIR = auto()
    SHORTER_WINDOW = auto()
    TABLES = auto()


@dataclass(frozen=True)
class Workload:
    """A join and its target.

    Parameters
    ----------
    name : str
        For ``--only``.
    what : str
    make : callable
        The join of a size, 1 for the full one.
    target : float or None
        Least ratio of the other's time over Penstock's; against a shorter window, or the same rows
        as tables, the largest one of Penstock's times. None if figures are reported only.
    against : Against
    quick : float
        Size of the quick run.
    longer : callable or None
        The join with the window twice as long.
    """

    name: str
    what: str
    make: Callable[[float], Join]
    target: float | None
    against: Against = Against.FASTEST_PEER
    quick: float = 0.1
    longer: Callable[[float], Join] | None = None


def workloads() -> list[Workload]:
    """All that can run: those of the real streams only with PENSTOCK_DATA."""
    named = [*_points(), *_keys(), *_intervals(), *_others(), *_streams()]
    if data_folder() is not None:
        named += _real()
    return named


def _points() -> list[Workload]:
    return [
        Workload(
            f"points-{name}",
            "points near each other",
            partial(synthetic.manhattan, left, right, 1e-6, share),
            2.0,
        )
        for name, left, right, share in (
            ("16k-400k", 16_000, 400_000, 1),
            ("100k-1m", 100_000, 1_000_000, 1),
            ("1m-1m", 1_000_000, 1_000_000, 0.049),
            ("1m-4m", 1_000_000, 4_000_000, 0.005),
        )
    ]


def _keys() -> list[Workload]:
    return [
        Workload("keys", "equal keys, a tenth of all times in the window", equality.uniform, 1.0),
        Workload("keys-skew", "the same, Zipf 1.2 on one side", equality.zipf_left, 1.0),
        Workload(
            "keys-skews",
            "the same, Zipf 1.2 on both, count(*) per row, 1e-4 of all times",
            equality.zipf_both,
            1.0,
        ),
        Workload("keys-residual", "equal keys, r.v > l.v", equality.with_residual, 1.0),
    ]


def _intervals() -> list[Workload]:
    return [
        Workload("overlap", "intervals of 24 keys, short ones", intervals.short, 2.0),
        Workload("overlap-skew", "the same, 0.1 % a thousand times longer", intervals.skewed, 2.0),
        Workload(
            "overlap-dense", "long ones, three hundred pairs of each row", intervals.dense, 1.2
        ),
        Workload("overlap-count", "longer ones, count(*) per row", intervals.dense_counted, 1.2),
        Workload("opposed", "l.x < r.x, l.y > r.y", intervals.opposed, 2.0, quick=0.5),
        Workload(
            "opposed-three", "the same and l.z <= r.z", intervals.opposed_three, 2.0, quick=0.5
        ),
    ]


def _others() -> list[Workload]:
    base = partial(synthetic.manhattan, 1_000_000, 1_000_000)
    return [
        Workload(
            "wide",
            "30 % of each key, count(*) per row",
            synthetic.wide_bands,
            1.0,
            Against.EVERY_PAIR,
            quick=0.5,
        ),
        Workload(
            "unbounded",
            "a condition without bounds",
            synthetic.without_bounds,
            1.0,
            Against.EVERY_PAIR,
            quick=0.5,
        ),
        Workload(
            "longer",
            "window twice as long, selectivity halved, time per probing row",
            partial(base, 1e-6, 0.049),
            1.2,
            Against.SHORTER_WINDOW,
            longer=partial(base, 0.5e-6, 0.098),
        ),
        Workload("rows-out", "a box over ROWS, many rows out", synthetic.many_rows_out, None),
        Workload("sphere", "places within 1,000 m on the sphere", sphere.places, 1.0),
        Workload("city", "the demo's city, 120 steps, 180 s", streams.city, 2.0),
    ]


def _streams() -> list[Workload]:
    points = partial(synthetic.manhattan, 1_000_000, 1_000_000, 1e-6, 0.049)
    made = {"points": points, "keys": equality.uniform, "skews": equality.zipf_both}
    return [
        Workload(
            f"streams-{name}",
            "as streams, batches of 10,000 rows, CPU time",
            make,
            2.0,
            Against.TABLES,
        )
        for name, make in made.items()
    ]


def _real() -> list[Workload]:
    long = [
        Workload(name, f"{name}, long window", streams.REAL[name], 2.0, quick=0.25)
        for name in ("U3", "U2", "A1", "A2")
    ]
    short = [
        Workload(name, f"{name} of the real streams", streams.REAL[name], 1.0, quick=1)
        for name in ("B1", "S2", "Z1", "G1", "G3", "N2")
    ]
    return [*long, *short]
