"""A join under tuples that arrive when they are scheduled to, whatever the join does.

Latency is the moment when a result is in the consumer's hands minus the scheduled arrival of its
later tuple: a join that holds up its source cannot hide that. Statistics begin when two windows
have passed, as in the FJoin paper, section 5.1.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from bench.host.traffic import US_PER_S, Tick, Traffic
from penstock.errors import PenstockError
from penstock.host.device.base import Device
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream

#: Quantiles that are kept of a run.
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
#: Most ticks per latency target: a source hands over what came within a tick at the tick's end.
_TICKS_PER_TARGET = 5
#: Shortest tick, and longest.
_TICK_S = (0.001, 0.01)
#: Seconds that results may be behind before a run is given up as not sustained.
MOST_BEHIND_S = 4.0
#: Seconds to wait for what is left when a run ends.
_REST_S = 60.0


@dataclass(frozen=True)
class Latencies:
    """Latencies of the results after the first two windows, in seconds."""

    results: int
    mean_s: float
    #: By :data:`QUANTILES`.
    quantiles_s: tuple[float, ...]

    @classmethod
    def of(cls, seconds: np.ndarray) -> Latencies:
        if not len(seconds):
            return cls(0, float("nan"), (float("nan"),) * len(QUANTILES))
        found = np.quantile(seconds, QUANTILES)
        return cls(len(seconds), float(seconds.mean()), tuple(float(each) for each in found))

    def at(self, share: float) -> float:
        """One of the quantiles."""
        return self.quantiles_s[QUANTILES.index(share)]


@dataclass(frozen=True)
class Second:
    """One second of a run: counts in it, and quantiles of the latency of what arrived in it."""

    tuples: int
    evaluations: int
    results: int
    median_s: float
    p99_s: float


@dataclass(frozen=True)
class Measured:
    """What a run gave."""

    latencies: Latencies
    #: Tuples per second of both streams that arrived while statistics were taken.
    tuples_per_s: float
    #: Whether results kept step with the arrivals up to the end.
    kept_up: bool
    seconds: list[Second]
    counters: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict) -> Measured:
        latencies = found["latencies"] | {"quantiles_s": tuple(found["latencies"]["quantiles_s"])}
        return cls(
            **{
                **found,
                "latencies": Latencies(**latencies),
                "seconds": [Second(**second) for second in found["seconds"]],
            }
        )


class Consumer:
    """Takes results as they come, and keeps when they did."""

    def __init__(self, stream: JoinStream, began: float) -> None:
        self.stream = stream
        self.began = began
        self.error: PenstockError | None = None
        self._ended = threading.Event()
        self._taken: deque[tuple[float, np.ndarray]] = deque()
        self._newest: float | None = None
        self._thread = threading.Thread(target=self._run, name="bench-consumer", daemon=True)
        self._thread.start()

    @property
    def behind_s(self) -> float:
        """How old the newest result is; 0 as long as there is none."""
        newest = self._newest
        return 0.0 if newest is None else time.monotonic() - self.began - newest

    def taken(self) -> tuple[np.ndarray, np.ndarray]:
        """What came since the last call.

        Returns
        -------
        arrived, moments : ndarray of float64, shape (results,)
            Scheduled arrivals of the later tuples, and when their results were taken, in seconds.
        """
        if self.error is not None:
            raise self.error
        found = []
        while self._taken:
            found.append(self._taken.popleft())
        if not found:
            return np.zeros(0), np.zeros(0)
        arrived = np.concatenate([later for _, later in found]) / US_PER_S
        return arrived, np.repeat([moment for moment, _ in found], [len(x) for _, x in found])

    def close(self) -> tuple[np.ndarray, np.ndarray]:
        """Stop when the join has ended; the rest of the results, as :meth:`taken`."""
        self._ended.set()
        self._thread.join(_REST_S)
        self._take()
        return self.taken()

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                if self.stream.wait(1, 0.1):
                    self._take()
        except PenstockError as error:
            self.error = error

    def _take(self) -> None:
        rows = self.stream.poll()
        if rows.num_rows:
            moment = time.monotonic() - self.began
            a, b = (rows[name].to_numpy() for name in ("ta", "tb"))
            later = np.maximum(a, b)
            self._taken.append((moment, later))
            self._newest = float(later.max()) / US_PER_S


def run(
    device: Device,
    traffic: Traffic,
    *,
    latency_s: float,
    measured_s: float,
    ordered: bool = False,
    rise_per_s: float = 0.0,
) -> Measured:
    """Join the traffic for two windows and ``measured_s`` more seconds.

    Parameters
    ----------
    device : Device
    traffic : Traffic
    latency_s : float
        Latency target.
    measured_s : float
    ordered : bool
        Whether results leave in order.
    rise_per_s : float
        What the rate grows by each second after the first two windows, as a share of it.

    Raises
    ------
    DeviceError
        A task failed on every lane.
    """
    warm_s = 2 * traffic.window_s
    tick_s = min(max(latency_s / _TICKS_PER_TARGET, _TICK_S[0]), _TICK_S[1])

    def arrived_s(moment: np.ndarray) -> np.ndarray:
        return moment + rise_per_s * np.maximum(moment - warm_s, 0) ** 2 / 2

    ticks = list(traffic.ticks(warm_s + measured_s, tick_s, arrived_s=arrived_s))
    flow = Flow(latency_s=latency_s, running=Running(ordered=ordered, pruning=False))
    stream = JoinStream(traffic.query(), traffic.schemas, device, flow=flow)
    before = device.counters()
    # A moment for threads to start, so that the first tick is not late.
    consumer = Consumer(stream, time.monotonic() + 0.05)
    try:
        evaluations, kept_up = feed(stream, consumer, ticks)
        stream.flush()
    finally:
        stream.close()
    arrived, moments = consumer.close()
    kept = arrived >= warm_s
    done = [k for k, tick in enumerate(ticks) if tick.due_s > warm_s]
    tuples = sum(ticks[k].batches[name].num_rows for k in done for name in "ab")
    counters = {name: n - before.get(name, 0) for name, n in device.counters().items()}
    return Measured(
        Latencies.of((moments - arrived)[kept]),
        tuples / measured_s,
        kept_up,
        _seconds(ticks, evaluations, arrived, moments),
        counters,
    )


def feed(stream: JoinStream, consumer: Consumer, ticks: Sequence[Tick]) -> tuple[list[int], bool]:
    """Push each tick when it is due; evaluations up to each second, and whether it kept up."""
    evaluations, wait = [], threading.Event()
    for tick in ticks:
        left = consumer.began + tick.due_s - time.monotonic()
        if left > 0:
            wait.wait(left)
        for name, batch in tick.batches.items():
            if batch.num_rows:
                stream.push(name, batch)
        if tick.due_s >= len(evaluations) + 1:
            evaluations.append(stream.stats.pairs_evaluated)
            if consumer.behind_s > MOST_BEHIND_S:
                return evaluations, False
    return evaluations, True


def _seconds(
    ticks: Sequence[Tick], evaluations: Sequence[int], arrived: np.ndarray, moments: np.ndarray
) -> list[Second]:
    due = np.array([tick.due_s for tick in ticks])
    sizes = np.array([sum(b.num_rows for b in tick.batches.values()) for tick in ticks])
    found = []
    for k, more in enumerate(np.diff([0, *evaluations])):
        latency = (moments - arrived)[(arrived >= k) & (arrived < k + 1)]
        median, p99 = np.quantile(latency, (0.5, 0.99)) if len(latency) else (np.nan, np.nan)
        found.append(
            Second(
                int(sizes[(due > k) & (due <= k + 1)].sum()),
                int(more),
                int(((moments >= k) & (moments < k + 1)).sum()),
                float(median),
                float(p99),
            )
        )
    return found
