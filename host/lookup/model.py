"""The cost model of a lookup (paper 5, equations 1 to 13, as restored).

An iteration takes ``w`` rows of the stream and reads ``k`` pages of the relation. Beside the
paper's items there are those of work by the piece: a request of pages, and an output of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .algorithm import Algorithm
from .pages import PICKED
from .zipf import pages_wanted, top_share

#: Share of absent keys that a filter recognises.
FILTERED = 0.98
#: Rows of the stream that are answered together at most: many share the cost of a join.
ANSWERED = 1 << 16


@dataclass(frozen=True)
class UnitCosts:
    """Seconds of each piece of work on this machine, as :mod:`.calibrate` measures them.

    Parameters
    ----------
    read_s, byte_s : float
        Per read, and per byte of a page that is read (C_IO).
    page_s : float
        Per page, beside its bytes.
    admit_s : float
        Per row: its hash, the cache's answer (C_S, and C_H of the cache).
    wait_s : float
        Per waiting row: into HS and out of it, and its match out of the page (C_A, C_E).
    row_s : float
        Per row that is joined with its possible matches (C_H, C_O).
    round_s : float
        Per group of rows that are answered together, besides ``row_s`` of each.
    request_s : float
        Per request of pages, besides ``page_s`` of each.
    """

    read_s: float
    byte_s: float
    page_s: float
    admit_s: float
    wait_s: float
    row_s: float
    round_s: float = 0.0
    request_s: float = 0.0


@dataclass(frozen=True)
class Shape:
    """A relation, a stream and memory, as the model sees them.

    Parameters
    ----------
    rows : int
        Rows of the relation (n_R), of distinct keys.
    row_bytes : float
        Bytes per row of the relation (v_R).
    page_bytes : float
        Bytes per page (v_P).
    stream_bytes : float
        Bytes per waiting row of the stream.
    cached : float
        Rows of the relation that the cache holds (n_hR).
    waiting : float
        Rows of the stream that may wait (n_hS).
    read_bytes : float
        Bytes of pages that are requested together.
    exponent : float
        Exponent of the Zipf distribution of the stream's keys; 0 if they are even.
    absent : float
        Share of the stream's rows whose key the relation lacks.
    batch : float
        Rows that are answered before the next ones come.
    filtered : bool
        Whether a filter knows of keys that they are absent, so that their rows do not wait.
    answered_bytes : float
        Bytes of matching rows of the relation that leave together.
    """

    rows: int
    row_bytes: float
    page_bytes: float
    stream_bytes: float
    cached: float
    waiting: float
    read_bytes: float
    exponent: float = 1.0
    absent: float = 0.0
    batch: float = math.inf
    filtered: bool = False
    answered_bytes: float = math.inf

    @property
    def pages(self) -> float:
        return max(1.0, self.rows * self.row_bytes / self.page_bytes)


@dataclass(frozen=True)
class Prediction:
    """Predicted performance of a look-up.

    Parameters
    ----------
    rate : float
        Rows of the stream per second (mu).
    hits : float
        Share of rows that the cache answers (p1).
    page_rows : float
        Rows of the stream that a page that is read answers.
    wait_s : float
        Seconds from a row's arrival to its answer, where it waits.
    """

    rate: float
    hits: float
    page_rows: float
    wait_s: float


def predict(algorithm: Algorithm, shape: Shape, costs: UnitCosts) -> Prediction:
    """Predict the rate that memory and this machine sustain.

    A round takes as many rows as may wait and reads what they need: all pages (MESHJOIN,
    CACHEJOIN), a page for the oldest row (HYBRIDJOIN), or the pages that they want (``auto``).
    Rows of a cyclic algorithm keep their place for a whole pass.
    """
    present = 1 - shape.absent
    hits = present * top_share(shape.cached, shape.rows, shape.exponent)
    hits = hits if algorithm.keeps_rows else 0.0
    missed = 1 - hits - (shape.absent * FILTERED if shape.filtered else 0.0)
    w = shape.waiting
    if w > ANSWERED and missed:  # hits leave before the next rows are looked up
        w = max(w, w / missed)
    w = min(w, shape.batch)
    # Each batch is answered before the next one, so the last round of it may be a short one.
    rounds, remainder = divmod(shape.batch, w) if shape.batch < math.inf else (1, 0)

    def busy(rows: float) -> float:
        """Seconds of pages and of outputs for rows that came together."""
        waiting = rows * missed
        outputs = max(1, rows / ANSWERED, waiting * shape.row_bytes / shape.answered_bytes)
        return _reading(algorithm, shape, costs, waiting) + outputs * costs.round_s if rows else 0.0

    together = rounds * w + remainder
    each = costs.admit_s + missed * costs.wait_s + costs.row_s
    per_row = (rounds * busy(w) + busy(remainder)) / together + each
    return Prediction(1 / per_row, hits, w * missed / shape.pages, busy(w) + w * each)


def _reading(algorithm: Algorithm, shape: Shape, costs: UnitCosts, waiting: float) -> float:
    """Seconds of the pages that answer so many rows that wait."""
    page_s = costs.page_s + shape.page_bytes * costs.byte_s
    if algorithm is Algorithm.HYBRIDJOIN:
        # The oldest key's page also answers the others that wait for it.
        return pages_wanted(waiting, shape.pages) * (costs.request_s + costs.read_s + page_s)
    if algorithm is not Algorithm.AUTO:
        read, size = shape.pages, shape.page_bytes
    elif waiting:
        read = pages_wanted(waiting, shape.pages)
        size = min(shape.page_bytes, PICKED * shape.row_bytes * waiting / read)
    else:
        return 0.0
    requests = max(1.0, read * size / shape.read_bytes)
    # Neighbours are one read.
    reads = requests + read * (1 - read / shape.pages)
    return requests * costs.request_s + reads * costs.read_s + read * page_s


def ceiling(memory: float, cached_bytes: float, hits: float) -> float:
    """How many times MESHJOIN's rate a cache can give at most, at equal memory."""
    return (memory - cached_bytes) / memory / (1 - hits)
