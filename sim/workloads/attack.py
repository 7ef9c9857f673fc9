"""Packet headers at two sites while both are flooded: the query of the window-join paper.

Most packets go to ports that differ from packet to packet, a few of them popular. During the
attack a share of the packets of both sites goes to one port, from many sources. Joined on the
port within the latest packets of both sites, that port stands out from all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import UsageError

from .draws import draw, zipf_cdf
from .slots import US_PER_S, Slot, poisson_times
from .workload import TIMESTAMP, Columns, Workload, check

#: The sites, as the paper calls them.
SITES = ("tsukuba", "uec")

#: Networks of the sites, as their first addresses; each has 65,536.
_NETWORKS = {"tsukuba": 130 << 24 | 158 << 16, "uec": 130 << 24 | 153 << 16}


@dataclass(frozen=True, kw_only=True)
class Attack(Workload):
    """Streams ``tsukuba`` and ``uec``: packets that arrive at two sites.

    Columns: ``id`` counts the rows of a stream in the order they arrive, from 0; ``ts`` is the
    event time; ``srcip`` and ``dstip`` are IPv4 addresses; ``srcport`` and ``dstport``;
    ``length`` is in bytes. The integers are unsigned.

    Parameters
    ----------
    rate : float
        Packets per second and site, those of the attack included.
    ports : int
        Ports that the other packets go to.
    skew : float
        Zipf exponent of these ports; 0 is even.
    share : float
        Share of the packets that belong to the attack while it lasts.
    port : int
        The port under attack.
    begin, end : float
        When the attack lasts, as parts of the run.
    """

    rate: float = 20_000.0
    ports: int = 32_768
    skew: float = 0.5
    share: float = 0.05
    port: int = 53
    begin: float = 0.25
    end: float = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rate", self.rate, low=1e-6, high=1e9, unit="rows/s")
        check("ports", self.ports, low=1, high=1 << 16)
        check("skew", self.skew, low=0, high=3)
        check("share", self.share, low=0, high=1)
        check("port", self.port, low=0, high=(1 << 16) - 1)
        check("begin", self.begin, low=0, high=1)
        check("end", self.end, low=0, high=1)
        if self.begin > self.end:
            raise UsageError(f"begin must not be after end ({self.end!r}), not {self.begin!r}")

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        schema = pa.schema(
            [
                ("id", pa.int64()),
                ("ts", TIMESTAMP),
                ("srcip", pa.uint32()),
                ("dstip", pa.uint32()),
                ("srcport", pa.uint16()),
                ("dstport", pa.uint16()),
                ("length", pa.uint16()),
            ]
        )
        return MappingProxyType(dict.fromkeys(SITES, schema))

    def query(self) -> str:
        """The join of the paper's figure 1; its ROWS are an argument of whatever runs it.

        The counts per port are those of the joined rows.
        """
        return "SELECT uec.dstport FROM tsukuba JOIN uec\nON tsukuba.dstport = uec.dstport"

    def rate_of(self, stream: str) -> float:
        return self.rate

    def _fill(self, stream: str, slot: Slot) -> Columns:
        rng = slot.rng
        ts = poisson_times(slot, self.rate)
        length = len(ts)
        lasts = (self.begin * self.seconds, self.end * self.seconds)
        during = (ts >= lasts[0] * US_PER_S) & (ts < lasts[1] * US_PER_S)
        attacks = during & (rng.random(length) < self.share)
        port = self._ports[draw(rng, self._popularity, length)]
        # A flood comes from addresses that are made up, in the smallest packets there are.
        any_address = rng.integers(1 << 24, 224 << 24, length)
        size = np.where(rng.random(length) < 0.5, 1500, rng.integers(40, 1500, length))
        return {
            "ts": ts,
            "srcip": any_address,
            "dstip": _NETWORKS[stream] + rng.integers(0, 1 << 16, length),
            "srcport": rng.integers(1024, 1 << 16, length),
            "dstport": np.where(attacks, self.port, port),
            "length": np.where(attacks, 40, size),
        }

    @cached_property
    def _ports(self) -> npt.NDArray[np.int64]:
        """Ports in use, the most popular first; the same at both sites."""
        return self._rng("ports").permutation(1 << 16)[: self.ports]

    @cached_property
    def _popularity(self) -> npt.NDArray[np.float64]:
        return zipf_cdf(self.ports, self.skew)
