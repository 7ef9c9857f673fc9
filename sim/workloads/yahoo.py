"""What becomes of advertisements: the Yahoo streaming benchmark as its owner defines it.

An event names one of 1,000 advertisements; each belongs to one of 100 campaigns, which a table
says. The query looks the campaigns of views up and counts per campaign in 10 s of event time. Users
and pages are those of the generator's live mode: 100 of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from uuid import UUID

import numpy as np
import pyarrow as pa

from .slots import Slot, steady_times
from .workload import TIMESTAMP_MS, Columns, Workload, check

EVENTS = pa.schema(
    [
        ("user_id", pa.string()),
        ("page_id", pa.string()),
        ("ad_id", pa.string()),
        ("ad_type", pa.string()),
        ("event_type", pa.string()),
        ("t", TIMESTAMP_MS),
        ("ip_address", pa.string()),
    ]
)
CAMPAIGNS = pa.schema([("ad_id", pa.string()), ("campaign_id", pa.string())])

#: Only views are counted.
EVENT_TYPES = ("view", "click", "purchase")
FORMATS = ("banner", "modal", "sponsored-search", "mail", "mobile")

_CAMPAIGNS, _ADS_PER_CAMPAIGN, _USERS, _PAGES = 100, 10, 100, 100
_WINDOW_S = 10


@dataclass(frozen=True, kw_only=True)
class Yahoo(Workload):
    """Stream ``events`` and table ``campaigns``.

    Columns of ``events``: ``ad_id``, ``user_id``, ``page_id``, ``ad_type`` and ``event_type`` are
    uniform of their values; identities are UUIDs as text; ``t`` is the event time in ms, at even
    distances; ``ip_address`` is always the same. Columns of ``campaigns``: each ``ad_id`` once, and
    its ``campaign_id``.

    Parameters
    ----------
    rate : float
        Events per second.
    """

    rate: float = 1_000.0
    disorder_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rate", self.rate, low=1e-3, high=1e9, unit="rows/s")

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return MappingProxyType({"events": EVENTS, "campaigns": CAMPAIGNS})

    def query(self) -> str:
        """Views of each campaign; ``campaigns`` is a stored relation."""
        size = f"window(e.t, '{_WINDOW_S} seconds')"
        return (
            f"SELECT c.campaign_id, {size}.start AS w, count(*) AS n\nFROM events e\n"
            "JOIN campaigns c ON e.ad_id = c.ad_id\nWHERE e.event_type = 'view'\n"
            f"GROUP BY c.campaign_id, {size}"
        )

    def oracle(self) -> str:
        ms = 1000 * _WINDOW_S
        return (
            f"SELECT c.campaign_id, epoch_ms(e.t) // {ms} * {ms} AS w, count(*) AS n\n"
            "FROM events e\nJOIN campaigns c ON e.ad_id = c.ad_id\nWHERE e.event_type = 'view'\n"
            "GROUP BY ALL"
        )

    def rate_of(self, stream: str) -> float:
        return self.rate

    def _fill(self, stream: str, slot: Slot) -> Columns:
        ts = steady_times(slot, self.rate)
        places = {
            name: slot.rng.integers(0, len(pool), len(ts)) for name, pool in self._values.items()
        }
        return {"ts": ts, **places}

    def _batches(self, stream: str, rows: int) -> Iterator[pa.RecordBatch]:
        if stream == "events":
            yield from super()._batches(stream, rows)
            return
        whole = self._campaigns
        for first in range(0, whole.num_rows, rows):
            yield whole.slice(first, rows)

    @cached_property
    def _campaigns(self) -> pa.RecordBatch:
        campaign = self._uuids("campaigns", _CAMPAIGNS)
        of = np.arange(_CAMPAIGNS * _ADS_PER_CAMPAIGN) // _ADS_PER_CAMPAIGN
        return pa.record_batch([self._values["ad_id"], campaign.take(of)], schema=CAMPAIGNS)

    def _pools(self, stream: str) -> Mapping[str, pa.Array]:
        return self._values

    @cached_property
    def _values(self) -> Mapping[str, pa.Array]:
        return MappingProxyType(
            {
                "user_id": self._uuids("users", _USERS),
                "page_id": self._uuids("pages", _PAGES),
                "ad_id": self._uuids("ads", _CAMPAIGNS * _ADS_PER_CAMPAIGN),
                "ad_type": pa.array(FORMATS),
                "event_type": pa.array(EVENT_TYPES),
                "ip_address": pa.array(["1.2.3.4"]),
            }
        )

    def _uuids(self, what: str, count: int) -> pa.Array:
        rng = self._rng(what)
        return pa.array([str(UUID(bytes=rng.bytes(16), version=4)) for _ in range(count)])
