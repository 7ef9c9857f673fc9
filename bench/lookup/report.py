"""The figures of lookups, one row each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from bench.lookup.contenders import Contender, Duckdb, Lmdb, Penstock, Rocks
from bench.lookup.predictions import Predictions
from bench.lookup.scale import BATCH_ROWS, MB, Scale
from bench.lookup.steps import StepReport
from bench.lookup.turns import Rates, take_turns
from penstock.host.lookup import memory, tuner
from penstock.host.lookup.model import ceiling
from penstock.host.lookup.zipf import top_share

#: On one node D-CACHEJOIN does what CACHEJOIN does.
FIXED = ("meshjoin", "hybridjoin", "cachejoin")
#: Exponents, and memory as shares of that of the scale.
EXPONENTS, MEMORIES = (0.5, 1.0, 1.2), (0.5, 1.0, 2.0)
#: Shares of the memory left for the cache (figure 7).
SHARES = (0.1, 0.3, 0.6, 0.8)
#: Rows of the smallest relation of several, and of one that has a target.
_LEAST_ROWS, _LARGE_ROWS = 2_000_000, 100_000_000
#: Latency targets; rows that are pushed together; batches that come at a steady rate.
_TARGETS_S = (0.05, 0.25, 1.0)
_PUSHED_ROWS, _PACED_BATCHES = 1 << 12, 20
#: Bytes of a row of the relation.
ROW_BYTES = 100
_PEERS: Mapping[str, tuple[Callable[..., Contender], float]] = {
    "LRU + LMDB": (Lmdb, 3.0),
    "LRU + rocksdict": (Rocks, 5.0),
    "DuckDB": (Duckdb, 3.0),
}


class Report(StepReport):
    """Measures all figures."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.by_memory: dict[str, dict[float, float]] = {}
        self.by_share: dict[str, dict[float, float]] = {}
        self.by_length: dict[str, dict[str, dict[int, float]]] = {}
        self.by_rows: dict[int, float] = {}
        self.predicted: list[tuple[str, float, float]] = []

    @property
    def _steps(self) -> Mapping[str, Callable[[], None]]:
        return {
            "meshjoin": self._together,
            "peers": self._peers,
            "even": self._even,
            "printed": self._printed,
            "hits": self._hits,
            "absent": self._absent,
            "drift": self._drift,
            "memory": self._resident,
            "sizes": self._sizes,
            "latency": self._latency,
            "cells": self._cells,
            "model": self._model,
            "lengths": self._lengths,
            "shares": self._shares,
        }

    def _ours(self, algorithm: str = "auto", *, each: bool = True, times: float = 1.0) -> Penstock:
        return Penstock(self.data, int(self.scale.memory_bytes * times), algorithm, each=each)

    def _turns(
        self, contenders: Mapping[str, Contender], *, scale: Scale | None = None, **calls: float
    ) -> Rates:
        used = scale or self.scale
        made = self.data.calls(used.warm + used.rounds * used.batches, **calls)
        return take_turns(contenders, made, used)

    def _compare(
        self, what: str, rates: Rates, other: str, least: float, own: str = "auto", **values
    ) -> None:
        """A row for how many times the rate of another one ours is, by CPU time."""
        ratio, wall = rates.over(own, other, cpu=True), rates.over(own, other)
        self._add(
            what,
            f"{ratio:.2f}x by CPU time, {wall:.2f}x by the clock; "
            f"{_k(rates.cpu_rate(own))} and {_k(rates.cpu_rate(other))} rows per CPU second",
            "" if self.data.cold else f">= {least:g}x",
            None if self.data.cold else ratio >= least,
            ratio=ratio, wall=wall, cpu_s=rates.cpu, wall_s=rates.wall, rows=rates.rows, **values,
        )  # fmt: skip

    def _together(self) -> None:
        """Rows that wait across batches: auto beside MESHJOIN."""
        ours, mesh = self._ours(each=False), self._ours("meshjoin", each=False)
        with _closing(ours, mesh):
            scale = replace(self.scale, batches=3 * self.scale.batches)
            rates = self._turns({"auto": ours, "meshjoin": mesh}, scale=scale)
            join = ours.stream.report().lookup
            kept = join.cached * ROW_BYTES
            hits = top_share(join.cached, self.data.rows, 1.0)
            top = ceiling(self.scale.memory_bytes, kept, hits)
        self._compare("no batches, beside meshjoin", rates, "meshjoin", 2.0, ceiling=top)
        share = rates.over("auto", "meshjoin", cpu=True) / top
        text = f"{share:.2f} of {top:.2f}x"
        self._add("the same, beside the ceiling", text, ">= 0.75", share >= 0.75, share=share)

    def _peers(self) -> None:
        self._pairs(_PEERS, "beside {}")

    def _even(self) -> None:
        names = ("LRU + LMDB", "LRU + rocksdict")
        self._pairs({n: (_PEERS[n][0], 1.0) for n in names}, "even keys, beside {}", exponent=0.0)

    def _pairs(
        self,
        peers: Mapping[str, tuple[Callable[..., Contender], float]],
        what: str,
        **calls: float,
    ) -> None:
        """Each peer by itself, so that the files of two are all that the system's memory holds."""
        ours = self._ours()
        with _closing(ours):
            for name, (make, least) in peers.items():
                peer = make(self.data, self.scale.memory_bytes)
                with _closing(peer):
                    rates = self._turns({"auto": ours, name: peer}, **calls)
                self._compare(what.format(name), rates, name, least)

    def _printed(self) -> None:
        ours, printed = self._ours(), self._ours("d-cachejoin")
        with _closing(ours, printed):
            rates = self._turns({"auto": ours, "d-cachejoin": printed})
        self._compare("beside d-cachejoin as printed", rates, "d-cachejoin", 3.0)

    def _hits(self) -> None:
        for algorithm, least in (("auto", 0.97), ("d-cachejoin", 0.88)):
            ours = self._ours(algorithm, each=algorithm == "auto")
            calls = self.data.calls(4 * self.scale.warm)
            with _closing(ours):
                for start in range(0, len(calls), self.scale.warm):
                    before = ours.stream.report().lookup
                    ours.answer(calls[start : start + self.scale.warm])
                after = ours.stream.report().lookup
            hits = (after.hits - before.hits) / (after.sought - before.sought)
            ideal = top_share(after.cached, self.data.rows, 1.0)
            self._add(
                f"hit rate beside p1, {algorithm}",
                f"{hits:.3f} of {ideal:.3f}: {hits / ideal:.3f} ({after.cached:,} keys)",
                f">= {least}", hits >= least * ideal, hits=hits, p1=ideal, cached=after.cached,
            )  # fmt: skip

    def _absent(self) -> None:
        """Half of the calls from numbers that are no subscriber's."""
        none, half = self._ours(), self._ours()
        used = self.scale
        count = used.warm + used.rounds * used.batches
        calls = {"none": self.data.calls(count), "half": self.data.calls(count, absent=0.5)}
        seconds: dict[str, list[float]] = {"none": [], "half": []}
        with _closing(none, half):
            for name, one in (("none", none), ("half", half)):
                one.answer(calls[name][: used.warm])
            for number in range(used.rounds):
                for name, one in (("none", none), ("half", half)):
                    first = used.warm + number * used.batches
                    part = calls[name][first : first + used.batches]
                    seconds[name].append(_cpu(partial(one.answer, part)))
        ratio = float(np.median(np.array(seconds["none"]) / np.array(seconds["half"])))
        self._add(
            "half of the keys absent, beside none", f"{ratio:.2f}", ">= 0.5", ratio >= 0.5,
            ratio=ratio, cpu_s=seconds,
        )  # fmt: skip

    def _drift(self) -> None:
        """How soon hits come back after half of the hot keys change."""
        used = self.scale.warm
        ours = self._ours()
        with _closing(ours):
            ours.answer(self.data.calls(used))
            before = self._hit_rate(ours, self.data.calls(4, seed=7))
            found = []
            for batch in self.data.drifted(5 * used):
                found.append(self._hit_rate(ours, [batch]))
                if found[-1] >= 0.95 * before:
                    break
        passes = len(found) * BATCH_ROWS / self.data.rows
        self._add(
            "0.95 of the hits again after half of the hot keys change",
            f"after {len(found)} batches, {passes:.1f} passes; {before:.3f} before, "
            f"{found[0]:.3f} then, {found[-1]:.3f} at last",
            "<= 5 passes", found[-1] >= 0.95 * before and passes <= 5, hits=found, before=before,
        )  # fmt: skip

    @staticmethod
    def _hit_rate(ours: Penstock, calls: Sequence[pa.RecordBatch]) -> float:
        before = ours.stream.report().lookup
        ours.answer(calls)
        after = ours.stream.report().lookup
        return (after.hits - before.hits) / (after.sought - before.sought)

    def _resident(self) -> None:
        """Peak memory of a process of its own."""
        command = [
            sys.executable, "-m", "bench.lookup.resident", str(self.data.relation),
            str(self.data.rows), str(self.scale.memory_bytes), str(self.scale.warm),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        over = found["peak"] - found["idle"]
        limit = self.scale.memory_bytes + 64 * MB
        self._add(
            "peak RSS over idle",
            f"{over / MB:.0f} MB, of which {found['file'] / MB:.0f} MB pages of files",
            f"<= {limit / MB:.0f} MB", over <= limit, **found,
        )  # fmt: skip

    def _sizes(self) -> None:
        """The rate against the relation's rows, in the same memory."""
        for rows in sorted({_LEAST_ROWS, self.data.rows}):
            data = replace(self.data, rows=rows)
            ours = Penstock(data, self.scale.memory_bytes)
            with _closing(ours):
                calls = data.calls(self.scale.warm + self.scale.rounds * self.scale.batches)
                rates = take_turns({"auto": ours}, calls, self.scale)
            self.by_rows[rows] = rates.cpu_rate("auto")
        slower = self.by_rows[min(self.by_rows)] / self.by_rows[max(self.by_rows)]
        is_large = self.data.rows >= _LARGE_ROWS
        text = ", ".join(f"{_k(rate)} at {rows:,}" for rows, rate in self.by_rows.items())
        self._add(
            "rows per CPU second by rows of the relation",
            f"{text}: {slower:.2f}x slower",
            "<= 3x" if is_large else "", slower <= 3 if is_large else None, rates=self.by_rows,
        )  # fmt: skip

    def _latency(self) -> None:
        """Latency at 80 % of what is sustained, by latency target."""
        for target_s in _TARGETS_S:
            stream = self.data.stream("auto", self.scale.memory_bytes, target_s)
            batches = self.data.calls(self.scale.warm + _PACED_BATCHES)
            parts = [
                batch.slice(first, _PUSHED_ROWS)
                for batch in batches
                for first in range(0, BATCH_ROWS, _PUSHED_ROWS)
            ]
            warm = self.scale.warm * BATCH_ROWS // _PUSHED_ROWS
            with stream:
                for part in parts[: warm // 2]:
                    stream.push("calls", part)
                began = time.perf_counter()
                for part in parts[warm // 2 : warm]:
                    stream.push("calls", part)
                    stream.poll()
                rate = (warm - warm // 2) * _PUSHED_ROWS / (time.perf_counter() - began)
                stream.flush()
                stream.poll()
                waited = _paced(stream, parts[warm:], 0.8 * rate)
            p99 = float(np.quantile(waited, 0.99))
            self._add(
                f"p99 latency, target {target_s * 1e3:.0f} ms, at 80 % of {_k(rate)} rows/s",
                f"{p99 * 1e3:.0f} ms", "<= 2x the target", p99 <= 2 * target_s,
                p99=p99, rate=rate,
            )  # fmt: skip

    def _cells(self) -> None:
        """Auto beside the best fixed algorithm, by memory and exponent."""
        # A batch takes HYBRIDJOIN a minute, so there is one.
        scale = replace(self.scale, warm=max(2, self.scale.warm // 4), batches=1, rounds=1)
        for exponent in EXPONENTS:
            earlier = self.data.calls(2 * self.scale.warm, exponent=exponent, seed=5)
            for times in MEMORIES:
                joins = {n: self._ours(n, times=times) for n in ("auto", *FIXED)}
                with _closing(*joins.values()):
                    joins["auto"].answer(earlier)  # which takes it a hundredth of the others' time
                    rates = self._turns(joins, scale=scale, exponent=exponent)
                    cached = {n: j.stream.report().lookup.cached for n, j in joins.items()}
                best = max(FIXED, key=rates.cpu_rate)
                self._compare(
                    f"exponent {exponent}, {times * self.scale.memory_bytes / MB:.0f} MB, beside "
                    f"the best fixed one, {best}",
                    rates, best, 0.9, cached=cached,
                )  # fmt: skip
                for name in joins:
                    if exponent == 1.0:
                        self.by_memory.setdefault(name, {})[times] = rates.cpu_rate(name)
                self._note_prediction(rates.cpu_rate("auto"), exponent, times)

    def _note_prediction(self, rate: float, exponent: float, times: float) -> None:
        what = f"exponent {exponent}, {times * self.scale.memory_bytes / MB:.0f} MB"
        self.predicted.append((what, self._predictions.rate(exponent, times), rate))

    @cached_property
    def _predictions(self) -> Predictions:
        return Predictions(self.data, self.scale, self._measured)

    def _measured(self, exponent: float, times: float) -> float:
        """Rows per CPU second of ``auto``, of other calls than those of the cells."""
        ours = self._ours(times=times)
        with _closing(ours):
            ours.answer(self.data.calls(2 * self.scale.warm, exponent=exponent, seed=6))
            scale = replace(self.scale, warm=1)
            return self._turns({"auto": ours}, scale=scale, exponent=exponent, seed=11).cpu_rate(
                "auto"
            )

    def _model(self) -> None:
        off = [abs(guess / rate - 1) for _, guess, rate in self.predicted]
        self._add(
            "predicted rows/s beside measured",
            f"median {np.median(off):.0%} off, worst {max(off):.0%}",
            "median 10 %, worst 25 %", bool(np.median(off) <= 0.1 and max(off) <= 0.25),
            predicted=self.predicted,
        )  # fmt: skip

    def _lengths(self) -> None:
        """Figures 4 and 5: streams of three lengths, from empty caches."""
        for figure, exponent in (("4", 1.0), ("5", 0.0)):
            own = self.by_length.setdefault(figure, {})
            for batches in (2, 16):
                calls = self.data.calls(batches, exponent=exponent)
                for name in ("auto", "meshjoin", "cachejoin", "d-cachejoin"):
                    ours = self._ours(name, each=False)
                    with _closing(ours):
                        ours.stream.flush()
                        seconds = _cpu(partial(ours.answer, calls))
                    rows = batches * BATCH_ROWS
                    own.setdefault(name, {})[rows] = rows / seconds
            text = "; ".join(
                f"{name} " + ", ".join(f"{_k(rate)} at {rows:,}" for rows, rate in found.items())
                for name, found in own.items()
            )
            self._add(f"figure {figure}, rows per CPU second by rows", text, values=own)

    def _shares(self) -> None:
        """Figure 7: the share of the memory that is a cache."""
        usual = memory.CACHE_SHARE, tuner.SHARES
        scale = replace(self.scale, warm=max(2, self.scale.warm // 2), batches=6, rounds=1)
        try:
            for share in SHARES:
                memory.CACHE_SHARE, tuner.SHARES = share, (share,)
                names = ("auto", "cachejoin", "d-cachejoin", "meshjoin")
                joins = {name: self._ours(name, each=False) for name in names}
                with _closing(*joins.values()):
                    rates = self._turns(joins, scale=scale)
                    cached = joins["auto"].stream.report().lookup.cached / self.data.rows
                for name in names:
                    self.by_share.setdefault(name, {})[cached] = rates.cpu_rate(name)
        finally:
            memory.CACHE_SHARE, tuner.SHARES = usual
        text = "; ".join(
            f"{cached:.1%} cached: {rate / self.by_share['meshjoin'][cached]:.1f}x"
            for cached, rate in self.by_share["auto"].items()
        )
        self._add("figure 7, auto beside meshjoin by share cached", text, values=self.by_share)

    def draw(self, out):
        """Write the pictures; returns their paths."""
        from bench.lookup.pictures import draw

        return draw(self, out)


@contextmanager
def _closing(*contenders: Contender) -> Iterator[None]:
    try:
        yield
    finally:
        for one in contenders:
            one.close()


def _paced(stream, parts: Sequence[pa.RecordBatch], rate: float) -> np.ndarray:
    """Seconds from when each row was due until it could be polled; rows come at this rate."""
    first = parts[0].column("id")[0].as_py()
    began, found = time.perf_counter(), []

    def take() -> None:
        ids = stream.poll()["id"].to_numpy()
        due = (ids - first) // _PUSHED_ROWS * (_PUSHED_ROWS / rate)
        found.append(time.perf_counter() - began - due)

    for number, part in enumerate(parts):
        due = began + number * _PUSHED_ROWS / rate
        while (left := due - time.perf_counter()) > 0:
            stream.wait(1, left)
            take()
        stream.push("calls", part)
        take()
    stream.flush()
    take()
    return np.concatenate(found)


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _k(rate: float) -> str:
    return f"{rate / 1e3:,.0f} k"
