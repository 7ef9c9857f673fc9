"""Call records of an operator and its subscribers: a stream that looks rows up in a large table.

Few subscribers make most calls: the share of each falls with its rank by Zipf's law, as in the data
of the D-CACHEJOIN paper. Some calls come from numbers that are no subscriber's, each of which comes
once; and who calls most may change as time goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .draws import Zipf, spreading_step
from .slots import US_PER_S, Slot, poisson_times
from .workload import TIMESTAMP, Columns, Workload, check

CALLS = pa.schema(
    [("id", pa.int64()), ("ts", TIMESTAMP), ("subscriber", pa.int64()), ("seconds", pa.int32())]
)
SUBSCRIBERS = pa.schema(
    [("id", pa.int64()), ("ts", TIMESTAMP), ("plan", pa.int64()), ("name", pa.string())]
)

#: Characters of a name: a row of a subscriber, with the hash of its key, has 100 bytes.
NAME_CHARS = 64
_DIGITS = 12

#: Seconds that a call lasts on average.
_CALL_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Calls(Workload):
    """Calls of subscribers.

    Parameters
    ----------
    rate : float
        Calls per second.
    subscribers : int
    exponent : float
        Of the Zipf distribution of calls over subscribers; 0 is even.
    absent : float
        Share of calls whose number is no subscriber's.
    drift : float
        Share of the ranks that are another subscriber's after each ``drift_s`` seconds.
    drift_s : float
    """

    rate: float = 10_000.0
    subscribers: int = 2_000_000
    exponent: float = 1.0
    absent: float = 0.0
    drift: float = 0.0
    drift_s: float = 60.0
    disorder_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rate", self.rate, low=1e-3, high=1e8, unit="rows per second")
        check("subscribers", self.subscribers, low=1, high=1 << 40)
        check("exponent", self.exponent, low=0, high=10)
        check("absent", self.absent, low=0, high=1)
        check("drift", self.drift, low=0, high=1)
        check("drift_s", self.drift_s, low=1e-3, high=1e9, unit="s")

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return MappingProxyType({"calls": CALLS, "subscribers": SUBSCRIBERS})

    def query(self) -> str:
        return (
            "SELECT c.id, s.plan, s.name\nFROM calls c\nJOIN subscribers s ON c.subscriber = s.id"
        )

    def rate_of(self, stream: str) -> float:
        return self.rate if stream == "calls" else self.subscribers / self.seconds

    def _fill(self, stream: str, slot: Slot) -> Columns:
        ts = poisson_times(slot, self.rate)
        ranks = self._zipf.ranks(slot.rng.random(len(ts)))
        era = ts // round(self.drift_s * US_PER_S)
        moves = ranks * 40_503 % 65_536 < self.drift * 65_536
        subscriber = (ranks + np.where(moves, era, 0) * 7_919) * self._step % self.subscribers
        if self.absent:
            nobody = slot.rng.random(len(ts)) < self.absent
            subscriber[nobody] = -1 - slot.rng.integers(0, 1 << 62, int(nobody.sum()))
        seconds = slot.rng.exponential(_CALL_S, len(ts)).astype(np.int32)
        return {"ts": ts, "subscriber": subscriber, "seconds": seconds}

    def _batches(self, stream: str, rows: int) -> Iterator[pa.RecordBatch]:
        if stream == "calls":
            yield from super()._batches(stream, rows)
            return
        for first in range(0, self.subscribers, rows):
            yield self._subscribers(np.arange(first, min(self.subscribers, first + rows)))

    def _subscribers(self, ids: npt.NDArray[np.int64]) -> pa.RecordBatch:
        text = np.full((len(ids), NAME_CHARS), ord("."), np.uint8)
        left = ids.copy()
        for place in range(_DIGITS):
            text[:, _DIGITS - 1 - place] = ord("0") + left % 10
            left //= 10
        offsets = np.arange(len(ids) + 1, dtype=np.int32) * NAME_CHARS
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1))]
        name = pa.Array.from_buffers(pa.string(), len(ids), buffers)
        started = pa.array(np.full(len(ids), self._start_us), TIMESTAMP)
        plan = pa.array((ids * 2_654_435_761 >> 7) & 1023)
        return pa.RecordBatch.from_arrays([pa.array(ids), started, plan, name], schema=SUBSCRIBERS)

    @cached_property
    def _step(self) -> int:
        """Spreads ranks over subscribers."""
        return spreading_step(self.subscribers)

    @cached_property
    def _zipf(self) -> Zipf:
        return Zipf(self.subscribers, self.exponent)
