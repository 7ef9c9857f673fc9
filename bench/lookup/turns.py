"""Contenders in turns at the same batches, their answers compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.lookup.contenders import Contender
from bench.lookup.scale import BATCH_ROWS, Scale
from penstock.errors import PenstockError

#: Algorithms that get better as their caches fill.
CACHING = ("auto", "cachejoin", "d-cachejoin")

_MIXER = np.uint64(0x9E3779B97F4A7C15)


def checksum(tables: Sequence[pa.Table]) -> tuple[int, int]:
    """Rows, and a number that is the same in any order of them."""
    rows, total = 0, 0
    for table in tables:
        for batch in table.to_batches():
            ids, plans = (
                batch.column(name).to_numpy(zero_copy_only=False).astype(np.uint64)
                for name in ("id", "plan")
            )
            name = batch.column("name").cast(pa.large_string())
            offsets = np.frombuffer(name.buffers()[1], np.int64)
            offsets = offsets[name.offset : name.offset + len(name) + 1]
            digits = np.frombuffer(name.buffers()[2] or b"", np.uint8)[offsets[:-1] + 11]
            mixed = (
                (ids + np.uint64(1)) * _MIXER ^ plans << np.uint64(32) ^ digits.astype(np.uint64)
            )
            rows, total = rows + len(ids), total + int((mixed * _MIXER).sum(dtype=np.uint64))
    return rows, total % (1 << 64)


@dataclass(frozen=True)
class Rates:
    """Seconds of rounds at the same batches, by contender.

    Parameters
    ----------
    rows : int
        Calls of a round.
    wall, cpu : mapping of str to list of float
    """

    rows: int
    wall: Mapping[str, list[float]]
    cpu: Mapping[str, list[float]]

    def rate(self, name: str) -> float:
        """Rows per second: median of the rounds."""
        return self.rows / float(np.median(self.wall[name]))

    def cpu_rate(self, name: str) -> float:
        """Rows per CPU second."""
        return self.rows / float(np.median(self.cpu[name]))

    def over(self, name: str, other: str, *, cpu: bool = False) -> float:
        """How many times the rate of another one: median over the rounds."""
        times = self.cpu if cpu else self.wall
        pairs = zip(times[name], times[other], strict=True)
        return float(np.median([theirs / own for own, theirs in pairs]))


def take_turns(
    contenders: Mapping[str, Contender], calls: Sequence[pa.RecordBatch], scale: Scale
) -> Rates:
    """Warm all up, then let them answer round by round.

    Raises
    ------
    PenstockError
        Two of them gave different rows.
    """
    warm, rounds = calls[: scale.warm], scale.rounds
    for one in contenders.values():
        # Who keeps nothing gets no better.
        one.answer(warm if getattr(one, "algorithm", "auto") in CACHING else [])
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        first = scale.warm + number * scale.batches
        batches = calls[first : first + scale.batches]
        answers: dict[str, tuple[int, int]] = {}
        order = list(contenders)
        # Every other round runs backwards, so that nobody always follows the same one.
        for name in order if number % 2 == 0 else reversed(order):
            began, began_cpu = time.perf_counter(), time.process_time()
            tables = contenders[name].answer(batches)
            wall[name].append(time.perf_counter() - began)
            cpu[name].append(time.process_time() - began_cpu)
            answers[name] = checksum(tables)
        if len(set(answers.values())) > 1:
            raise PenstockError(f"the contenders gave different rows: {answers}")
    return Rates(scale.batches * BATCH_ROWS, wall, cpu)
