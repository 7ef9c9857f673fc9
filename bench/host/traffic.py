"""Two streams whose tuples have scheduled times of arrival, and the two queries of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.host.model import solve
from penstock.host.model.load import Load, Model
from penstock.query import JoinQuery, compile_query

US_PER_S = 1_000_000
#: Keys of ride are signed, those of network are not: a prefix is a band of unsigned numbers only.
SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int32()), ("y", pa.int32())])
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
_NETWORK = pa.schema([("t", pa.int64()), ("x", pa.uint32()), ("y", pa.uint32())])

#: Coordinates of the ride workload lie below this; a prefix of the network workload is so large.
_SPAN, _PREFIX = 1 << 20, 1 << 8
#: The predicates of the FJoin paper's section 5.1, by workload. Times are in microseconds.
PREDICATES = {
    "ride": "abs(a.x - b.x) + abs(a.y - b.y) < {distance}",
    "network": f"(a.x ^ b.x) < {_PREFIX} OR (a.y ^ b.y) < {_PREFIX}",
}
_SELECT = """SELECT a.t AS ta, b.t AS tb FROM a JOIN b
ON ({predicate})
AND b.t BETWEEN a.t - {window} AND a.t + {window}"""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Two streams at steady rates, and what joins them.

    Parameters
    ----------
    workload : str
        ``ride``: Manhattan distance below a threshold, two band tests that must both be met.
        ``network``: one of two addresses has the same prefix.
    rate_per_s : float
        Tuples of both streams.
    ratio : float
        Rate of ``a`` over rate of ``b``.
    window_s : float
        A tuple meets those of the other stream that are at most so old.
    results_per_s : float
        Expected; the selectivity follows.
    """

    workload: str = "ride"
    rate_per_s: float
    ratio: float = 1.0
    window_s: float
    results_per_s: float

    def load(self, latency_s: float) -> Load:
        """The same for the performance model."""
        return Load(
            rate_per_s=self.rate_per_s,
            ratio=self.ratio,
            before_s=self.window_s,
            after_s=self.window_s,
            latency_s=latency_s,
        )

    def at(self, rate_per_s: float) -> Traffic:
        """The same at another rate."""
        return replace(self, rate_per_s=rate_per_s)

    def sustained(self, model: Model, latency_s: float, share: float = 1.0) -> Traffic:
        """The same at the rate that is predicted to take this share of a device's time."""
        asked = _Asked(self, model, share)
        return self.at(solve.sustainable_rate_per_s(asked, self.load(latency_s)))

    @property
    def selectivity(self) -> float:
        """Share of the pairs in the window that match."""
        return _selectivity(self.results_per_s, self.load(1.0))

    @property
    def sql(self) -> str:
        """The query."""
        # In a square of side s, pairs within Manhattan distance d are a share of 2 d^2 / s^2.
        distance = max(1, round(_SPAN * math.sqrt(self.selectivity / 2)))
        predicate = PREDICATES[self.workload].format(distance=distance)
        return _SELECT.format(predicate=predicate, window=round(self.window_s * US_PER_S))

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """Schemas of both streams."""
        return dict.fromkeys("ab", _NETWORK if self.workload == "network" else SCHEMA)

    def query(self) -> JoinQuery:
        """The query, compiled."""
        return compile_query(self.sql, self.schemas, time={"a": "t", "b": "t"})

    def ticks(
        self,
        seconds: float,
        tick_s: float,
        *,
        seed: int = 1,
        arrived_s: Callable[[np.ndarray], np.ndarray] = lambda moment: moment,
    ) -> Iterator[Tick]:
        """All arrivals of so many seconds in ticks, made now so that nothing is made meanwhile.

        ``arrived_s`` says how many seconds' worth of tuples at the steady rate have arrived at a
        moment: that itself by default, more where the rate rises.
        """
        rng = np.random.default_rng(seed)
        count = round(seconds / tick_s)
        edges = np.round(np.arange(count + 1) * tick_s * US_PER_S).astype(np.int64)
        shares = {"a": self.ratio / (1 + self.ratio), "b": 1 / (1 + self.ratio)}
        sides = {
            name: self._side(rng, edges, share * self.rate_per_s * arrived_s(edges / US_PER_S))
            for name, share in shares.items()
        }
        for k in range(count):
            batches = {}
            for name, (batch, at) in sides.items():
                batches[name] = batch.slice(at[k], at[k + 1] - at[k])
            yield Tick(float(edges[k + 1]) / US_PER_S, batches)

    def _side(
        self, rng: np.random.Generator, edges: np.ndarray, upto: np.ndarray
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """A stream of so many tuples up to each tick, and where each tick begins in it."""
        at = np.round(upto).astype(np.int64)
        sizes = np.diff(at)
        first, length = np.repeat(edges[:-1], sizes), np.repeat(np.diff(edges), sizes)
        time = np.sort(first + (rng.random(at[-1]) * length).astype(np.int64))
        span = _SPAN
        if self.workload == "network":
            span = max(round(2 * _PREFIX / self.selectivity), _PREFIX)
        schema = self.schemas["a"]
        dtype = schema.field("x").type.to_pandas_dtype()
        keys = rng.integers(0, min(span, (1 << 31) - 1), (2, at[-1]), dtype)
        columns = [pa.array(column) for column in (time, *keys)]
        return pa.RecordBatch.from_arrays(columns, schema=schema), at


@dataclass(frozen=True)
class _Asked:
    """A model of which only a share may be used, for traffic at any rate."""

    traffic: Traffic
    model: Model
    share: float

    def utilisation(self, load: Load) -> float:
        found = _selectivity(self.traffic.results_per_s, load)
        return self.model.utilisation(replace(load, selectivity=found)) / self.share


def _selectivity(results_per_s: float, load: Load) -> float:
    return min(results_per_s / load.evaluations_per_s, 0.5)


@dataclass(frozen=True)
class Tick:
    """What arrives in a short time.

    Parameters
    ----------
    due_s : float
        Seconds from the start until its last tuple is due.
    batches : dict of str to RecordBatch
    """

    due_s: float
    batches: dict[str, pa.RecordBatch]
