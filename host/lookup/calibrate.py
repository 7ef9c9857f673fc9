"""Unit costs of the model, measured on this machine."""

from __future__ import annotations

import time

import numpy as np

from ..relation.border import Version
from .frequency import Frequency
from .hash_table import HashTable
from .model import UnitCosts
from .waiting import Waiting

#: Pages that are read, and rows of each step, in a measurement.
_PAGES, _ROWS = 2048, 1 << 16
_TIMES = 3


def calibrate(
    version: Version, columns: list[str], *, row_s: float = 4e-7, round_s: float = 6e-3
) -> UnitCosts:
    """Measure what reading pages and keeping rows cost.

    Parameters
    ----------
    version : Version
        Of the relation that is to be looked up in.
    columns : list of str
        Its columns that a query needs.
    row_s, round_s : float
        Seconds of a row, and of rows that are answered together, in the join of rows with what they
        may match; they depend on the query.

    Returns
    -------
    UnitCosts
        Medians of CPU seconds, so that other work on the machine weighs little.
    """
    random = np.random.default_rng(1)
    pages = len(version.index.first)
    apart = np.sort(random.choice(pages, min(_PAGES, pages), replace=False))
    start = int(random.integers(0, max(1, pages - len(apart))))
    together = np.arange(start, min(pages, start + len(apart)))

    def read(chosen: np.ndarray) -> float:
        sought = version.index.first[chosen]
        return _median(lambda: version.read(chosen, columns, sought))

    scattered, joined = read(apart) / len(apart), read(together) / len(together)
    # Neighbours are one read: what they cost beside is by byte.
    page_bytes = float(version.index.bytes[: max(1, pages)].mean())
    read_s = max(0.0, scattered - joined)
    hashes = random.integers(0, 1 << 63, _ROWS).astype(np.uint64)
    frequency, table = Frequency(_ROWS), HashTable()
    table.replace(np.unique(hashes))
    admit = _median(lambda: frequency.note(hashes)) + _median(lambda: table.find(hashes))
    ids = np.arange(_ROWS)
    places = version.index.page_of(hashes)

    def wait() -> None:
        waiting = Waiting(pages)
        waiting.add(ids, hashes, places)
        waiting.rows_for(waiting.pages)
        waiting.drop(waiting.pages)

    return UnitCosts(
        read_s=read_s,
        byte_s=joined / page_bytes / 2,
        page_s=joined / 2,
        admit_s=admit / _ROWS,
        wait_s=_median(wait) / _ROWS,
        row_s=row_s,
        round_s=round_s,
    )


def _median(work) -> float:
    work()
    times = []
    for _ in range(_TIMES):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return float(np.median(times))
