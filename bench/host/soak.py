"""A join that runs for long: memory, threads and files stay what they are.

``make soak`` (30 minutes), ``make soak ARGS='--minutes 1'``. A line per minute, or per tenth of a
shorter run, and a verdict; exit code 1 if anything grew.
"""

from __future__ import annotations

import argparse
import gc
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute
from rich.console import Console

from bench.host import rss, soak_workers
from bench.host.open_loop import Consumer
from bench.host.soak_lines import LEAST_LINES, Line
from bench.host.traffic import US_PER_S, Tick, Traffic
from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.join.stream import Flow, JoinStream

#: What memory may grow by, as a share, from the second fifth of the run to the last.
MOST_GROWTH = 0.02
_TICK_S = 0.01
#: Seconds of arrivals that come again and again, at later times.
_PERIOD_S = 2.0


def verdict(lines: list[Line], most_growth: float = MOST_GROWTH) -> list[str]:
    """What grew, as sentences; none if nothing did."""
    fifth = len(lines) // 5
    early, late = lines[fifth : 2 * fifth], lines[-fifth:]
    found = []
    before, after = (float(np.median([line.rss_bytes for line in part])) for part in (early, late))
    if after > before * (1 + most_growth):
        found.append(f"memory grew by {after / before - 1:.1%}, more than {most_growth:.0%}")
    for name in ("threads", "files"):
        first, last = (max(getattr(line, name) for line in part) for part in (early, late))
        if last > first:
            found.append(f"{name} grew from {first} to {last}")
    return found


def run(device: Device, traffic: Traffic, seconds: float, latency_s: float) -> Iterator[Line]:
    """Join the traffic for so long; a line every minute, or every tenth."""
    every = min(60.0, seconds / LEAST_LINES)
    wait, flow = threading.Event(), Flow(latency_s=latency_s)
    with JoinStream(traffic.query(), traffic.schemas, device, flow=flow) as stream:
        consumer = Consumer(stream, time.monotonic())
        lines = 0
        for tick in _again_and_again(traffic):
            if (left := consumer.began + tick.due_s - time.monotonic()) > 0:
                wait.wait(left)
            for name, batch in tick.batches.items():
                stream.push(name, batch)
            if time.monotonic() - consumer.began >= (lines + 1) * every:
                lines += 1
                yield _look(consumer)
            if tick.due_s >= seconds:
                break
        stream.flush()
        consumer.close()


def _again_and_again(traffic: Traffic) -> Iterator[Tick]:
    """The same arrivals every period, without end."""
    ticks = list(traffic.ticks(_PERIOD_S, _TICK_S))
    period = 0
    while True:
        shift = pa.scalar(round(period * _PERIOD_S * US_PER_S), pa.int64())
        for tick in ticks:
            batches = {}
            for name, batch in tick.batches.items():
                moved = pa.compute.add(batch["t"], shift)
                batches[name] = batch.set_column(0, batch.schema.field("t"), moved)
            yield Tick(tick.due_s + period * _PERIOD_S, batches)
        period += 1


def _look(consumer: Consumer) -> Line:
    arrived, moments = consumer.taken()
    latency = moments - arrived
    gc.collect()
    return Line(
        time.monotonic() - consumer.began,
        rss.resident_bytes(),
        rss.threads(),
        rss.open_files(),
        len(latency),
        float(np.quantile(latency, 0.99)) if len(latency) else float("nan"),
    )


def main() -> int:
    """Run the soak; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.host.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=10_000.0, help="tuples per second")
    parser.add_argument("--window", type=float, default=2.0, help="seconds")
    parser.add_argument("--latency", type=float, default=0.2, help="target in seconds")
    parser.add_argument(
        "--workers", type=int, help="group a stream on so many processes, instead of joining two"
    )
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    traffic = Traffic(rate_per_s=options.rate, window_s=options.window, results_per_s=options.rate)
    console = Console() if sys.stdout.isatty() else Console(width=160)
    lines, seconds = [], options.minutes * 60
    with open_device("cpu") as device:
        shown = (
            run(device, traffic, seconds, options.latency)
            if options.workers is None
            else soak_workers.run(options.workers, seconds, options.rate, options.latency)
        )
        for line in shown:
            lines.append(line)
            console.print(str(line), highlight=False)
    grown = verdict(lines)
    console.print("; ".join(grown) if grown else "nothing grew", highlight=False)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
