"""Bids at auctions, most of them at few: the benchmark NB7 of the Slash paper.

The paper (§8.1.2) has a bid of 32 bytes, keys by a Pareto distribution with heavy hitters, an
aggregate per key, and a window of 60 s. Decided: the highest price per auction, and shape 1.16,
which gives a fifth of the auctions four fifths of the bids. It is not NEXMark's Q7
(:mod:`.nexmark`), which has the highest price of all auctions together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .draws import prices, spreading_step
from .slots import Slot, steady_times
from .tumbling import TumblingGroups
from .workload import TIMESTAMP_MS, Columns, check

BIDS = pa.schema(
    [("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64()), ("t", TIMESTAMP_MS)]
)


@dataclass(frozen=True, kw_only=True)
class NB7(TumblingGroups):
    """Stream ``bids``.

    Columns: ``auction`` has its share of the bids by a Pareto distribution; ``bidder`` is uniform;
    ``price`` is that of NEXMark, in cents; ``t`` is the event time in ms, at even distances.

    Parameters
    ----------
    auctions : int
    bidders : int
    shape : float
        Of the Pareto distribution: the most popular part p of the auctions has
        ``p ** (1 - 1 / shape)`` of the bids.
    """

    STREAM, SCHEMA = "bids", BIDS
    KEY, AGGREGATE = "auction", "max(price) AS price"

    auctions: int = 1_000_000
    bidders: int = 1_000_000
    shape: float = 1.16
    window_s: int = 60

    def __post_init__(self) -> None:
        super().__post_init__()
        check("auctions", self.auctions, low=1, high=1 << 31)
        check("bidders", self.bidders, low=1, high=1 << 40)
        # Nearer to 1, one auction has them all.
        check("shape", self.shape, low=1.01, high=100)

    def _fill(self, stream: str, slot: Slot) -> Columns:
        rng, ts = slot.rng, steady_times(slot, self.rate)
        count = len(ts)
        price = prices(rng, count)
        return {
            "ts": ts,
            "auction": self._ranks(rng.random(count)) * self._step % self.auctions,
            "bidder": rng.integers(0, self.bidders, count),
            "price": price,
        }

    @cached_property
    def _step(self) -> int:
        """Spreads ranks over auctions."""
        return spreading_step(self.auctions)

    def _ranks(self, chance: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Ranks from 0, the most popular first, by even random numbers."""
        part = chance ** (1 / (1 - 1 / self.shape))
        # Rounding may give the part 1.
        return np.minimum((part * self.auctions).astype(np.int64), self.auctions - 1)
