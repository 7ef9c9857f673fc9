"""The table of figures of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow as pa

from bench.peers.turns import Times
from bench.rows import Row
from bench.workers import (
    cost,
    hand,
    heavy,
    live,
    nexmark,
    one,
    pair,
    peers,
    pictures,
    roles,
    scaling,
    theta,
)
from bench.workers.jobs import Job, cm, in_one_window, nb7, ro, ysb
from bench.workers.joins import nb8, nb11
from bench.workers.mate import Stint
from bench.workers.scale import Scale
from bench.workers.tasks import Task
from bench.workers.turns import CPU, FOLDING, Contender, in_steps, take_turns, timed

PARTS = (
    "one", "pair", "scaling", "roles", "cost", "nexmark", "theta", "spark", "checkpoint", "latency"
)  # fmt: skip

#: Rows per second of a thread in the paper (§8.2: 2e9 by 16 nodes of 10 threads), on its machine.
PAPER_PER_THREAD = 12.5e6

#: Workers whose roles are told apart.
ROLES = 4

#: Rows per second and side of a theta join whose latency is measured.
PAIR_RATE = 20_000

#: Micro-batches of Spark's stream.
SPARK_BATCHES = 6

#: Least rates of one worker over a loop by hand, and of two over each peer.
TARGET_HAND = 0.7
TARGETS = {"DuckDB": 1.0, "Polars": 1.0, "Spark": 10.0}
TARGET_SPARK = {"YSB": 20.0, "NB7": 20.0}

#: As printed, the paper's YSB has 13.8 M rows in a worker's gigabyte, a third of them views, over
#: ten million keys: less than one view in two keys, so there is nothing to fold before merging.
NOTHING_TO_FOLD = "; as printed, folding first gains nothing"


#: Least rate with checkpoints over that without, and most seconds to a window's groups.
TARGET_CHECKPOINT, TARGET_P99_S = 0.9, 0.2

#: Of the streams whose latency is measured.
LATENCY_KEYS, WINDOW_MS, LATENCY_S = 10_000, 100, 0.05


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
        self._found: scaling.Found | None = None
        self._costs: list[cost.Cost] = []

    def measure(self) -> None:
        """Measure all figures of the parts."""
        measures: Mapping[str, Callable[[], None]] = {
            "one": self._one,
            "pair": self._pair,
            "scaling": self._scaling,
            "roles": self._roles,
            "cost": self._cost,
            "nexmark": self._nexmark,
            "theta": self._theta,
            "spark": self._spark,
            "checkpoint": self._checkpoint,
            "latency": self._latency,
        }
        for part in PARTS:
            if part in self._parts:
                measures[part]()

    def draw(self, out: Path) -> list[Path]:
        """Draw the figures of what was measured."""
        return pictures.draw(self._found, self._costs, out)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._on_row(row)

    def _one(self) -> None:
        for job in (ysb(self.scale.rows), nb7(self.scale.rows)):
            batches = job.batches(0)
            arrays = job.arrays(batches)
            runs: dict[str, Contender] = {
                "worker": in_steps(partial(one.folded, job, batches), one.given),
                "hand": in_steps(
                    partial(job.folded_by_hand, arrays),
                    partial(hand.give, begin=job.begin(arrays)),
                ),
            }
            times = take_turns(runs, self._rounds)
            by_hand, own = FOLDING.format("hand"), FOLDING.format("worker")
            over, whole = times.ratio(by_hand, own), times.ratio("hand", "worker")
            is_paper = job.stream == "ads"
            beside = f"; the paper: {PAPER_PER_THREAD / 1e6:g} M per thread" if is_paper else ""
            self._add(
                Row(
                    f"one worker, {job.name}, {job.rows:,} rows, {times.rows:,} groups",
                    f"{_rate(job.rows, times, own)} folded: {over:.2f}x a loop by hand; "
                    f"{_rate(job.rows, times, 'worker')} until all groups are given, in order: "
                    f"{whole:.2f}x{beside}",
                    f">= {TARGET_HAND}x" if is_paper else "",
                    over >= TARGET_HAND if is_paper else None,
                    f"by hand {_rate(job.rows, times, by_hand)}, "
                    f"{_rate(job.rows, times, 'hand')} with groups, in no order",
                    {
                        "job": job.name,
                        "over": over,
                        "whole": whole,
                        "by_cpu": times.ratio(CPU.format("hand"), CPU.format("worker")),
                        "seconds": dict(times.seconds),
                    },
                )
            )

    def _pair(self) -> None:
        scale, rows = self.scale, self.scale.rows
        others = cm(scale.each), ro(scale.each), nb8(scale.joined), nb11(scale.joined)
        for job in (ysb(rows), ysb(rows, window_s=10), nb7(rows), *others):
            whole = [job.tables(rank) for rank in range(pair.WORKERS)]
            runs = peers.contenders(
                job, {name: pa.concat_tables([own[name] for own in whole]) for name in job.schemas}
            )
            del whole
            with pair.started(job) as own:
                turns = {"workers": own.turn, **{name: timed(run) for name, run in runs.items()}}
                times = take_turns(turns, self._rounds, scale.uncounted)
                stints = own.stints
            for peer in ("DuckDB", "Polars"):
                if peer in runs:
                    self._add(self._beside(job, times, stints, peer))

    def _beside(self, job: Task, times: Times, stints: list[Stint], peer: str) -> Row:
        """Two workers beside the faster form of a peer."""
        rows = pair.WORKERS * job.rows
        forms = [name for name in times.seconds if name.startswith(peer) and "CPU" not in name]
        fastest = min(forms, key=times.median)
        over = times.ratio(fastest, "workers")
        by_cpu = times.ratio(CPU.format(fastest), CPU.format("workers"))
        sent = sum(own.sent_bytes for own in stints)
        is_first = isinstance(job, Job) and job.stream in ("ads", "bids")
        note = NOTHING_TO_FOLD if job.name == "YSB, 600 s" else ""
        return Row(
            f"two workers, {job.name}, {rows:,} rows, {times.rows:,} groups, over {peer}",
            f"{_rate(rows, times, 'workers')}: {over:.2f}x, {by_cpu:.2f}x by CPU time{note}",
            f">= {TARGETS[peer]:g}x" if is_first else "",
            over >= TARGETS[peer] if is_first else None,
            f"{fastest} {_rate(rows, times, fastest)}",
            {
                "job": job.name,
                "over": over,
                "by_cpu": by_cpu,
                "peer": fastest,
                "seconds": dict(times.seconds),
                "epochs": [own.epochs for own in stints],
                "sent_bytes": sent,
            },
        )

    def _scaling(self) -> None:
        self._found = scaling.measure(self.scale, self._rounds, self._add)

    def _roles(self) -> None:
        roles.measure([ysb(self.scale.each), ro(self.scale.each)], ROLES, self._add)

    def _cost(self) -> None:
        self._costs = cost.measure(self.scale, self._rounds, self._add)

    def _nexmark(self) -> None:
        nexmark.measure(self.scale.events, self._rounds, self._add)

    def _theta(self) -> None:
        theta.measure(self.scale.sides, self.scale.theta_workers, self._add)
        heavy.measure(self.scale.sides, self._add)

    def _spark(self) -> None:
        from bench.workers import spark_side

        with spark_side.session() as spark:
            rows, joined = self.scale.spark, self.scale.spark // 4
            groups = ysb(rows), in_one_window(cm(rows)), nb7(rows), ro(rows)
            jobs = (*groups, nb8(joined), nb11(joined))
            for job in (own for own in jobs if own.short in self.scale.beside_spark):
                # As many rows as Spark has, so that the state is as large.
                half = replace(job, rows=job.rows // pair.WORKERS)
                rates: dict[str, float] = {}
                seconds: list[float] = []
                with pair.started(half) as own:
                    own.turn()
                    for who, found in spark_side.rates(spark, job, SPARK_BATCHES):
                        rates[who] = found
                        seconds += [own.turn().seconds for _ in range(self._rounds)]
                best = max(rates, key=lambda who: rates[who])
                rate = pair.WORKERS * half.rows / median(seconds)
                over = rate / rates[best]
                target = TARGET_SPARK.get(job.short, TARGETS["Spark"])
                self._add(
                    Row(
                        f"two workers, {job.name}, {job.rows:,} rows, over Spark",
                        f"{rate / 1e6:.1f} M rows/s: {over:.0f}x",
                        f">= {target:g}x",
                        over >= target,
                        f"{best} {rates[best] / 1e6:.2f} M rows/s",
                        {"job": job.name, "over": over, "rates": rates, "seconds": seconds},
                    )
                )

    def _checkpoint(self) -> None:
        scale = self.scale
        found: dict[float | None, list[live.Kept]] = {None: [], scale.every_s: []}
        for number in range(scale.runs):
            for every_s in list(found)[:: 1 if number % 2 == 0 else -1]:
                found[every_s].append(live.kept(scale.keys, scale.seconds, every_s))
        without, kept = found.values()
        over = median(a.rate / b.rate for a, b in zip(kept, without, strict=True))
        rates = {name: median(own.rate for own in runs) / 1e6 for name, runs in found.items()}
        count = min(own.checkpoints for own in kept)
        self._add(
            Row(
                f"checkpoint every {scale.every_s:g} s, {scale.keys:,} keys, {count} or more each",
                f"{rates[scale.every_s]:.2f} M rows/s: {over:.2f}x",
                f">= {TARGET_CHECKPOINT}x none",
                over >= TARGET_CHECKPOINT,
                f"none {rates[None]:.2f} M rows/s",
                {
                    "over": over,
                    "kept": list(map(asdict, kept)),
                    "without": list(map(asdict, without)),
                },
            )
        )

    def _latency(self) -> None:
        scale = self.scale
        settings = {"keys": LATENCY_KEYS, "window_ms": WINDOW_MS, "latency_s": LATENCY_S}
        live.sustained(**settings, seconds=1.0)  # all is compiled
        rate = median(
            live.sustained(**settings, seconds=scale.seconds / 4) for _ in range(scale.runs)
        )
        found = live.delays(**settings, rate=rate / 2, seconds=scale.seconds)
        self._add(
            Row(
                f"two workers, latency_s {LATENCY_S:g}, windows of {WINDOW_MS} ms, "
                f"{LATENCY_KEYS:,} keys, at half of {rate / 1e6:.1f} M rows/s",
                f"p50 {1e3 * found.p50:.0f}, p99 {1e3 * found.p99:.0f}, "
                f"at most {1e3 * found.largest:.0f} ms after a window's end",
                f"p99 <= {TARGET_P99_S:g} s",
                found.p99 <= TARGET_P99_S,
                f"{found.count:,} groups",
                {"sustained": rate, **asdict(found)},
            )
        )
        one, two = (
            live.pair_delays(workers, PAIR_RATE, scale.seconds) for workers in (None, pair.WORKERS)
        )
        self._add(
            Row(
                f"two workers, pairs of a theta join, latency_s {live.PAIR_LATENCY_S:g}, "
                f"{PAIR_RATE:,} rows/s a side, a batch each 5 ms",
                f"p50 {1e3 * two.p50:.0f}, p99 {1e3 * two.p99:.0f} ms after the later row",
                "",
                None,
                f"one process: p50 {1e3 * one.p50:.0f}, p99 {1e3 * one.p99:.0f} ms",
                {"one": asdict(one), "two": asdict(two)},
            )
        )


def _rate(rows: int, times: Times, name: str) -> str:
    return f"{rows / times.median(name) / 1e6:.1f} M rows/s"
