"""People, auctions and bids: NEXMark as its suite for Flink defines it, with Q7, Q8 and Q11.

Of 50 events one is a person, three are auctions and 46 bids, in this order; event n has the time
``n / rate`` in whole ms. Half of the bids are at one hot auction of the last hundred, three
quarters of the bids by one hot bidder and of the auctions by one hot seller of the last hundred
people; the others are even over those in flight and a few that are yet to come. As in the suite, a
bidder's number has the first person's added twice, so that a bid names somebody who comes 1,000
later, while a seller's number is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .draws import prices
from .nexmark_texts import pools
from .slots import US_PER_S, Slot, steady_numbers, steady_times
from .workload import TIMESTAMP_MS, Columns, Workload, check

PERSONS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("email", pa.string()),
        ("card", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("t", TIMESTAMP_MS),
        ("extra", pa.string()),
    ]
)
AUCTIONS = pa.schema(
    [
        ("id", pa.int64()),
        ("item", pa.string()),
        ("description", pa.string()),
        ("initial_bid", pa.int64()),
        ("reserve", pa.int64()),
        ("t", TIMESTAMP_MS),
        ("expires", TIMESTAMP_MS),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("extra", pa.string()),
    ]
)
BIDS = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        ("t", TIMESTAMP_MS),
        ("extra", pa.string()),
    ]
)
_SCHEMAS = MappingProxyType({"persons": PERSONS, "auctions": AUCTIONS, "bids": BIDS})

#: Of 50 events, those from this one on and before that one are the stream's.
_PART = MappingProxyType({"persons": (0, 1), "auctions": (1, 4), "bids": (4, 50)})
EPOCH = 50
_AUCTIONS_PER_EPOCH = 3

FIRST_ID = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
#: Hot ones are the same for so many people, or auctions.
_HOT_EVERY = 100
_HOT_AUCTION, _HOT_PERSON = 1 / 2, 3 / 4
#: The others are of so many, and of so many that are yet to come.
_PEOPLE, _IN_FLIGHT, _LEAD = 1000, 100, 10
#: Events in which as many auctions come as are in flight: half the mean life of an auction.
_HORIZON = _IN_FLIGHT * EPOCH // _AUCTIONS_PER_EPOCH

_WINDOW_S = 10
_MS = 1000 * _WINDOW_S


@dataclass(frozen=True, kw_only=True)
class NEXMark(Workload):
    """Those of the streams ``persons``, ``auctions`` and ``bids`` that a query reads.

    Parameters
    ----------
    rate : float
        Events per second, of all three streams together.
    """

    rate: float = 10_000.0
    disorder_s: float = 0.0

    #: Streams that the query reads.
    _reads: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rate", self.rate, low=1e-3, high=1e9, unit="events/s")

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return MappingProxyType({name: _SCHEMAS[name] for name in self._reads})

    def rate_of(self, stream: str) -> float:
        first, end = _PART[stream]
        return self.rate * (end - first) / EPOCH

    def _fill(self, stream: str, slot: Slot) -> Columns:
        events = steady_numbers(slot, self.rate)
        first, end = _PART[stream]
        events = events[(events % EPOCH >= first) & (events % EPOCH < end)]
        columns = {"ts": steady_times(slot, self.rate, events)}
        if stream == "persons":
            columns |= {"id": FIRST_ID + events // EPOCH}
        elif stream == "auctions":
            columns |= self._auctions(events, columns["ts"], slot.rng)
        else:
            columns |= _bids(events, slot.rng)
        for pool in self._texts[stream]:
            rows = len(next(iter(pool.values())))
            columns |= dict.fromkeys(pool, slot.rng.integers(0, rows, len(events)))
        return columns

    def _auctions(
        self, events: npt.NDArray[np.int64], ts: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> Columns:
        count = len(events)
        initial = prices(rng, count)
        later = np.floor((events + _HORIZON) * (US_PER_S / self.rate)).astype(np.int64)
        begin_ms = (ts + self._start_us) // 1000
        horizon_ms = (later + self._start_us) // 1000 - begin_ms
        is_hot = rng.random(count) < _HOT_PERSON
        hot = events // EPOCH // _HOT_EVERY * _HOT_EVERY
        return {
            "id": FIRST_ID + _last_auction(events),
            "initial_bid": initial,
            "reserve": initial + prices(rng, count),
            "expires": begin_ms + 1 + rng.integers(0, np.maximum(2 * horizon_ms, 1)),
            "seller": FIRST_ID + np.where(is_hot, hot, _person(events, rng)),
            "category": _FIRST_CATEGORY + rng.integers(0, _CATEGORIES, count),
        }

    def _pools(self, stream: str) -> Mapping[str, pa.Array]:
        return {name: texts for pool in self._texts[stream] for name, texts in pool.items()}

    @cached_property
    def _texts(self) -> Mapping[str, list[dict[str, pa.Array]]]:
        return {stream: pools(stream, self._rng(stream, "texts")) for stream in self._reads}


@dataclass(frozen=True, kw_only=True)
class Q7(NEXMark):
    """Stream ``bids``: the bids that were highest in the last 10 s."""

    _reads: ClassVar = ("bids",)

    def stages(self) -> Mapping[str, str]:
        """The highest price of each window, and its end."""
        size = f"window(t, '{_WINDOW_S} seconds')"
        return MappingProxyType(
            {"top": f"SELECT {size}.end AS ends, max(price) AS price\nFROM bids\nGROUP BY {size}"}
        )

    def query(self) -> str:
        """Bids at that price, from 10 s before the window's end until it, both ends included."""
        return (
            "SELECT b.auction, b.price, b.bidder, b.t, b.extra\nFROM bids b\n"
            "JOIN top m ON b.price = m.price\n"
            f"AND b.t BETWEEN m.ends - INTERVAL {_WINDOW_S} SECONDS AND m.ends"
        )

    def oracle(self) -> str:
        return (
            "SELECT b.auction, b.price, b.bidder, epoch_ms(b.t) AS t, b.extra\n"
            "FROM bids b\nJOIN (\n"
            f"  SELECT (epoch_ms(t) // {_MS} + 1) * {_MS} AS ends, max(price) AS price\n"
            "  FROM bids GROUP BY 1\n) m ON b.price = m.price\n"
            f"AND epoch_ms(b.t) BETWEEN m.ends - {_MS} AND m.ends"
        )


@dataclass(frozen=True, kw_only=True)
class Q8(NEXMark):
    """Streams ``persons`` and ``auctions``: people who sold something in the 10 s they came in.

    The suite groups people by number and name, and sellers, in each window before it joins them. As
    a person comes once, these are the people who have an auction in their window.
    """

    _reads: ClassVar = ("persons", "auctions")

    def query(self) -> str:
        sizes = [f"window({side}.t, '{_WINDOW_S} seconds')" for side in "pa"]
        return (
            f"SELECT p.id, p.name, {sizes[0]}.start AS w\nFROM persons p\n"
            "LEFT SEMI JOIN (SELECT seller, t FROM auctions) a\n"
            f"ON p.id = a.seller AND {sizes[0]} = {sizes[1]}"
        )

    def oracle(self) -> str:
        return (
            "SELECT p.id, p.name, p.w\nFROM (\n"
            f"  SELECT id, name, epoch_ms(t) // {_MS} * {_MS} AS w FROM persons GROUP BY ALL\n) p\n"
            f"JOIN (\n  SELECT DISTINCT seller, epoch_ms(t) // {_MS} * {_MS} AS w FROM auctions\n"
            ") a ON p.id = a.seller AND p.w = a.w"
        )


@dataclass(frozen=True, kw_only=True)
class Q11(NEXMark):
    """Stream ``bids``: how many a bidder has made until 10 s passed without one."""

    _reads: ClassVar = ("bids",)

    def query(self) -> str:
        gap = f"session_window(t, '{_WINDOW_S} seconds')"
        return (
            f"SELECT bidder, count(*) AS n, {gap}.start AS starts, {gap}.end AS ends\nFROM bids\n"
            f"GROUP BY bidder, {gap}"
        )

    def oracle(self) -> str:
        return (
            "WITH gaps AS (\n  SELECT bidder, epoch_ms(t) AS ms,\n"
            "    ms - lag(ms) OVER (PARTITION BY bidder ORDER BY ms) AS gap\n  FROM bids\n"
            "), sessions AS (\n"
            f"  SELECT *, count(*) FILTER (gap > {_MS})\n"
            "    OVER (PARTITION BY bidder ORDER BY ms) AS session\n  FROM gaps\n)\n"
            f"SELECT bidder, count(*) AS n, min(ms) AS starts, max(ms) + {_MS} AS ends\n"
            "FROM sessions\nGROUP BY bidder, session"
        )


def _bids(events: npt.NDArray[np.int64], rng: np.random.Generator) -> Columns:
    count, last = len(events), _last_auction(events)
    flying = np.maximum(last - _IN_FLIGHT, 0)
    other = flying + rng.integers(0, last - flying + 1 + _LEAD)
    is_hot = rng.random(count) < _HOT_AUCTION
    auction = np.where(is_hot, last // _HOT_EVERY * _HOT_EVERY, other)
    by_hot = rng.random(count) < _HOT_PERSON
    # The second of a hundred, so that the hot bidder is not the hot seller.
    hot = events // EPOCH // _HOT_EVERY * _HOT_EVERY + 1
    return {
        "auction": FIRST_ID + auction,
        "bidder": 2 * FIRST_ID + np.where(by_hot, hot, _person(events, rng)),
        "price": prices(rng, count),
    }


def _last_auction(events: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number from 0 of the event's own auction, or of the last one before a bid."""
    place = np.minimum(events % EPOCH, _AUCTIONS_PER_EPOCH)
    return events // EPOCH * _AUCTIONS_PER_EPOCH + place - 1


def _person(events: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Number from 0 of somebody active, or soon to come."""
    people = events // EPOCH + 1
    active = np.minimum(people, _PEOPLE)
    return people - active + rng.integers(0, active + _LEAD)
