"""More load than a join sustains, for a while: memory stays in its budget, latency comes back.

The source hands a batch over for as long as its tuples are worth anything, and sheds it where the
join has no room: ``push`` then says so and has taken nothing. What was taken is joined.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.host.open_loop import Consumer
from bench.host.rss import resident_bytes
from bench.host.traffic import US_PER_S, Tick, Traffic
from penstock.errors import OverloadError
from penstock.host.device.base import Device
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Steady load, overload, steady load.

    Parameters
    ----------
    traffic : Traffic
        The steady load.
    factor : float
        How much faster tuples come while the join is overloaded.
    before_s, overload_s, after_s : float
        ``before_s`` is at least two windows.
    latency_s : float
        Target.
    memory_bytes : int
        Budget.
    tick_s : float
        How often the source hands over what came.
    """

    traffic: Traffic
    factor: float
    before_s: float
    overload_s: float
    after_s: float
    latency_s: float
    memory_bytes: int
    tick_s: float = 0.005

    def ticks(self) -> list[Tick]:
        """What arrives."""
        moments = [0.0, self.before_s, self.before_s + self.overload_s]
        moments.append(moments[-1] + self.after_s)
        worth = np.cumsum([0, self.before_s, self.factor * self.overload_s, self.after_s])
        return list(
            self.traffic.ticks(
                moments[-1], self.tick_s, arrived_s=lambda at: np.interp(at, moments, worth)
            )
        )


@dataclass(frozen=True)
class Outcome:
    """What became of it."""

    highest_bytes: int
    #: Growth of the process from the steady state to its largest, latencies of the bench included.
    rss_growth_bytes: int
    arrived: int
    shed: int
    #: p99 of the latency in the steady state, while overloaded, and at the end.
    before_p99_s: float
    overload_p99_s: float
    after_p99_s: float
    #: Seconds from the end of the overload until results were within twice the target for good.
    recovered_after_s: float


def run(device: Device, plan: Plan) -> Outcome:
    """Run a plan; the last third of ``after_s`` counts as the end."""
    ticks = plan.ticks()
    flow = Flow(
        latency_s=plan.latency_s,
        memory_bytes=plan.memory_bytes,
        push_timeout_s=plan.latency_s,
        running=Running(pruning=False),
    )
    stream = JoinStream(plan.traffic.query(), plan.traffic.schemas, device, flow=flow)
    consumer = Consumer(stream, time.monotonic() + 0.05)
    try:
        shed, rss = _feed(stream, consumer, ticks)
        stream.flush()
    finally:
        stream.close()
    arrived, moments = consumer.close()
    latency = moments - arrived
    ends = plan.before_s + plan.overload_s
    total = ends + plan.after_s
    slow = arrived[(arrived >= ends) & (latency > 2 * plan.latency_s)]
    steady = [size for due, size in rss if due <= plan.before_s]
    return Outcome(
        stream.budget.highest,
        max(size for _, size in rss) - max(steady),
        sum(b.num_rows for tick in ticks for b in tick.batches.values()),
        shed,
        _p99(latency[(arrived >= plan.before_s / 2) & (arrived < plan.before_s)]),
        _p99(latency[(arrived >= plan.before_s) & (arrived < ends)]),
        _p99(latency[arrived >= total - plan.after_s / 3]),
        float(slow.max() - ends) if len(slow) else 0.0,
    )


def _feed(
    stream: JoinStream, consumer: Consumer, ticks: Sequence[Tick]
) -> tuple[int, list[tuple[float, int]]]:
    """Hand over each tick when it is due; tuples that were shed, and memory at times."""
    shed, rss, wait = 0, [], threading.Event()
    for number, tick in enumerate(ticks):
        left = consumer.began + tick.due_s - time.monotonic()
        if left > 0:
            wait.wait(left)
        for name, batch in tick.batches.items():
            try:
                if time.monotonic() - consumer.began - tick.due_s <= stream.flow.latency_s:
                    stream.push(name, batch)
                    continue
            except OverloadError:
                pass
            # Time goes on without the tuples, or windows would keep the memory for ever.
            shed += batch.num_rows
            stream.advance(name, round(tick.due_s * US_PER_S))
        if number % 20 == 0:
            rss.append((tick.due_s, resident_bytes()))
    return shed, rss


def _p99(seconds: np.ndarray) -> float:
    return float(np.quantile(seconds, 0.99)) if len(seconds) else float("nan")
