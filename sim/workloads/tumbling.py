"""Base of the workloads that group one stream by a key, in tumbling windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import pyarrow as pa

from .workload import Workload, check


@dataclass(frozen=True, kw_only=True)
class TumblingGroups(Workload):
    """One stream at a constant rate, and the SQL that groups it.

    Parameters
    ----------
    rate : float
        Rows per second.
    window_s : int
        Length of the query's windows in seconds.
    """

    #: Name of the stream, and its columns.
    STREAM: ClassVar[str]
    SCHEMA: ClassVar[pa.Schema]
    #: Key and aggregate of the groups, and the condition of their rows, if there is one.
    KEY: ClassVar[str]
    AGGREGATE: ClassVar[str]
    CONDITION: ClassVar[str] = ""

    rate: float = 10_000.0
    window_s: int
    disorder_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rate", self.rate, low=1e-3, high=1e9, unit="rows/s")
        check("window_s", self.window_s, low=1, high=10**6, unit="s")

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return MappingProxyType({self.STREAM: self.SCHEMA})

    def query(self) -> str:
        window = f"window(t, '{self.window_s} seconds')"
        return self._sql(f"{window}.start", f"{self.KEY}, {window}")

    def oracle(self) -> str:
        ms = 1000 * self.window_s
        return self._sql(f"epoch_ms(t) // {ms} * {ms}", "ALL")

    def _sql(self, start: str, by: str) -> str:
        where = f"WHERE {self.CONDITION}\n" if self.CONDITION else ""
        return (
            f"SELECT {self.KEY}, {start} AS w, {self.AGGREGATE}\nFROM {self.STREAM}\n"
            f"{where}GROUP BY {by}"
        )

    def rate_of(self, stream: str) -> float:
        return self.rate
