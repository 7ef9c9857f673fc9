"""How much is measured of workers, in full and quickly."""

from __future__ import annotations

from dataclasses import dataclass

#: Turns that do not count: in these memory is touched for the first time.
WARM_TURNS = 4


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Parameters
    ----------
    rows : int
        Of each worker: of the paper's gigabyte of YSB's records, and as many bids.
    spark : int
        Rows that Spark gets, in micro-batches; a quarter of them where they are joined.
    keys, every_s, runs : int, float, int
        Of streams with checkpoints: keys, seconds from one to the next, and how many streams with
        and without.
    seconds : float
        That streams are pushed to.
    rounds, uncounted : int
        Of contenders in turns.
    each, joined : int
        Rows of each of many workers, that are grouped and joined.
    workers : tuple of int
        Numbers of them.
    skews : tuple of float
        Zipf exponents of their keys.
    events : int
        Of NEXMark.
    sides : int
        Rows of each side of a theta join on one worker.
    theta_workers : tuple of int
        Numbers of workers of a theta join.
    beside_spark : tuple of str
        Short names of the workloads.
    """

    rows: int
    spark: int
    keys: int
    every_s: float
    runs: int
    seconds: float
    rounds: int
    uncounted: int
    each: int
    joined: int
    workers: tuple[int, ...]
    skews: tuple[float, ...]
    events: int
    sides: int
    theta_workers: tuple[int, ...]
    beside_spark: tuple[str, ...]


FULL = Scale(
    rows=13_800_000,
    spark=3_000_000,
    keys=10_000_000,
    every_s=10,
    runs=3,
    seconds=40,
    rounds=5,
    uncounted=WARM_TURNS,
    each=4_000_000,
    joined=1_000_000,
    workers=(1, 2, 4, 8, 16),
    skews=(0.2, 0.6, 1.0, 1.4, 2.0),
    events=20_000_000,
    sides=80_000,
    theta_workers=(1, 2, 4, 8),
    beside_spark=("YSB", "CM", "NB7", "RO", "NB8", "NB11"),
)
QUICK = Scale(
    rows=1_380_000,
    spark=600_000,
    keys=200_000,
    every_s=0.5,
    runs=1,
    seconds=2,
    rounds=1,
    uncounted=1,
    each=400_000,
    joined=200_000,
    workers=(1, 2),
    skews=(0.2, 2.0),
    events=2_000_000,
    sides=20_000,
    theta_workers=(1, 2),
    beside_spark=("YSB", "NB8"),
)
