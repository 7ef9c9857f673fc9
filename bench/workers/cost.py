"""COST: how many workers beat one thread that somebody wrote by hand (figure 11).

Two cores show one worker and two by the clock; of more, what they need by CPU seconds tells from
which number on they would be faster, each on a core of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from bench.rows import Row
from bench.workers import pair
from bench.workers.jobs import agree, answer, cm, in_one_window, nb7, ro, ysb
from bench.workers.joins import nb8, nb11
from bench.workers.model import fitted
from bench.workers.scale import Scale
from bench.workers.tasks import Task

#: Most workers that may be needed, where there is a target; Slash over LightSaber with 16 nodes.
TARGETS = {"CM": 2, "NB7": 2}
PAPER = {"YSB": 11.6, "CM": 11.6, "NB7": 4.4}
#: Beyond, no number of workers is told.
_MOST = 64


@dataclass(frozen=True)
class Cost:
    """Rows per second.

    Parameters
    ----------
    name : str
    by_hand : float
        Of one thread.
    rates : mapping of int to float
        Of one worker and two by the clock.
    cpu_s : mapping of int to float
        Of a row, of one worker and two.
    """

    name: str
    by_hand: float
    rates: Mapping[int, float]
    cpu_s: Mapping[int, float]

    def over(self, workers: int) -> float:
        """Rate of so many workers over the thread, as far as their CPU seconds go."""
        return workers / fitted(self.cpu_s).cpu_s(workers) / self.by_hand

    @property
    def needed(self) -> int | None:
        """Workers that are faster than the thread; None if they never are."""
        return next((n for n in range(1, _MOST + 1) if self.over(n) > 1), None)


def measure(scale: Scale, rounds: int, add: Callable[[Row], None]) -> list[Cost]:
    """Add a row for each of the six."""
    rows, joined = scale.each, scale.joined
    jobs = ysb(rows), in_one_window(cm(rows)), nb7(rows), nb8(joined), nb11(joined), ro(rows)
    found = [cost(job, rounds) for job in jobs]
    for own in found:
        most = TARGETS.get(own.name)
        needed = own.needed
        add(
            Row(
                f"workers that beat one thread by hand, {own.name}",
                f"{needed or f'more than {_MOST}'}; one worker has "
                f"{own.rates[1] / own.by_hand:.2f}, two {own.rates[2] / own.by_hand:.2f} of its "
                f"rate; by CPU seconds 16 have {own.over(16):.1f}",
                "" if most is None else f"<= {most}",
                None if most is None else needed is not None and needed <= most,
                f"by hand {own.by_hand / 1e6:.1f} M rows/s",
                {"job": own.name, "by_hand": own.by_hand, "rates": own.rates, "cpu": own.cpu_s},
            )
        )
    return found


def cost(job: Task, rounds: int) -> Cost:
    """Measure a job by hand, and with one worker and two, in one run.

    Raises
    ------
    PenstockError
        They give different rows.
    """
    inputs = job.inputs(0)
    arrays = job.hand_input(inputs)
    seconds, given = [], job.by_hand(arrays)  # all is compiled
    with pair.started(job, 1) as one, pair.started(job, 2) as two:
        turns: dict[int, list] = {1: [], 2: []}
        one.warm()
        two.warm()
        for _ in range(rounds):
            began = time.perf_counter()
            given = job.by_hand(arrays)
            seconds.append(time.perf_counter() - began)
            for size, own in ((1, one), (2, two)):
                turns[size].append(own.turn())
    agree({"by hand": answer(given), "one worker": turns[1][-1].answer})
    return Cost(
        job.short,
        job.rows / median(seconds),
        {n: n * job.rows / median(t.seconds for t in own) for n, own in turns.items()},
        {n: median(t.cpu for t in own) / (n * job.rows) for n, own in turns.items()},
    )
