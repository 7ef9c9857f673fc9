"""Unit costs of the model, measured on this machine by looking up rows of the relation itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ..relation.border import Version
from .cache import NoCache
from .frequency import Frequency
from .hash_table import HashTable
from .lookup import Lookup
from .model import UnitCosts
from .pages import Wanted

#: Least and most pages read in a measurement, and keys searched in memory.
_FEW_PAGES, _PAGES, _ROWS = 16, 2048, 1 << 16
#: Waiting rows per page, and number of requests, that are each compared with 1.
_SEVERAL, _REQUESTS = 4, 16
_TIMES = 3
#: Seconds of a read of pages, where they come from far away.
_READ_S = 0.05
#: Ratio of clock to CPU seconds above which the clock counts: the process waits for storage.
_WAITS = 5
_MOST_BYTES = 1 << 62


def calibrate(
    version: Version, columns: list[str], *, row_s: float = 5e-7, round_s: float = 4e-3
) -> UnitCosts:
    """Measure what reading pages and keeping rows cost.

    Parameters
    ----------
    version : Version
        The version to look up in.
    columns : list of str
        Its columns that a query needs.
    row_s, round_s : float
        Seconds of a row, and of rows that are answered together, in the join of rows with what they
        may match; they depend on the query.

    Returns
    -------
    UnitCosts
        Medians of CPU seconds, so that other work on the machine weighs little; of the clock's
        where pages are waited for.
    """
    index = version.index
    pages = len(index.first)
    random = np.random.default_rng(1)
    few = np.sort(random.choice(pages, min(_FEW_PAGES, pages), replace=False))
    page_s = _median(lambda: version.read(few, columns, index.first[few])) / len(few)
    count = min(pages, _PAGES, max(len(few), int(_READ_S / max(page_s, 1e-9))))
    start = int(random.integers(0, max(1, pages - count)))
    together = np.arange(start, start + count)
    apart = np.sort(random.choice(pages, count, replace=False))

    def seconds(chosen: np.ndarray, rows: int = 1, requests: int = 1) -> float:
        parts = np.array_split(chosen, min(requests, count))
        hashes = [_present(version, part, rows) for part in parts]
        return _median(lambda: _look_up(version, columns, hashes))

    one, joined = seconds(apart), seconds(together)
    wait_s = max(0.0, seconds(apart, _SEVERAL) - one) / ((_SEVERAL - 1) * count)
    request_s = max(0.0, seconds(apart, 1, _REQUESTS) - one) / (_REQUESTS - 1)
    # Neighbours are one read: what they cost beside is by page and by byte.
    page_s = max(0.0, joined - request_s - count * wait_s) / count
    return UnitCosts(
        read_s=max(0.0, one - joined) / count,
        byte_s=page_s / float(index.bytes[:pages].mean()) / 2,
        page_s=page_s / 2,
        admit_s=_admission(),
        wait_s=wait_s,
        row_s=row_s,
        round_s=round_s,
        request_s=request_s,
    )


def _admission() -> float:
    """Seconds per row to count its key and to search it in the cache."""
    hashes = np.random.default_rng(1).integers(0, 1 << 63, _ROWS).astype(np.uint64)
    frequency, table = Frequency(_ROWS), HashTable()
    table.replace(np.unique(hashes))
    return (_median(lambda: frequency.note(hashes)) + _median(lambda: table.find(hashes))) / _ROWS


def _present(version: Version, pages: np.ndarray, rows: int) -> np.ndarray:
    """Hashes of rows of the relation, ``rows`` of each page, page by page."""
    read = version.read(pages, [])
    count = np.diff(read.starts)
    has_rows = count > 0
    first, count = read.starts[:-1][has_rows, None], count[has_rows, None]
    return read.hashes[(first + np.arange(rows) * np.maximum(count // rows, 1) % count).ravel()]


def _look_up(version: Version, columns: list[str], parts: list[np.ndarray]) -> None:
    """Look hashes up; the pages of each part are requested together."""
    index = version.index
    keyed = slice(0, len(index.first))
    choice = Wanted(index.bytes[keyed], index.rows[keyed], _MOST_BYTES)
    lookup = Lookup(index, NoCache(pa.schema([]), 0), choice)
    for hashes in parts:
        lookup.admit(np.arange(len(hashes)), hashes)
        request = lookup.ask()
        answers = lookup.arrived(request, version.read(request.pages, columns, request.key_hashes))
        answers.groups.pick(np.arange(len(answers.groups)))


def _median(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(_TIMES):
        began, clock = time.process_time(), time.perf_counter()
        work()
        cpu_s, clock_s = time.process_time() - began, time.perf_counter() - clock
        times.append(clock_s if clock_s > _WAITS * cpu_s else cpu_s)
    return float(np.median(times))
