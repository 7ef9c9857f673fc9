"""Measures the figures of a channel, in turns, and keeps them as rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.channel import bare, latency, mpi, networks, ours, puts
from bench.channel.curves import LABELS, Curves, measure_curves
from bench.channel.far import Far
from bench.channel.peers import PEERS, needs
from bench.channel.scale import LEAST_MESSAGES, SLOT_BYTES, Scale
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
    mpi.ON_SHM: 1.0,
}
#: What the channel through UCX is compared with: its name, the other's, and the least ratio, if
#: there is one.
NETWORK_TARGETS = [
    (networks.ON_SHM, "memcpy", 0.6),
    (networks.ON_SHM, ours.Near.name, None),
    (networks.ON_SHM, puts.ON_SHM, None),
    (networks.ON_SHM, mpi.ON_SHM, 1.0),
    (networks.ON_TCP, "one TCP stream", 0.9),
    (networks.ON_TCP, puts.ON_TCP, None),
    (networks.ON_TCP, mpi.ON_TCP, 1.0),
    (networks.ON_TCP, "Arrow Flight over TCP", 5.0),
    (puts.ON_SHM, "memcpy", None),
    (puts.ON_TCP, networks.Stream.name, None),
]
#: Most microseconds there and back, spinning and asleep.
SPINNING_US, ASLEEP_US = 5.0, 60.0
_MICRO = 1e6


class ChannelReport:
    """All figures of :mod:`bench.channel`."""

    def __init__(self, scale: Scale, on_row: Callable[[Row], None]) -> None:
        self.rows: list[Row] = []
        self.curves: Curves = {}
        self._scale = scale
        self._on_row = on_row
        self._near = ours.Near()

    def measure(self) -> None:
        """Measure all figures."""
        source = Source(self._scale.cold_bytes)
        with ExitStack() as stack:
            self.curves = measure_curves(
                self._transfers(source, stack), source, self._scale, self._add
            )
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

    def _transfers(self, source: Source, stack: ExitStack) -> list[tuple[Any, Far]]:
        """64 KiB slots beside memcpy and the peers, in turns; both sides of the channels."""
        job = self._scale.job(SLOT_BYTES - FOOTER_BYTES)
        total = source.total(job)
        nears = self._contenders(stack)
        fars: dict[str, Any] = {
            name: near if isinstance(near, mpi.Near) else _far(near, stack)
            for name, near in nears.items()
        }
        memcpy = Memcpy(source)
        seconds: dict[str, list[float]] = {name: [] for name in ("memcpy", *fars)}
        warm = Job(job.message_bytes, LEAST_MESSAGES, job.slots)
        for name, near in nears.items():
            fars[name].transfer(near, warm, source)
        for _ in range(self._scale.rounds):
            seconds["memcpy"].append(memcpy.seconds(job))
            for name, near in nears.items():
                time_s, done = fars[name].transfer(near, job, source)
                if done.total != total:
                    raise ProcessError(f"{name} has brought other bytes than were sent")
                seconds[name].append(time_s)
        self._compare(seconds, job)
        self._compare_networks(seconds, job)
        return [(nears[name], fars[name]) for name in LABELS if name in nears]

    def _contenders(self, stack: ExitStack) -> dict[str, Any]:
        """The near sides of all that is installed."""
        makes: dict[str, Callable[[], Any]] = {
            self._near.name: lambda: self._near,
            bare.Near.name: bare.Near,
            **PEERS,
            **{name: partial(mpi.Near, name, self._scale.cold_bytes) for name in mpi.TRANSPORTS},
            **{name: partial(networks.Near, name) for name in networks.TRANSPORTS},
            **{name: partial(puts.Near, name) for name in puts.TRANSPORTS},
            networks.Stream.name: networks.Stream,
        }
        nears = {}
        for name, make in makes.items():
            try:
                if name in PEERS:
                    needs(make.package)  # type: ignore[attr-defined]
                nears[name] = make()
            except MissingToolError as error:
                self._add(Row(f"64 KiB, over {name}", str(error)))
                continue
            if isinstance(nears[name], mpi.Near):
                stack.callback(nears[name].close)
        return nears

    def _compare_networks(self, seconds: dict[str, list[float]], job: Job) -> None:
        """The channel through UCX beside others on the same transport."""
        for name, other, least in NETWORK_TARGETS:
            if not {name, other} <= seconds.keys():
                continue
            ratio = _ratio(seconds[name], seconds[other])
            self._add(
                Row(
                    f"64 KiB slots, {name}, over {other}",
                    f"{ratio:.2f}",
                    f">= {least:g}" if least else "",
                    ratio >= least if least else None,
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
            ratio = _ratio(own, theirs)
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


def _ratio(own: list[float], theirs: list[float]) -> float:
    """How much faster, of neighbours in time, so that both had the same machine."""
    return median(b / a for a, b in zip(own, theirs, strict=True))


def _far(near: Any, stack: ExitStack) -> Far:
    far = Far(near.module, near.consume)
    stack.callback(far.close)
    return far


def _gbs(rate: float) -> str:
    return f"{rate / 1e9:.2f} GB/s"
