"""Auctions or bids, and their sellers: the benchmarks NB8 and NB11 of the Slash paper.

The paper (§8.1.2, 8.2.3) joins auctions of 269 bytes, or bids of 32, with sellers of 206, four to
one; every row has a seller. NB8 has tumbling windows of 12 h, NB11 session windows. Decided: texts
as in NEXMark fill the sizes; a bid names the seller where NEXMark's names the bidder; sessions end
after 10 s without a row, as those of NEXMark's Q11.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .draws import letters, prices
from .slots import US_PER_S, Slot, steady_numbers, steady_times
from .workload import TIMESTAMP_MS, Columns, Workload, check

#: 206 bytes.
SELLERS = pa.schema(
    [
        ("id", pa.int64()),
        ("t", TIMESTAMP_MS),
        ("name", pa.binary(20)),
        ("email", pa.binary(16)),
        ("card", pa.binary(19)),
        ("city", pa.binary(13)),
        ("state", pa.binary(2)),
        ("extra", pa.binary(120)),
    ]
)
#: 269 bytes.
AUCTIONS = pa.schema(
    [
        ("id", pa.int64()),
        ("t", TIMESTAMP_MS),
        ("seller", pa.int64()),
        ("initial_bid", pa.int64()),
        ("reserve", pa.int64()),
        ("category", pa.int64()),
        ("item", pa.binary(20)),
        ("description", pa.binary(100)),
        ("extra", pa.binary(101)),
    ]
)
#: 32 bytes.
BIDS = pa.schema(
    [("auction", pa.int64()), ("seller", pa.int64()), ("price", pa.int64()), ("t", TIMESTAMP_MS)]
)

#: Auctions, or bids, of a seller.
PER_SELLER = 4

#: Different values of a text.
_TEXTS = 1024


@dataclass(frozen=True, kw_only=True)
class _OfSellers(Workload):
    """A stream whose rows have a seller, and the stream ``sellers``.

    Parameters
    ----------
    rate : float
        Auctions, or bids, per second; sellers come at a quarter of it.
    active : int
        Sellers whose rows come mixed with each other. What is of one seller comes within
        ``4 * active / rate`` seconds.
    """

    rate: float = 10_000.0
    active: int = 1_000
    disorder_s: float = 0.0

    #: Name and record of the stream.
    _stream: ClassVar[tuple[str, pa.Schema]]

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rate", self.rate, low=1e-3, high=1e9, unit="rows/s")
        check("active", self.active, low=1, high=1 << 24)

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        name, schema = self._stream
        return MappingProxyType({name: schema, "sellers": SELLERS})

    def rate_of(self, stream: str) -> float:
        return self.rate / PER_SELLER if stream == "sellers" else self.rate

    def _fill(self, stream: str, slot: Slot) -> Columns:
        rate = self.rate_of(stream)
        numbers = steady_numbers(slot, rate)
        columns = {"ts": steady_times(slot, rate, numbers)}
        if stream == "sellers":
            columns["id"] = numbers
        else:
            columns["seller"] = self._sellers_of(numbers)
            columns |= self._fill_row(numbers, slot.rng)
        texts = slot.rng.integers(0, _TEXTS, len(numbers))
        return columns | dict.fromkeys(self._texts[stream], texts)

    @abstractmethod
    def _fill_row(self, numbers: npt.NDArray[np.int64], rng: np.random.Generator) -> Columns:
        """Columns of rows with these numbers, but for time, seller and texts."""

    def _sellers_of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The seller of each row: of a block of rows, each of its sellers has four."""
        if not len(numbers):
            return numbers
        # Blocks are cut where the stream ends, so that no seller comes after it.
        total = ceil(self._duration_us * self.rate / US_PER_S)
        size = PER_SELLER * self.active
        first = int(numbers[0]) // size * size
        blocks = []
        for begin in range(first, int(numbers[-1]) + 1, size):
            rng = self._rng("block", begin)
            blocks.append(begin + rng.permutation(min(size, total - begin)))
        return np.concatenate(blocks)[numbers - first] // PER_SELLER

    def _pools(self, stream: str) -> Mapping[str, pa.Array]:
        return self._texts[stream]

    @cached_property
    def _texts(self) -> Mapping[str, Mapping[str, pa.Array]]:
        """Texts of each stream and column, as wide as the column."""
        rng = self._rng("texts")
        return {
            stream: {
                field.name: pa.array(
                    letters(rng, np.full(_TEXTS, field.type.byte_width)), field.type
                )
                for field in schema
                if pa.types.is_fixed_size_binary(field.type)
            }
            for stream, schema in self.schemas.items()
        }


@dataclass(frozen=True, kw_only=True)
class NB8(_OfSellers):
    """Streams ``auctions`` and ``sellers``, joined in tumbling windows.

    Columns of ``auctions``: ``id`` counts; ``seller`` is the ``id`` of a row of ``sellers``;
    ``initial_bid`` and ``reserve`` are in cents, as NEXMark's; ``category`` is 10 to 14. ``t`` is
    the event time in ms, at even distances; all else is text.

    Parameters
    ----------
    window_s : int
        Length of the query's windows in seconds.
    """

    window_s: int = 43_200

    _stream: ClassVar = ("auctions", AUCTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check("window_s", self.window_s, low=1, high=10**6, unit="s")

    def query(self) -> str:
        sizes = [f"window({side}.t, '{self.window_s} seconds')" for side in "as"]
        return (
            f"SELECT s.id AS seller, a.id AS auction, {sizes[0]}.start AS w\nFROM auctions a\n"
            f"JOIN sellers s ON a.seller = s.id AND {sizes[0]} = {sizes[1]}"
        )

    def oracle(self) -> str:
        ms = 1000 * self.window_s
        return (
            f"SELECT s.id AS seller, a.id AS auction, epoch_ms(a.t) // {ms} * {ms} AS w\n"
            "FROM auctions a\nJOIN sellers s ON a.seller = s.id\n"
            f"AND epoch_ms(a.t) // {ms} = epoch_ms(s.t) // {ms}"
        )

    def _fill_row(self, numbers: npt.NDArray[np.int64], rng: np.random.Generator) -> Columns:
        initial = prices(rng, len(numbers))
        return {
            "id": numbers,
            "initial_bid": initial,
            "reserve": initial + prices(rng, len(numbers)),
            "category": 10 + rng.integers(0, 5, len(numbers)),
        }


@dataclass(frozen=True, kw_only=True)
class NB11(_OfSellers):
    """Streams ``bids`` and ``sellers``, joined in session windows.

    Columns of ``bids``: ``auction`` counts, four bids to each; ``seller`` is the ``id`` of a row of
    ``sellers``; ``price`` is in cents, as NEXMark's; ``t`` is the event time in ms, at even
    distances.

    Parameters
    ----------
    gap_s : int
        Rows of a seller that are at most so many seconds apart are of one session.
    """

    gap_s: int = 10

    _stream: ClassVar = ("bids", BIDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check("gap_s", self.gap_s, low=1, high=10**6, unit="s")

    def query(self) -> str:
        gaps = [f"session_window({side}.t, '{self.gap_s} seconds')" for side in "bs"]
        return (
            "SELECT s.id AS seller, b.auction, b.price, b.t, s.t AS since\nFROM bids b\n"
            f"JOIN sellers s ON b.seller = s.id AND {gaps[0]} = {gaps[1]}"
        )

    def oracle(self) -> str:
        """Sessions are those of both sides' rows together: numbered per seller, then joined."""
        return (
            "WITH times AS (\n"
            "  SELECT seller, epoch_ms(t) AS ms FROM bids\n"
            "  UNION SELECT id, epoch_ms(t) FROM sellers\n), gaps AS (\n"
            "  SELECT *, ms - lag(ms) OVER (PARTITION BY seller ORDER BY ms) AS gap FROM times\n"
            "), sessions AS (\n"
            f"  SELECT *, count(*) FILTER (gap > {1000 * self.gap_s})\n"
            "    OVER (PARTITION BY seller ORDER BY ms) AS session\n  FROM gaps\n)\n"
            "SELECT s.id AS seller, b.auction, b.price, epoch_ms(b.t) AS t,\n"
            "  epoch_ms(s.t) AS since\nFROM bids b\nJOIN sellers s ON b.seller = s.id\n"
            "JOIN sessions x ON x.seller = b.seller AND x.ms = epoch_ms(b.t)\n"
            "JOIN sessions y ON y.seller = s.id AND y.ms = epoch_ms(s.t)\n"
            "WHERE x.session = y.session"
        )

    def _fill_row(self, numbers: npt.NDArray[np.int64], rng: np.random.Generator) -> Columns:
        return {"auction": numbers // PER_SELLER, "price": prices(rng, len(numbers))}
