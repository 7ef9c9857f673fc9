"""Packet headers at two points of a backbone: the second data set of the FJoin paper.

Addresses are IPv4 as unsigned 32-bit integers, made top-down: few networks (/16) hold most of the
subnets (/24), few subnets most of the hosts, and few hosts most of the flows. So shared prefixes
are common at every length, as in a real trace, and ``a ^ b < 2**k`` (same prefix of 32 - k bits)
keeps selecting as k shrinks. Packets belong to flows, whose sizes are heavy-tailed; part of the
flows pass both points.
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

#: Column names of the two addresses as the paper spells them; SQL ignores the case.
PAPER_NAMES = ("sourceIP", "destinationIP")

#: Column names of the two addresses, short.
SHORT_NAMES = ("src", "dst")

#: Flows end and others begin this often, in seconds: the median life of a flow is of this order.
EPOCH_S = 10

#: Mean packets of a flow in an epoch, which sets how many flows there are.
PACKETS_PER_FLOW = 8

#: Well-known ports and how often a flow goes to each; all other ports share what is left.
SERVICES = np.array([443, 80, 53, 22, 25, 123], dtype=np.uint16)
SERVICE_SHARE = np.array([0.45, 0.2, 0.12, 0.03, 0.03, 0.02])

#: First octets that no packet on a backbone carries: this network, private, loopback, multicast
#: and above.
_UNROUTED = {0, 10, 127, *range(224, 256)}


def query(d: int = 256, *, window_s: int = 15, names: tuple[str, str] = PAPER_NAMES) -> str:
    """SQL of the paper's join: packets whose source or destination prefixes agree.

    Parameters
    ----------
    d : int
        Bound of the exclusive or of two addresses, excluded; ``2**k`` asks for 32 - k equal bits.
    window_s : int
        Longest time between the two packets, in seconds, either way, included.
    names : tuple of str
        Column names of source and destination, :data:`PAPER_NAMES` or :data:`SHORT_NAMES`.
    """
    src, dst = names
    return (
        "SELECT * FROM r JOIN s\n"
        f"ON ((r.{src} ^ s.{src}) < {d} OR (r.{dst} ^ s.{dst}) < {d})\n"
        f"AND s.ts BETWEEN r.ts - INTERVAL {window_s} SECONDS "
        f"AND r.ts + INTERVAL {window_s} SECONDS"
    )


@dataclass(frozen=True, kw_only=True)
class Backbone(Workload):
    """Streams ``r`` and ``s``, one for each point.

    Columns: ``id`` counts the rows of a stream in the order they arrive, from 0; ``ts`` is the
    event time; source and destination address, called as ``names`` says; ``sport`` and ``dport``;
    ``protocol`` is 6 (TCP) or 17 (UDP); ``length`` is in bytes. The integers are unsigned, which
    Spark reads as the next wider signed type: ``^`` and ``<`` mean the same on both.

    Parameters
    ----------
    rate : float
        Packets per second at ``r``.
    ratio : float
        Packets at ``s`` for each packet at ``r``. The paper's streams have 90 and 130 million.
    hosts : int
        Addresses in use.
    skew : float
        Zipf exponent of networks, subnets, host popularity and flow sizes; 0 is even.
    overlap : float
        Share of packets whose flow passes both points, 0 to 1.
    names : tuple of str
        Column names of source and destination address.
    """

    rate: float = 10_000.0
    ratio: float = 1.44
    hosts: int = 65_536
    skew: float = 0.8
    overlap: float = 0.3
    names: tuple[str, str] = PAPER_NAMES

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rate", self.rate, low=1e-6, high=1e9, unit="rows/s")
        check("ratio", self.ratio, low=1e-3, high=1e3)
        check("hosts", self.hosts, low=2, high=10_000_000)
        check("skew", self.skew, low=0, high=3)
        check("overlap", self.overlap, low=0, high=1)
        if len({*self.names, "id", "ts", "sport", "dport", "protocol", "length"}) != 8:
            raise UsageError(f"names must be two columns that are not taken, not {self.names!r}")

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        src, dst = self.names
        schema = pa.schema(
            [
                ("id", pa.int64()),
                ("ts", TIMESTAMP),
                (src, pa.uint32()),
                (dst, pa.uint32()),
                ("sport", pa.uint16()),
                ("dport", pa.uint16()),
                ("protocol", pa.uint8()),
                ("length", pa.uint16()),
            ]
        )
        return MappingProxyType({"r": schema, "s": schema})

    def query(self, d: int = 256, *, window_s: int = 15) -> str:
        """See :func:`query`."""
        return query(d, window_s=window_s, names=self.names)

    def rate_of(self, stream: str) -> float:
        return {"r": self.rate, "s": self.rate * self.ratio}[stream]

    def _fill(self, stream: str, slot: Slot) -> Columns:
        rng = slot.rng
        ts = poisson_times(slot, self.rate_of(stream))
        shared = rng.random(len(ts)) < self.overlap
        rank = draw(rng, self._flow_sizes, len(ts))
        forward = rng.random(len(ts)) < 0.55  # a few more packets of data than of answers
        columns = {
            name: np.empty(len(ts), dtype)
            for name, dtype in (
                (self.names[0], np.uint32),
                (self.names[1], np.uint32),
                ("sport", np.uint16),
                ("dport", np.uint16),
                ("protocol", np.uint8),
            )
        }
        epoch = ts // (EPOCH_S * US_PER_S)
        for number in np.unique(epoch):
            for place, common in ((stream, False), ("both", True)):
                here = np.flatnonzero((epoch == number) & (shared == common))
                flows = self._flows(place, int(number))
                for name, values in self._headers(flows, rank[here], forward[here]).items():
                    columns[name][here] = values
        # Full packets carry data, small ones acknowledge; in between lies the rest.
        kind = rng.random(len(ts))
        length = np.where(kind < 0.45, 1500, rng.integers(40, 1500, len(ts)))
        length = np.where(kind > 0.65, 52, length).astype(np.uint16)
        return {"ts": ts, **columns, "length": length}

    def _headers(
        self, flows: Columns, rank: npt.NDArray[np.int64], forward: npt.NDArray[np.bool_]
    ) -> Columns:
        """Headers of packets of these flows, turned round where they are answers."""
        one, other = flows["client"][rank], flows["server"][rank]
        here, there = flows["client_port"][rank], flows["server_port"][rank]
        return {
            self.names[0]: np.where(forward, one, other),
            self.names[1]: np.where(forward, other, one),
            "sport": np.where(forward, here, there),
            "dport": np.where(forward, there, here),
            "protocol": flows["protocol"][rank],
        }

    # Flows

    @cached_property
    def _flow_sizes(self) -> npt.NDArray[np.float64]:
        """Cumulative share of the packets of an epoch by flow, largest flow first."""
        count = round(self.rate * EPOCH_S / PACKETS_PER_FLOW)
        return zipf_cdf(min(max(count, 16), 1 << 17), self.skew)

    def _flows(self, place: str, epoch: int) -> Columns:
        """Flows of one epoch that pass ``place`` ("r", "s" or "both"), largest first."""
        kept = self._flow_cache.get((place, epoch))
        if kept is not None:
            return kept
        rng = self._rng("flows", place, epoch)
        count = len(self._flow_sizes)
        known = SERVICES[draw(rng, np.cumsum(SERVICE_SHARE / SERVICE_SHARE.sum()), count)]
        high = rng.integers(1024, 1 << 16, (2, count)).astype(np.uint16)
        server_port = np.where(rng.random(count) < SERVICE_SHARE.sum(), known, high[0])
        udp = np.isin(server_port, (53, 123)) | (rng.random(count) < 0.15)
        flows = {
            "client": self._addresses[draw(rng, self._popularity, count)],
            "server": self._addresses[draw(rng, self._popularity, count)],
            "client_port": high[1],
            "server_port": server_port,
            "protocol": np.where(udp, 17, 6).astype(np.uint8),
        }
        # Two epochs for each place are all that neighbouring slots ask for.
        while len(self._flow_cache) >= 6:
            self._flow_cache.pop(next(iter(self._flow_cache)))
        self._flow_cache[place, epoch] = flows
        return flows

    @cached_property
    def _flow_cache(self) -> dict[tuple[str, int], Columns]:
        return {}

    # Addresses

    @cached_property
    def _popularity(self) -> npt.NDArray[np.float64]:
        return zipf_cdf(self.hosts, self.skew)

    @cached_property
    def _addresses(self) -> npt.NDArray[np.uint32]:
        """Addresses in use, most popular first; neighbours in it are unrelated."""
        rng = self._rng("addresses")
        networks = self._networks(rng)
        found = np.empty(0, dtype=np.uint32)
        # A draw may repeat an address, so draw until there are enough different ones. A share is
        # drawn evenly, or a strong skew would take for ever to leave the largest subnets.
        while len(found) < self.hosts:
            need = self.hosts - len(found) + 1024
            even = rng.random(need) < 0.2
            network = draw(rng, zipf_cdf(len(networks), 1.5 * self.skew), need)
            network = np.where(even, rng.integers(0, len(networks), need), network)
            rank = draw(rng, zipf_cdf(256, 1.5 * self.skew), need)
            rank = np.where(even, rng.integers(0, 256, need), rank)
            # Multiplying by an odd number permutes the 256 subnets differently in each network.
            subnet = (rank * (2 * network + 1) + network * 7) % 256
            host = rng.integers(1, 255, need)
            drawn = (networks[network].astype(np.int64) << 16) + (subnet << 8) + host
            found = np.unique(np.concatenate([found, drawn.astype(np.uint32)]))
        return rng.permutation(found)[: self.hosts]

    def _networks(self, rng: np.random.Generator) -> npt.NDArray[np.uint16]:
        """Prefixes of 16 bits in use, largest network first; some first octets hold many."""
        octets = np.array([o for o in range(256) if o not in _UNROUTED])
        count = min(max(self.hosts // 256, 4), 4096)
        first = rng.permutation(octets)[draw(rng, zipf_cdf(len(octets), self.skew), 4 * count)]
        prefixes = np.unique((first << 8) + rng.integers(0, 256, 4 * count))
        return rng.permutation(prefixes)[:count].astype(np.uint16)
