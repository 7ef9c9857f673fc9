"""Occurrences of keys: the Slash paper's own benchmark RO.

The paper (§8.1.2) has a key of eight bytes, uniform of 100 million, a time of eight, and counts per
key without a window. Decided: nothing else is in the record; it is a table, so it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import pyarrow as pa

from .draws import Zipf
from .slots import Slot, steady_times
from .workload import TIMESTAMP_MS, Columns, Workload, check

READS = pa.schema([("key", pa.int64()), ("t", TIMESTAMP_MS)])


@dataclass(frozen=True, kw_only=True)
class RO(Workload):
    """Table ``reads``: ``key``, and ``t`` in ms, at even distances.

    Parameters
    ----------
    rate : float
        Rows per second of event time.
    keys : int
    skew : float
        Zipf exponent of the keys; 0 is even. The paper's figure 10d has 0.2 to 2.
    """

    rate: float = 10_000.0
    keys: int = 100_000_000
    skew: float = 0.0
    disorder_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rate", self.rate, low=1e-3, high=1e9, unit="rows/s")
        check("keys", self.keys, low=1, high=1 << 31)
        check("skew", self.skew, low=0, high=10)

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return MappingProxyType({"reads": READS})

    def query(self) -> str:
        return "SELECT key, count(*) AS n\nFROM reads\nGROUP BY key"

    def oracle(self) -> str:
        return self.query()

    def rate_of(self, stream: str) -> float:
        return self.rate

    def _fill(self, stream: str, slot: Slot) -> Columns:
        ts = steady_times(slot, self.rate)
        return {"ts": ts, "key": self._keys.keys(slot.rng, len(ts))}

    @cached_property
    def _keys(self) -> Zipf:
        return Zipf(self.keys, self.skew)
