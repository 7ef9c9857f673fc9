"""Contenders in turns, their rows compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError

#: Seconds after which a first round took long: nothing that was cold weighs there.
SLOW_S = 3.0

#: Rows whose checksum is made at once, whatever the table's size.
_TOGETHER = 1 << 22
_MIXERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


@dataclass(frozen=True)
class Answer:
    """Number of rows, and a checksum that their order does not change."""

    rows: int
    checksum: int


def answer(table: pa.Table) -> Answer:
    """What two contenders must agree on: ids of pairs, or ids and counts."""
    checksum = 0
    for batch in table.to_batches(max_chunksize=_TOGETHER):
        mixed = np.zeros(batch.num_rows, np.uint64)
        for column, mixer in zip(batch.columns, _MIXERS, strict=True):
            mixed ^= (column.to_numpy().astype(np.uint64) + np.uint64(1)) * mixer
        checksum += int(mixed.sum(dtype=np.uint64))
    return Answer(table.num_rows, checksum % 2**64)


@dataclass(frozen=True)
class Times:
    """Seconds of each contender, one per round."""

    rows: int
    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """The middle one of a contender's rounds."""
        return float(np.median(self.seconds[name]))

    def ratio(self, name: str, other: str) -> float:
        """Median over the rounds of one contender's time over another's, of those both ran."""
        pairs = zip(self.seconds[name], self.seconds[other], strict=False)
        return float(np.median([own / others for own, others in pairs]))


def take_turns(
    runs: Mapping[str, Callable[[], pa.Table]],
    rounds: int,
    *,
    same_rows: bool = True,
    once: Collection[str] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Times:
    """One round that is not timed and whose rows are compared, then the timed ones.

    Parameters
    ----------
    same_rows : bool
        Whether all must give the same rows.
    once : collection of str
        Who does not run again if the first round took long, which then counts.
    clock : callable
        Seconds that pass, or CPU seconds of this process.

    Raises
    ------
    PenstockError
        Two contenders gave different rows.
    """
    answers: dict[str, Answer] = {}
    first: dict[str, float] = {}
    for name, run in runs.items():
        began = clock()
        table = run()
        first[name] = clock() - began
        answers[name] = answer(table)
        del table
    if same_rows and len(set(answers.values())) > 1:
        raise PenstockError(f"the contenders gave different rows: {answers}; one of them is wrong")
    slow = {name for name, spent in first.items() if spent > SLOW_S and name in once}
    seconds = {name: [first[name]] if name in slow else [] for name in runs}
    order = [name for name in runs if name not in slow]
    for number in range(rounds):
        # Every other round runs backwards, so that nobody always follows the same one.
        for name in order if number % 2 == 0 else reversed(order):
            began = clock()
            table = runs[name]()
            seconds[name].append(clock() - began)
            if table.num_rows != answers[name].rows:
                raise PenstockError(f"{name} gave {table.num_rows} rows, then others: {answers}")
            del table
    return Times(answers[next(iter(runs))].rows, seconds)
