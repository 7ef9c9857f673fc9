"""Contenders in turns, their rows compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError

_MIXERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


@dataclass(frozen=True)
class Answer:
    """Number of rows, and a checksum that their order does not change."""

    rows: int
    checksum: int


def answer(table: pa.Table) -> Answer:
    """What two contenders must agree on: ids of pairs, or ids and counts."""
    mixed = np.zeros(table.num_rows, np.uint64)
    for column, mixer in zip(table.columns, _MIXERS, strict=True):
        mixed ^= (column.to_numpy().astype(np.uint64) + np.uint64(1)) * mixer
    return Answer(table.num_rows, int(mixed.sum(dtype=np.uint64)))


@dataclass(frozen=True)
class Times:
    """Seconds of each contender, one per round."""

    rows: int
    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """The middle one of a contender's rounds."""
        return float(np.median(self.seconds[name]))

    def ratio(self, name: str, other: str) -> float:
        """Median over the rounds of one contender's time over another's."""
        return float(np.median(np.divide(self.seconds[name], self.seconds[other])))


def take_turns(runs: Mapping[str, Callable[[], pa.Table]], rounds: int) -> Times:
    """One round that is not timed and whose rows are compared, then the timed ones.

    Raises
    ------
    PenstockError
        Two contenders gave different rows.
    """
    answers = {name: answer(run()) for name, run in runs.items()}
    if len(set(answers.values())) > 1:
        raise PenstockError(f"the contenders gave different rows: {answers}; one of them is wrong")
    rows = next(iter(answers.values())).rows
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        # Every other round runs backwards, so that nobody always follows the same one.
        order = list(runs) if number % 2 == 0 else list(reversed(runs))
        for name in order:
            began = time.perf_counter()
            table = runs[name]()
            seconds[name].append(time.perf_counter() - began)
            if table.num_rows != rows:
                raise PenstockError(f"{name} gave {table.num_rows} rows after {rows}")
            del table
    return Times(rows, seconds)
