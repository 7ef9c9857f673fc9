"""What the device tasks of an order gave, put together and checked."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import DeviceError
from penstock.program import Mode

from ..device.base import Result
from ..device.cut import Piece
from .order import Order
from .ring import RingSpan


@dataclass(frozen=True, eq=False)
class Chunk:
    """What an order gave.

    Parameters
    ----------
    order : Order
    pairs : tuple of (ndarray, ndarray)
        Of each device task: tuples of the probe, and logical positions of the run.
    rows : tuple of ndarray
        Of each device task: which tuples of the probe its aggregates are of, each once.
    results : tuple of Result
    rest : tuple of Order
        What is still to be done, because the device ran out of room for results.
    """

    order: Order
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...]
    rows: tuple[np.ndarray, ...]
    results: tuple[Result, ...]
    rest: tuple[Order, ...]


@dataclass(eq=False)
class TaskPart:
    """One device task of an order: the part of its ranges that lies in one span."""

    span: RingSpan
    piece: Piece
    mode: Mode
    future: Future[Result]


def chunk_of(order: Order, parts: Sequence[TaskPart]) -> Chunk:
    """What the device tasks of an order gave, all of which are over.

    Raises
    ------
    DeviceError
        A task failed, or its result cannot be right.
    """
    pairs, rows_of, results, rest = [], [], [], []
    for part in parts:
        result = part.future.result(0)
        by = part.span.low - part.span.offset
        _check(part, result, by)
        pairs.append(
            order.bound.pairs(part.piece.rebased(result.i), result.j.astype(np.int64) + by)
        )
        own = part.piece.rows
        if result.folds is not None:
            own, folds = order.bound.folds(own, result.folds, by)
            result = replace(result, folds=folds)
        rows_of.append(own)
        results.append(result)
        if result.pause is not None:
            at = result.pause
            pause = type(at)(at.i0, at.i1, at.p + by)
            left = part.piece.rest(pause)
            rest += [Order(order.batch, order.bound, piece) for piece in reversed(left)]
    return Chunk(order, tuple(pairs), tuple(rows_of), tuple(results), tuple(rest))


def _check(part: TaskPart, result: Result, by: int) -> None:
    """Refuse a result that no task like this can have.

    Raises
    ------
    DeviceError
    """
    rows = len(part.piece.rows)
    problem = ""
    folds = part.mode is not Mode.PAIRS
    if folds and (result.folds is None or len(result.folds.found) != rows):
        problem = "aggregates of another number of tuples"
    elif len(result.i) != len(result.j):
        problem = f"{len(result.i)} stream indices and {len(result.j)} window positions"
    elif len(result.i) and int(result.i.max()) >= rows:
        problem = f"stream index {int(result.i.max())} of {rows} tuples"
    elif len(result.i):
        j = result.j.astype(np.int64) + by
        outside = (j < part.piece.start[result.i]) | (j >= part.piece.end[result.i])
        if outside.any():
            first = int(np.argmax(outside))
            problem = f"window position {int(j[first])} outside the range of its tuple"
    elif folds and result.folds is not None and result.folds.position is not None:
        found, position = result.folds.found, result.folds.position + by
        outside = found & ((position < part.piece.start) | (position >= part.piece.end))
        if outside.any():
            first = int(position[np.argmax(outside)])
            problem = f"nearest match at {first}, outside the range of its tuple"
    if problem:
        raise DeviceError(
            f"a device gave an impossible result ({problem}); the task is run again elsewhere"
        )
