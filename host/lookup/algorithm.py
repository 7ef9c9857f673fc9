"""The algorithms of a lookup: which page is read next, and which rows are kept in memory."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa

from .cache import Cache, FrequencyCache, NoCache
from .pages import Cyclic, Oldest, PageChoice, Wanted
from .threshold_cache import ThresholdCache


class Algorithm(StrEnum):
    """Named as in the papers that have them; paper 5, A and B."""

    AUTO = "auto"
    MESHJOIN = "meshjoin"
    HYBRIDJOIN = "hybridjoin"
    CACHEJOIN = "cachejoin"
    D_CACHEJOIN = "d-cachejoin"

    def choice(self, sizes: np.ndarray, rows: np.ndarray, most_bytes: int) -> PageChoice:
        """How pages of these sizes, with so many rows, are chosen, so many bytes at a time."""
        if self is Algorithm.AUTO:
            return Wanted(sizes, rows, most_bytes)
        if self is Algorithm.HYBRIDJOIN:
            return Oldest(sizes, most_bytes)
        return Cyclic(sizes, most_bytes)

    def cache(self, schema: pa.Schema, most_bytes: int, keys: int) -> Cache:
        """A cache of rows with this schema, about so many keys of which fit."""
        if self is Algorithm.AUTO:
            cache = FrequencyCache(schema, most_bytes, keys)
            cache.resize(most_bytes)  # what counts keys takes some of it
            return cache
        if self.keeps_rows:
            return ThresholdCache(schema, most_bytes, seed=1)
        return NoCache(schema, 0)

    @property
    def keeps_rows(self) -> bool:
        """Whether it has a cache."""
        return self not in (Algorithm.MESHJOIN, Algorithm.HYBRIDJOIN)
