"""Measures the figures of a channel, in turns, and keeps them as rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.channel import bare, latency, networks, ours, paper
from bench.channel.far import Far
from bench.channel.peers import PEERS, needs
from bench.channel.work import Job, Memcpy, Source
from bench.rows import Row
from penstock.errors import MissingToolError, ProcessError
from penstock.host.channel import FOOTER_BYTES
from penstock.host.channel.doorbell import SPIN_S

#: Least ratio to each of these.
TARGETS = {
    "memcpy": 0.8,
    "iceoryx2": 0.9,
    "ZeroMQ ipc": 3.0,
    "multiprocessing.Pipe": 3.0,
    "Arrow Flight": 5.0,
}
#: What the channel through UCX is compared with: its name, the other's, and the least ratio.
NETWORK_TARGETS = [
    (networks.ON_SHM, "memcpy", 0.6),
    (networks.ON_TCP, "one TCP stream", 0.9),
    (networks.ON_TCP, "Arrow Flight", 5.0),
]
#: Most microseconds there and back, spinning and asleep.
SPINNING_US, ASLEEP_US = 5.0, 60.0
SLOT_BYTES = 1 << 16
SIZES = [1 << bits for bits in range(12, 23)]
CREDITS = [1, 2, 4, 8, 16, 32, 64]
#: Messages of the smallest transfer, however large they are.
LEAST_MESSAGES = 64
_MICRO = 1e6


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured.

    Parameters
    ----------
    cold_bytes : int
        Memory that is read from.
    transfer_bytes : int
        Of one transfer.
    rounds : int
        Turns of each contender.
    echoes, sleeps : int
        Messages there and back, spinning and asleep.
    """

    cold_bytes: int
    transfer_bytes: int
    rounds: int
    echoes: int
    sleeps: int

    def job(self, message_bytes: int, slots: int = 8) -> Job:
        """A transfer of messages of a size."""
        count = max(self.transfer_bytes // message_bytes, LEAST_MESSAGES)
        return Job(message_bytes, count, slots)


FULL = Scale(cold_bytes=1 << 29, transfer_bytes=1 << 30, rounds=9, echoes=50_000, sleeps=2_000)
QUICK = Scale(cold_bytes=1 << 28, transfer_bytes=1 << 28, rounds=3, echoes=10_000, sleeps=500)


@dataclass
class Curves:
    """What the pictures draw.

    Parameters
    ----------
    rate, seconds : dict of int to float
        Bytes/s, and the median of there and back halved, by bytes of a slot.
    credits : dict of int to float
        Bytes/s by slots.
    """

    rate: dict[int, float] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    credits: dict[int, float] = field(default_factory=dict)


class ChannelReport:
    """All figures of :mod:`bench.channel`."""

    def __init__(self, scale: Scale, on_row: Callable[[Row], None]) -> None:
        self.rows: list[Row] = []
        self.curves = Curves()
        self._scale = scale
        self._on_row = on_row
        self._near = ours.Near()

    def measure(self) -> None:
        """Measure all figures."""
        source = Source(self._scale.cold_bytes)
        with ExitStack() as stack:
            self._transfers(source, stack)
            far = _far(self._near, stack)
            self._sizes(source, far)
            self._credits(source, far)
            echo = Far(latency.__name__, "echo")
            stack.callback(echo.close)
            self._latencies(echo)

    def draw(self, out: Path) -> list[Path]:
        """Draw figures 10a and 10b."""
        from bench.channel.pictures import draw

        return draw(self.curves, out)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._on_row(row)

    def _transfers(self, source: Source, stack: ExitStack) -> None:
        """64 KiB slots beside memcpy and the peers, in turns."""
        job = self._scale.job(SLOT_BYTES - FOOTER_BYTES)
        total = source.total(job)
        nears: list[Any] = [self._near, bare.Near()]
        for name, make in PEERS.items():
            try:
                needs(make.package)  # type: ignore[attr-defined]
            except MissingToolError as error:
                self._add(Row(f"64 KiB, over {name}", str(error)))
                continue
            nears.append(make())
        nears += [networks.Near(name) for name in networks.TRANSPORTS]
        nears.append(networks.Stream())
        fars = {near.name: _far(near, stack) for near in nears}
        memcpy = Memcpy(source)
        seconds: dict[str, list[float]] = {name: [] for name in ("memcpy", *fars)}
        warm = Job(job.message_bytes, LEAST_MESSAGES, job.slots)
        for near in nears:
            fars[near.name].transfer(near, warm, source)
        for _ in range(self._scale.rounds):
            seconds["memcpy"].append(memcpy.seconds(job))
            for near in nears:
                time_s, done = fars[near.name].transfer(near, job, source)
                if done.total != total:
                    raise ProcessError(f"{near.name} has brought other bytes than were sent")
                seconds[near.name].append(time_s)
        self._compare(seconds, job)
        for name, other, least in NETWORK_TARGETS:
            if other not in seconds:
                continue
            pairs = zip(seconds[name], seconds[other], strict=True)
            ratio = median(theirs / own for own, theirs in pairs)
            self._add(
                Row(
                    f"64 KiB slots, {name}, over {other}",
                    f"{ratio:.2f}",
                    f">= {least:g}",
                    ratio >= least,
                    _gbs(job.nbytes / median(seconds[name])),
                    {"ratio": ratio, "seconds": [seconds[name], seconds[other]]},
                )
            )

    def _compare(self, seconds: dict[str, list[float]], job: Job) -> None:
        own = seconds[self._near.name]
        rate = job.nbytes / median(own)
        self._add(Row("64 KiB slots, cold memory", _gbs(rate), values=rate))
        for name, theirs in seconds.items():
            if name == self._near.name:
                continue
            # Neighbours in time, so that both had the same machine.
            ratio = median(b / a for a, b in zip(own, theirs, strict=True))
            least = TARGETS.get(name)
            self._add(
                Row(
                    f"64 KiB slots, cold memory, over {name}",
                    f"{ratio:.2f}",
                    f">= {least:g}" if least else "",
                    ratio >= least if least else None,
                    _gbs(job.nbytes / median(theirs)),
                    {"ratio": ratio, "seconds": [own, theirs]},
                )
            )

    def _sizes(self, source: Source, far: Far) -> None:
        """Figures 10a and 10b: slots of 4 KiB to 4 MiB, c = 8."""
        for size in SIZES:
            job = self._scale.job(size - FOOTER_BYTES)
            rates, delays = [], []
            for _ in range(3):
                time_s, done = far.transfer(self._near.one_by_one, job, source)
                rates.append(job.nbytes / time_s)
                sent = np.array(self._near.sent_ns)
                delays.append(float(np.median(done.times_ns - sent)) / 1e9)
            self.curves.rate[size] = median(rates)
            self.curves.seconds[size] = median(delays)
            self._add(
                Row(
                    f"figure 10a, 10b: {size >> 10} KiB",
                    f"{_gbs(median(rates))}, {median(delays) * _MICRO:,.0f} us",
                    baseline=f"paper {paper.SLASH_GBS} GB/s"
                    if size >= paper.FULL_FROM_BYTES
                    else "",
                    values={"bytes_per_s": median(rates), "seconds": median(delays)},
                )
            )

    def _credits(self, source: Source, far: Far) -> None:
        """64 KiB slots, 1 to 64 of them, in turns."""
        rates: dict[int, list[float]] = {credits: [] for credits in CREDITS}
        for _ in range(3):
            for credits in CREDITS:
                job = self._scale.job(SLOT_BYTES - FOOTER_BYTES, credits)
                time_s, _ = far.transfer(self._near, job, source)
                rates[credits].append(job.nbytes / time_s)
        self.curves.credits = {credits: median(found) for credits, found in rates.items()}
        for credits, rate in self.curves.credits.items():
            loss = paper.LOSS_BY_CREDITS.get(credits)
            self._add(
                Row(
                    f"64 KiB, {credits} credits, over 8",
                    f"{rate / self.curves.credits[8]:.2f}",
                    baseline=f"paper >= {1 - loss:.2f}" if loss else "",
                    values=rate,
                )
            )

    def _latencies(self, far: Far) -> None:
        """64 bytes there and back."""
        for name, job, most in (
            ("spinning", latency.Echo(64, self._scale.echoes, 1.0), SPINNING_US),
            ("asleep", latency.Echo(64, self._scale.sleeps, 0.0), ASLEEP_US),
            # After a pause the processor itself has gone to sleep, too.
            ("asleep for 1 ms", latency.Echo(64, self._scale.sleeps, 0.0, 1e-3), None),
            ("spins 50 us", latency.Echo(64, self._scale.echoes, SPIN_S), None),
        ):
            seconds = latency.there_and_back(self._near, far, job)
            p50, p99 = (float(value) * _MICRO for value in np.quantile(seconds, [0.5, 0.99]))
            self._add(
                Row(
                    f"64 bytes there and back, {name}, p50",
                    f"{p50:.1f} us",
                    f"<= {most:g} us" if most else "",
                    p50 <= most if most else None,
                    f"p99 {p99:.1f} us",
                    {"p50_us": p50, "p99_us": p99},
                )
            )


def _far(near: Any, stack: ExitStack) -> Far:
    far = Far(near.module, near.consume)
    stack.callback(far.close)
    return far


def _gbs(rate: float) -> str:
    return f"{rate / 1e9:.2f} GB/s"
