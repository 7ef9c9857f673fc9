"""Contenders in turns: the seconds of each, as it measures them, and its groups compared."""

from __future__ import annotations

import gc
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from bench.peers.turns import Answer, Times
from bench.workers.jobs import agree, answer

T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """What a contender did once.

    Parameters
    ----------
    seconds : float
        From rows in memory to all groups as Arrow.
    answer : Answer
    cpu : float
        Seconds of all threads and processes.
    folding : float, optional
        Of the seconds, until all rows are folded.
    """

    seconds: float
    answer: Answer
    cpu: float
    folding: float | None = None


Contender = Callable[[], Turn]


def timed(run: Callable[[], pa.Table]) -> Contender:
    """A contender of this process."""

    def turn() -> Turn:
        gc.collect()
        began, cpu = time.perf_counter(), time.process_time()
        table = run()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        return Turn(seconds, answer(table), cpu)

    return turn


#: What the times of a contender's folding alone are called, and CPU seconds of it all.
FOLDING, CPU = "{}, folding", "{}, CPU"


def in_steps(fold: Callable[[], T], give: Callable[[T], pa.Table]) -> Contender:
    """A contender that folds all rows, and then gives all groups."""

    def turn() -> Turn:
        gc.collect()
        began, cpu = time.perf_counter(), time.process_time()
        state = fold()
        folded = time.perf_counter()
        table = give(state)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        return Turn(seconds, answer(table), cpu, folded - began)

    return turn


def take_turns(contenders: Mapping[str, Contender], rounds: int, uncounted: int = 1) -> Times:
    """Rounds that do not count, in which all is compiled and memory comes to be, then the others.

    Raises
    ------
    PenstockError
        Two contenders, or two turns of one, gave different groups.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    first: Answer | None = None
    order, chance = list(contenders), random.Random(1)
    for number in range(uncounted + rounds):
        last = order[-1]
        # Nobody always follows the same one, and nobody itself: it would find its memory warm.
        chance.shuffle(order)
        if order[0] == last:
            order.reverse()
        for name in order:
            turn = contenders[name]()
            first = first or turn.answer
            agree({"the first": first, name: turn.answer})
            if number >= uncounted:
                seconds[name].append(turn.seconds)
                seconds[CPU.format(name)].append(turn.cpu)
                if turn.folding is not None:
                    seconds[FOLDING.format(name)].append(turn.folding)
    return Times(first.rows if first else 0, seconds)
