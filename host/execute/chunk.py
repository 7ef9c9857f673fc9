"""Chunks: the checked results of the device tasks of an order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import DeviceError
from penstock.kept_code import kept
from penstock.program import Mode

from ..device.base import Folds, Result
from .order import BoundProbe, Order, Pairs, TaskPart, joined


@dataclass(frozen=True, eq=False)
class Chunk:
    """The results of an order.

    Parameters
    ----------
    pairs : tuple of Pairs
        Per device task.
    rows : tuple of ndarray
        Per device task: the probe's tuples with folds, each once.
    results : tuple of Result
    remaining : tuple of Order
        Orders for the work left over, if the device ran out of room for results.
    """

    order: Order
    pairs: tuple[Pairs, ...]
    rows: tuple[np.ndarray, ...]
    results: tuple[Result, ...]
    remaining: tuple[Order, ...]


def chunk_of(order: Order, parts: Sequence[TaskPart]) -> Chunk:
    """Make the chunk of an order; all of its device tasks are over.

    Raises
    ------
    DeviceError
        A task failed, or its result cannot be right.
    """
    pairs, rows_of, results, remaining = [], [], [], []
    for part in parts:
        result = part.future.result(0)
        pairs.append(_pairs(order, part, result))
        tuples = part.piece.rows
        if isinstance(order.bound, BoundProbe) and order.bound.mode is not Mode.PAIRS:
            tuples, folds = order.bound.folds(tuples, _folds(part, result), part.by)
            result = replace(result, folds=folds)
        rows_of.append(tuples)
        results.append(result)
        if result.pause is not None:
            at = result.pause
            pause = type(at)(at.i0, at.i1, at.p + part.by)
            left = part.piece.remaining(pause)
            remaining += [Order(order.batch, order.bound, piece) for piece in reversed(left)]
    return Chunk(order, tuple(pairs), tuple(rows_of), tuple(results), tuple(remaining))


def with_many_pairs(chunks: Iterable[Chunk], least: int) -> Iterator[Chunk]:
    """Yield chunks, in order; pairs of one probe wait until they are ``least``, to be one chunk."""
    waiting: list[Chunk] = []
    for chunk in chunks:
        if waiting and chunk.order.bound.probe is not waiting[0].order.bound.probe:
            yield _joined(waiting)
            waiting = []
        if any(map(len, chunk.pairs)):
            waiting.append(chunk)
        else:
            yield chunk
        if sum(len(pairs) for one in waiting for pairs in one.pairs) >= least:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    """Join the pairs of chunks."""
    pairs = [pairs for one in chunks for pairs in one.pairs]
    return replace(chunks[0], pairs=(joined(pairs),), rows=(), results=())


def _pairs(order: Order, part: TaskPart, result: Result) -> Pairs:
    """Return the pairs of a task, checked."""
    if len(result.i) != len(result.j):
        raise _impossible(f"{len(result.i)} stream indices and {len(result.j)} window positions")
    if isinstance(order.bound, BoundProbe):
        _check_ranges(part, result)
    return order.bound.pairs(part.piece, result, part.by)


def _check_ranges(part: TaskPart, result: Result) -> None:
    """Refuse pairs outside the ranges of a task."""
    piece = part.piece
    first = _first_impossible(result.i, result.j, part.by, piece.start, piece.end)
    if first >= 0 and int(result.i[first]) >= len(piece.rows):
        raise _impossible(f"stream index {int(result.i[first])} of {len(piece.rows)} tuples")
    if first >= 0:
        position = int(result.j[first]) + part.by
        raise _impossible(f"window position {position} outside the range of its tuple")


def _folds(part: TaskPart, result: Result) -> Folds:
    """Return the folds of a task, one per tuple."""
    folds, piece = result.folds, part.piece
    if folds is None or len(folds.found) != len(piece.rows):
        raise _impossible("aggregates of another number of tuples")
    if folds.position is not None:
        position = folds.position + part.by
        outside = folds.found & ((position < piece.start) | (position >= piece.end))
        if outside.any():
            first = int(position[np.argmax(outside)])
            raise _impossible(f"nearest match at {first}, outside the range of its tuple")
    return folds


def _impossible(problem: str) -> DeviceError:
    """Make the error of a result that this task cannot have."""
    return DeviceError(
        f"a device gave an impossible result ({problem}); the task is run again elsewhere"
    )


def _first_of_columns(i, j, by, start, end):
    place = j.astype(np.int64) + by
    wrong = (i < 0) | (i >= len(start))
    known = np.flatnonzero(~wrong)
    row = i[known]
    wrong[known] = (place[known] < start[row]) | (place[known] >= end[row])
    return int(np.argmax(wrong)) if wrong.any() else -1


@kept(plain=_first_of_columns)
def _first_impossible(i, j, by, start, end):
    """Return the first pair with an unknown tuple or outside its tuple's range; -1 without one."""
    for k in range(len(i)):
        row = i[k]
        if row < 0 or row >= len(start):
            return k
        place = np.int64(j[k]) + by
        if place < start[row] or place >= end[row]:
            return k
    return -1
