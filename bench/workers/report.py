"""The table of figures of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.turns import Times
from bench.rows import Row
from bench.workers import one
from bench.workers.jobs import nb7, ysb
from bench.workers.turns import Contender, take_turns, timed

PARTS = ("one", "pair", "spark", "checkpoint", "latency")

#: Rows per second of a thread in the paper (§8.2: 2e9 by 16 nodes of 10 threads), on its machine.
PAPER_PER_THREAD = 12.5e6

#: What a loop by hand keeps of its rate.
TARGET_HAND = 0.7


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Parameters
    ----------
    rows : int
        Of each worker: of the paper's gigabyte of YSB's records, and as many bids.
    spark : int
        Rows that Spark gets, in micro-batches.
    keys : int
        Of the stream with checkpoints.
    rounds : int
    """

    rows: int
    spark: int
    keys: int
    rounds: int


FULL = Scale(rows=13_800_000, spark=6_000_000, keys=10_000_000, rounds=5)
QUICK = Scale(rows=1_380_000, spark=600_000, keys=200_000, rounds=2)


class Report:
    """Measures part by part.

    Parameters
    ----------
    scale : Scale
    parts : sequence of str
        Of :data:`PARTS`.
    rounds : int or None
        Instead of the scale's.
    on_row : callable
        Called with each row.
    """

    def __init__(
        self,
        scale: Scale,
        parts: Sequence[str],
        rounds: int | None,
        on_row: Callable[[Row], None],
    ) -> None:
        self.scale = scale
        self.rows: list[Row] = []
        self._parts = parts
        self._rounds = rounds or scale.rounds
        self._on_row = on_row

    def measure(self) -> None:
        """Measure all figures of the parts."""
        measures: Mapping[str, Callable[[], None]] = {"one": self._one}
        for part in PARTS:
            if part in self._parts:
                measures[part]()

    def draw(self, out: Path) -> list[Path]:
        """No pictures."""
        return []

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._on_row(row)

    def _one(self) -> None:
        for job in (ysb(self.scale.rows), nb7(self.scale.rows)):
            batches = job.batches(0)
            arrays = job.arrays(batches)
            runs: dict[str, Contender] = {
                "worker": timed(lambda job=job, own=batches: one.grouped(job, own)),
                "hand": timed(lambda job=job, own=arrays: job.by_hand(own)),
            }
            times = take_turns(runs, self._rounds)
            over = 1 / times.ratio("worker", "hand")
            is_paper = job.stream == "ads"
            beside = f"; the paper: {PAPER_PER_THREAD / 1e6:g} M per thread" if is_paper else ""
            self._add(
                Row(
                    f"one worker, {job.name}, {job.rows:,} rows, {times.rows:,} groups",
                    f"{_rate(job.rows, times, 'worker')}: {over:.2f}x a loop by hand{beside}",
                    f">= {TARGET_HAND}x" if is_paper else "",
                    over >= TARGET_HAND if is_paper else None,
                    f"by hand {_rate(job.rows, times, 'hand')}",
                    {"job": job.name, "over": over, "seconds": dict(times.seconds)},
                )
            )


def _rate(rows: int, times: Times, name: str) -> str:
    return f"{rows / times.median(name) / 1e6:.1f} M rows/s"
