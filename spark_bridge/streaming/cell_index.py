"""Counts of a file's rows per routing cell, which say where in the file a cell's rows lie."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .commit import StoredFile


def index_of(identity: str, cells: np.ndarray, count: int) -> dict[str, str]:
    """The index of rows in the order of their cells.

    Parameters
    ----------
    identity : str
        Names the cells: :attr:`.CellOf.identity`.
    cells : ndarray of int64, shape (rows,)
    count : int
        Number of cells, NULL's included.
    """
    counts = np.bincount(cells, minlength=count).astype("<i4")
    packed = zlib.compress(counts.tobytes(), 9)
    return {"of": identity, "counts": base64.b85encode(packed).decode()}


def counts_of(file: StoredFile, identity: str) -> np.ndarray | None:
    """Rows of each cell in a file, ndarray of int64; None if it has no such cells."""
    index: Mapping[str, Any] | None = file.cells
    if index is None or index["of"] != identity:
        return None
    return np.frombuffer(zlib.decompress(base64.b85decode(index["counts"])), "<i4").astype(np.int64)


def total_of(files: Iterable[StoredFile], identity: str, count: int) -> np.ndarray:
    """Rows of each cell in those files that have such cells."""
    total = np.zeros(count, np.int64)
    for file in files:
        counts = counts_of(file, identity)
        if counts is not None:
            total += counts
    return total
