"""Aggregates of range joins for tests: what is folded, and what each mode should give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from penstock.expr.values import order_key
from penstock.host.device.base import Folds, Kernel, Task, WindowBuffer
from penstock.program import BandProgram, GeneralProgram, Mode
from penstock.types import Type
from tests.host.kit.predicates import Predicates, column
from tests.host.kit.tasks import TIMEOUT_S, Join, band_join, expected, plain, ranges
from tests.penstock.kit.reference import evaluate


def payload_join(
    rng: np.random.Generator,
    tests: int,
    key_bits: int,
    payload: Type,
    rows: int,
    window: int,
    kind: str,
) -> Join:
    """A band join whose window tuples carry a payload."""
    join = band_join(rng, tests, key_bits, rows, window, kind)
    assert isinstance(join.program, BandProgram)
    program = replace(join.program, payload=payload)
    return replace(join, program=program, window=[*join.window, column(rng, payload, window)])


def valued_join(
    rng: np.random.Generator, types: tuple[Type, ...], steps: int, rows: int, window: int, kind: str
) -> Join:
    """A join of a random predicate and a random value over keys of some of ``types``."""
    made = Predicates(rng, types)
    program = made.program(steps)
    program = replace(program, value=made.value())
    start, end = ranges(rng, kind, rows, window)
    return Join(
        program,
        [column(rng, t, window) for t in program.window],
        [column(rng, t, rows) for t in program.stream],
        start,
        end,
    )


def run_folds(kernel: Kernel, buffer: WindowBuffer, join: Join, mode: Mode) -> Folds:
    """Aggregates of a join run as one task, checked for what every mode promises."""
    task = Task(join.stream, join.start, join.end, kernel.min_room, mode)
    result = kernel.submit(buffer, task).result(TIMEOUT_S)
    assert result.pause is None
    assert len(result.i) == len(result.j) == 0
    assert result.counters["evaluations"] == join.evaluations
    assert result.folds is not None
    return result.folds


def check_folds(
    got: Folds, join: Join, mode: Mode, pairs: np.ndarray | None = None, first: int = 0
) -> None:
    """Compare aggregates with brute force.

    Parameters
    ----------
    pairs : ndarray, optional
        The matches, if not all of the join's are wanted.
    first : int
        Position from which the device counts.
    """
    wanted = expected_folds(join, mode, pairs)
    assert got.found.dtype == np.bool_
    assert got.found.tolist() == [fold is not None for fold in wanted]
    assert (got.position is not None) == (mode is Mode.NEAREST)
    if mode is Mode.COUNT:
        assert got.value.dtype == np.int64
    if mode is Mode.EXISTS:
        assert got.value.dtype == np.bool_
    if got.position is not None:
        assert got.position.tolist() == [-1 if fold is None else fold[1] - first for fold in wanted]
    for value, fold in zip(got.value.tolist(), wanted, strict=True):
        if fold is None:
            assert value == 0
        else:
            assert order_key(value) == order_key(fold[0])


def expected_folds(
    join: Join, mode: Mode, pairs: np.ndarray | None = None
) -> list[tuple[Any, int] | None]:
    """Value and position per stream tuple by brute force; None where nothing matches."""
    pairs = expected(join) if pairs is None else pairs
    folds: list[tuple[Any, int] | None] = [None] * len(join.start)
    for i, j in pairs.tolist():
        before = folds[i]
        value = value_of(join, i, j) if mode.needs_value else 1
        if before is None:
            folds[i] = (True if mode is Mode.EXISTS else value, j)
        elif mode in (Mode.COUNT, Mode.SUM):
            folds[i] = before[0] + value, j
        elif mode is not Mode.EXISTS:
            old, new = order_key(before[0]), order_key(value)
            if new > old if mode is Mode.MAX else new < old:
                folds[i] = value, j
    return folds


def value_of(join: Join, i: int, j: int) -> Any:
    """What is folded of one pair."""
    if isinstance(join.program, BandProgram):
        return plain(join.window[-1][j])
    assert isinstance(join.program, GeneralProgram)
    assert join.program.value is not None
    row = {("s", k): plain(keys[i]) for k, keys in enumerate(join.stream)}
    row |= {("w", k): plain(keys[j]) for k, keys in enumerate(join.window)}
    return evaluate(join.program.value, row)
