"""What becomes of advertisements: the record and the queries of the Yahoo streaming benchmark.

The Slash paper (§8.1.2) groups views by a key that is uniform of ten million; the original
benchmark looks up to which of 100 campaigns each of 1,000 advertisements belongs, and counts views
of a campaign in 10 s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .base import TIMESTAMP_MS, Columns, Slot, Workload, check, steady_times

#: 78 bytes, as the paper has them. A type is its number and its name, of nine bytes together.
ADS = pa.schema(
    [
        ("ad", pa.int64()),
        ("t", TIMESTAMP_MS),
        ("user", pa.binary(16)),
        ("page", pa.binary(16)),
        ("format", pa.int8()),
        ("format_name", pa.binary(8)),
        ("kind", pa.int8()),
        ("kind_name", pa.binary(8)),
        ("ip", pa.int32()),
        ("pad", pa.int64()),
    ]
)
CAMPAIGNS = pa.schema([("ad", pa.int64()), ("campaign", pa.int64())])

#: Views are number 0.
KINDS = ("view", "click", "purchase")
FORMATS = ("banner", "modal", "search", "mail", "mobile")

#: Advertisements of a campaign.
ADS_PER_CAMPAIGN = 10

_NAME_BYTES, _UUID_BYTES = 8, 16
#: 1.2.3.4, which all events of the original come from.
_IP = 0x01020304


@dataclass(frozen=True, kw_only=True)
class Ads(Workload):
    """Stream ``ads`` and table ``campaigns``.

    Columns of ``ads``: ``ad`` is uniform; ``t`` is the event time in ms, at even distances;
    ``user`` and ``page`` are random bytes; ``format`` and ``kind`` are numbers of
    :data:`FORMATS` and :data:`KINDS`, uniform, so that a third are views, and their names follow
    them. Columns of ``campaigns``: each ``ad`` once, and its ``campaign``.

    Parameters
    ----------
    rate : float
        Events per second.
    ads : int
        Advertisements. The default is the paper's, 1,000 the original's.
    """

    rate: float = 10_000.0
    ads: int = 10_000_000
    disorder_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rate", self.rate, low=1e-3, high=1e9, unit="rows/s")
        check("ads", self.ads, low=1, high=1 << 40)

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return MappingProxyType({"ads": ADS, "campaigns": CAMPAIGNS})

    def query(self, window: str = "10 minutes") -> str:
        """Views of each advertisement in tumbling windows, by default the paper's."""
        size = f"window(t, '{window}')"
        return (
            f"SELECT ad, {size}.start AS w, count(*) AS n\nFROM ads\nWHERE kind = 0\n"
            f"GROUP BY ad, {size}"
        )

    def lookup_query(self, window: str = "10 seconds") -> str:
        """Views of each campaign in tumbling windows, by default the original benchmark's."""
        size = f"window(a.t, '{window}')"
        return (
            f"SELECT c.campaign, {size}.start AS w, count(*) AS n\n"
            "FROM ads a\nJOIN campaigns c ON a.ad = c.ad\nWHERE a.kind = 0\n"
            f"GROUP BY c.campaign, {size}"
        )

    def rate_of(self, stream: str) -> float:
        return self.rate if stream == "ads" else self.ads / self.seconds

    def _fill(self, stream: str, slot: Slot) -> Columns:
        rng, ts = slot.rng, steady_times(slot, self.rate)
        count = len(ts)
        kind = rng.integers(0, len(KINDS), count, dtype=np.int8)
        form = rng.integers(0, len(FORMATS), count, dtype=np.int8)
        return {
            "ts": ts,
            "ad": rng.integers(0, self.ads, count),
            "user": _uuids(rng, count),
            "page": _uuids(rng, count),
            "format": form,
            "format_name": _names(FORMATS)[form],
            "kind": kind,
            "kind_name": _names(KINDS)[kind],
            "ip": np.full(count, _IP, np.int32),
            "pad": np.zeros(count, np.int64),
        }

    def _batches(self, stream: str, rows: int) -> Iterator[pa.RecordBatch]:
        if stream == "ads":
            yield from super()._batches(stream, rows)
            return
        for first in range(0, self.ads, rows):
            ad = np.arange(first, min(self.ads, first + rows))
            yield pa.record_batch([ad, ad // ADS_PER_CAMPAIGN], schema=CAMPAIGNS)


def _uuids(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(rng.bytes(count * _UUID_BYTES), np.uint8).reshape(count, _UUID_BYTES)


def _names(names: tuple[str, ...]) -> npt.NDArray[np.uint8]:
    """Bytes of each name, filled up with zeros."""
    padded = b"".join(name.encode().ljust(_NAME_BYTES, b"\0") for name in names)
    return np.frombuffer(padded, np.uint8).reshape(len(names), _NAME_BYTES)
