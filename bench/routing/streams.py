"""Streams, lanes by key beside lanes by row: ``python -m bench.routing.streams``.

Micro-batches without Spark: what its tasks and its driver do, lane after lane, each with a cache of
its own, as if in a worker of its own. First a window of a million rows, of which 10,000 keys have
shares by Zipf's law; then real streams, where PENSTOCK_DATA names them, by the planners and by
hash. The table goes to ``build/bench/routing_streams.json``, too. ``--quick`` takes a tenth.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from bench.command import Titles, run
from bench.rows import Row
from penstock.host.execute.residence import BlockCache
from penstock.host.join.step import Share
from penstock.host.rows.stretches import NamedBlock
from penstock.spark_bridge.streaming import probe
from penstock.spark_bridge.streaming.spec import Rules
from tests.spark_bridge.kit.answers import arrivals, options_of, text_of
from tests.spark_bridge.kit.steps import Steps

from .tpch import zipf_keys

LANES, TOLERANCE, CELLS = 8, 0.05, 1024
_SCHEMA = pa.schema([(name, pa.int64()) for name in ("n", "t", "k", "x")])
#: Real streams, and micro-batches of each.
_REAL, _BATCHES = ("Z1", "N2", "G1", "G3", "B1", "S2", "U2"), 40
_CACHE_BYTES = 1 << 31


@dataclass
class Work:
    """What the lanes of some micro-batches did.

    Parameters
    ----------
    prepared : int
        Rows of blocks that lanes read and prepared.
    cpu_s : list of float
        CPU seconds of each lane, in this process.
    planned : list of float
        The busiest lane's planned work over the mean, by micro-batch.
    plan_s : list of float
    rows : int
        That left.
    """

    prepared: int = 0
    cpu_s: list[float] = field(default_factory=lambda: [0.0] * LANES)
    planned: list[float] = field(default_factory=list)
    plan_s: list[float] = field(default_factory=list)
    rows: int = 0

    @property
    def busiest(self) -> float:
        """CPU seconds of the busiest lane over the mean."""
        return max(self.cpu_s) * LANES / sum(self.cpu_s)


class _Counting(BlockCache):
    """A cache that counts the rows of blocks that were not there."""

    read = 0

    def block(
        self, scope: str, name: str, make: Callable[[], tuple[NamedBlock, Any]]
    ) -> tuple[NamedBlock, Any]:
        def made() -> tuple[NamedBlock, Any]:
            found = make()
            self.read += len(found[0].rows)
            return found

        return super().block(scope, name, made)


class Lanes:
    """The lanes of a join, each with a cache of its own."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.caches = [_Counting(_CACHE_BYTES) for _ in range(LANES)]

    def run(self, rows: dict[str, list[pa.Table]], rules: Rules | None, work: Work) -> None:
        """A micro-batch, whose work is added."""
        self.steps.took(rows, LANES, rules)
        commit = self.steps.commit
        for lane, cache in enumerate(self.caches):
            probe._cache = cache
            before, began = cache.read, time.process_time()
            share = Share(lane, LANES)
            for batch in probe.run_share(self.steps.spec, self.steps.store, commit, share):
                work.rows += batch.num_rows
            work.cpu_s[lane] += time.process_time() - began
            work.prepared += cache.read - before
        if commit.routed is not None:
            work.planned.append(commit.routed["figures"]["busiest"])
            work.plan_s.append(commit.routed["figures"]["seconds"])


def _rules(planner: str | None) -> Rules | None:
    return None if planner is None else Rules(planner, TOLERANCE, CELLS, None)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.routing.streams", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", help="window, or the name of a real query")
    options = parser.parse_args(argv)
    titles = Titles(
        name="routing_streams", text=__doc__ or "", title="Streams, lanes by key",
        baseline="by rows, or by hash",
    )  # fmt: skip
    return run(
        titles,
        lambda on_row: _Report(options.quick, options.only, on_row),
        quick=options.quick,
        pictures=False,
    )


class _Report:
    """Measures streams."""

    def __init__(self, quick: bool, only: str | None, on_row: Callable[[Row], None]) -> None:
        self.rows: list[Row] = []
        self._quick, self._only, self._on_row = quick, only, on_row

    def measure(self) -> None:
        """Measure all figures of the table."""
        if self._only in (None, "window"):
            self._window()
        for name in _REAL:
            if os.environ.get("PENSTOCK_DATA") and self._only in (None, name):
                self._real(name)

    def draw(self, out: Path) -> list[Path]:
        """No pictures."""
        return []

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._on_row(row)

    def _window(self) -> None:
        """A long window, and small micro-batches."""
        scale = 10 if self._quick else 1
        found = {}
        for planner in (None, "mnrt"):
            with TemporaryDirectory() as folder:
                found[planner] = _against_window(Path(folder), planner, scale)
        cold, warm = zip(found[None], found["mnrt"], strict=True)
        for what, (rows, keys), most in (
            ("window read for the first time", cold, 0.35),
            ("later micro-batches", warm, 0.35),
        ):
            assert rows.rows == keys.rows
            ratio = keys.prepared / rows.prepared
            self._add(
                Row(f"{what}: rows prepared", f"{ratio:.3f}x", f"<= {most}x", ratio <= most,
                    f"{rows.prepared:,}", keys.prepared)
            )  # fmt: skip
            ratio = sum(keys.cpu_s) / sum(rows.cpu_s)
            self._add(
                Row(f"{what}: CPU seconds of all lanes", f"{ratio:.3f}x", "<= 0.5x", ratio <= 0.5,
                    f"{sum(rows.cpu_s):.2f} s", sum(keys.cpu_s))
            )  # fmt: skip
        busiest = warm[1].busiest
        self._add(
            Row("later micro-batches: CPU seconds, busiest over mean", f"{busiest:.2f}",
                "<= 1.25", busiest <= 1.25, f"{warm[0].busiest:.2f}", busiest)
        )  # fmt: skip

    def _real(self, name: str) -> None:
        """A real stream in micro-batches."""
        found = {}
        for planner in (None, "hash", "mnrt"):
            with TemporaryDirectory() as folder:
                found[planner] = _real_stream(Path(folder), name, planner)
        rows, hashed, keys = found[None], found["hash"], found["mnrt"]
        assert rows.rows == hashed.rows == keys.rows
        worst, mean = max(keys.planned), float(np.mean(keys.planned))
        by_hash = f"hash {np.mean(hashed.planned):.2f}, worst {max(hashed.planned):.2f}"
        self._add(
            Row(f"{name}: planned, busiest over mean", f"{mean:.3f}, worst {worst:.3f}", "<= 1.05",
                worst <= 1.05, by_hash, keys.planned)
        )  # fmt: skip
        self._add(
            Row(f"{name}: CPU seconds, busiest over mean", f"{keys.busiest:.2f}", "<= 1.25",
                keys.busiest <= 1.25, f"hash {hashed.busiest:.2f}", keys.cpu_s)
        )  # fmt: skip
        ratio, prepared = sum(keys.cpu_s) / sum(rows.cpu_s), keys.prepared / rows.prepared
        self._add(
            Row(f"{name}: CPU seconds, rows prepared, plan", f"{ratio:.2f}x, {prepared:.2f}x, "
                f"{1e3 * max(keys.plan_s):.1f} ms at most",
                baseline=f"rows {sum(rows.cpu_s):.2f} s, {rows.prepared:,}", values=ratio)
        )  # fmt: skip


def _against_window(folder: Path, planner: str | None, scale: int) -> tuple[Work, Work]:
    """A million rows of b, then micro-batches of 60,000 rows of both."""
    text = (
        "SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND a.x = b.x "
        "AND b.t BETWEEN a.t - 100000000 AND a.t"
    )
    steps = Steps(folder, text, {"a": _SCHEMA, "b": _SCHEMA}, "t", 0, resident=True)
    lanes, works = Lanes(steps), (Work(), Work())
    rng = np.random.default_rng(1)

    def drawn(rows: int, at: int) -> list[pa.Table]:
        key = zipf_keys(10_000, 0.8, rows, rng, shuffled=False)
        columns = [np.arange(rows), np.sort(rng.integers(at, at + 1000, rows)), key]
        return [pa.table([*columns, rng.integers(0, 1000, rows)], schema=_SCHEMA)]

    rules = _rules(planner)
    steps.took({"l": drawn(1, 0), "r": drawn(1_000_000 // scale, 0)}, LANES, rules)
    for batch in range(6):
        parts = {side: drawn(30_000 // scale, 1000 * (batch + 1)) for side in "lr"}
        lanes.run(parts, rules, works[batch > 0])
    return works


def _real_stream(folder: Path, name: str, planner: str | None) -> Work:
    whole, disorder = arrivals(name)
    options, text = options_of(name), text_of(name)
    steps = Steps(
        folder, text, {alias: own.schema for alias, own in whole.items()}, options["time"]["r"],
        disorder, resident=True,
    )  # fmt: skip
    lanes, work = Lanes(steps), Work()
    for parts in _in_step(whole):
        lanes.run(parts, _rules(planner), work)
    return work


def _in_step(whole: dict[str, pa.Table]) -> Iterator[dict[str, list[pa.Table]]]:
    """Neighbouring rows of both tables."""
    ends = {
        side: list(pairwise([own.num_rows * k // _BATCHES for k in range(_BATCHES + 1)]))
        for side, own in zip("lr", whole.values(), strict=True)
    }
    for batch in range(_BATCHES):
        yield {
            side: [own.slice(ends[side][batch][0], ends[side][batch][1] - ends[side][batch][0])]
            for side, own in zip("lr", whole.values(), strict=True)
        }


if __name__ == "__main__":
    sys.exit(main())
