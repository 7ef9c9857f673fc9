"""Contenders in turns: the seconds of each, as it measures them, and its groups compared."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from bench.peers.turns import Answer, Times
from bench.workers.jobs import agree, answer


@dataclass(frozen=True)
class Turn:
    """What a contender did once.

    Parameters
    ----------
    seconds : float
        From rows in memory to all groups as Arrow.
    answer : Answer
    """

    seconds: float
    answer: Answer


Contender = Callable[[], Turn]


def timed(run: Callable[[], pa.Table]) -> Contender:
    """A contender of this process."""

    def turn() -> Turn:
        gc.collect()
        began = time.perf_counter()
        table = run()
        return Turn(time.perf_counter() - began, answer(table))

    return turn


def take_turns(contenders: Mapping[str, Contender], rounds: int) -> Times:
    """One round that does not count, in which all is compiled, then the others.

    Raises
    ------
    PenstockError
        Two contenders, or two turns of one, gave different groups.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    first: Answer | None = None
    for number in range(rounds + 1):
        # Every other round runs backwards, so that nobody always follows the same one.
        order = list(contenders) if number % 2 == 0 else list(reversed(contenders))
        for name in order:
            turn = contenders[name]()
            first = first or turn.answer
            agree({"the first": first, name: turn.answer})
            if number:
                seconds[name].append(turn.seconds)
    return Times(first.rows if first else 0, seconds)
