"""How far joins of tables are from their best plan: random joins, each by every plan.

Each join runs by the plan that Penstock chooses, by every plan forced, and as the same SQL in
DuckDB with two threads; in turns, in one process, after a first run of each. All must give the same
rows. A plan is stopped once it has taken three times as long as the chosen one. Times are of CPU.
Regret is the chosen plan's time over that of Penstock's fastest one.

python -m bench.regret [--joins 40] [--seed 0] [--limit 60] [--most-rows 3000000]
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from dataclasses import dataclass, field

import numpy as np

from bench.regret.joins import MOST_OUT, MOST_ROWS
from bench.regret.plans import CHOSEN, DUCKDB
from bench.regret.runner import Runner

#: A plan is stopped beyond so many times the chosen plan's seconds.
STOPPED = 3.0
#: Seconds of a plan's turns: the shorter a join, the more of them.
TURNS_S = 0.2
#: Least seconds of DuckDB from which on its ratio counts.
DUCKDB_COUNTS_S = 0.01


@dataclass
class Outcome:
    """What the plans of a join took, in CPU seconds; infinite where one was stopped or failed."""

    seed: int
    on: str
    rows: tuple[int, int]
    out: int = 0
    in_duckdb: bool = False
    took: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def best(self) -> str:
        own = {plan: took for plan, took in self.took.items() if plan != DUCKDB}
        return min(own, key=own.__getitem__)

    @property
    def regret(self) -> float:
        return self.took[CHOSEN] / self.took[self.best]

    @property
    def over_duckdb(self) -> float:
        return self.took[CHOSEN] / self.took[DUCKDB]

    def __str__(self) -> str:
        if not math.isfinite(self.took[CHOSEN]):
            rows = f"{self.rows[0]:9,} x {self.rows[1]:9,}"
            return (
                f"{self.seed:8} {rows}  not finished; DuckDB {self.took[DUCKDB]:.3f} s\n"
                f"         {self.on}"
            )
        ratio = f"regret {self.regret:5.2f} ({self.best})  over DuckDB {self.over_duckdb:6.2f}"
        by = "DuckDB" if self.in_duckdb else "Penstock"
        took = f"{self.took[CHOSEN]:8.3f} s by {by:8}"
        sizes = f"{self.rows[0]:9,} x {self.rows[1]:9,}, {self.out:10,} out"
        return f"{self.seed:8} {sizes}  {took}  {ratio}\n         {self.on}"


def measure(runner: Runner, seed: int, limit_s: float) -> Outcome:
    """Run all plans of a join in turns."""
    about, first = runner.first(seed, CHOSEN, limit_s)
    outcome = Outcome(seed, *about)
    if first is None or isinstance(first.digest, str):
        outcome.wrong += [] if first is None else [f"{CHOSEN}: {first.digest}"]
        _, other = runner.first(seed, DUCKDB, limit_s)
        outcome.took = {CHOSEN: math.inf, DUCKDB: math.inf if other is None else other.cpu_s}
        return outcome
    assert first.digest is not None
    outcome.out, outcome.in_duckdb = first.digest[0], first.seen.in_duckdb
    chosen_s = runner.again(seed, CHOSEN, limit_s)
    turns = 1 if chosen_s > 1 else int(min(max(TURNS_S / chosen_s, 3), 25))
    stop_s = max(STOPPED * chosen_s, 0.3)
    took = {CHOSEN: chosen_s}
    left = [CHOSEN]
    for plan in first.seen.plans()[1:]:
        _, result = runner.first(seed, plan, stop_s)
        took[plan] = math.inf
        if result is not None and result.digest != first.digest:
            outcome.wrong.append(f"{plan}: {result.digest} rows and hash, not {first.digest}")
        elif result is not None:
            left.append(plan)
    mixed = random.Random(seed)
    for _ in range(turns):
        # Whoever follows DuckDB finds its caches full.
        for plan in mixed.sample(left, len(left)):
            again_s = runner.again(seed, plan, stop_s)
            took[plan] = min(took[plan], again_s)
            if again_s == math.inf:
                left.remove(plan)
    outcome.took = took
    return outcome


def report(outcomes: list[Outcome]) -> None:
    """Print shares within the targets, and the worst joins."""
    write = sys.stdout.write
    done = [one for one in outcomes if math.isfinite(one.took[CHOSEN]) and one.out <= MOST_OUT]
    regrets = np.array([one.regret for one in done])
    over = [one for one in done if one.took[DUCKDB] > DUCKDB_COUNTS_S]
    beyond = [one for one in over if one.over_duckdb > 1.5]
    write(f"\n{len(outcomes)} joins, {len(done)} measured, ")
    write(f"{sum(map(bool, (one.wrong for one in outcomes)))} with other rows or errors\n")
    if done:
        write(f"regret at most 1.25 in {np.mean(regrets <= 1.25):.1%}, ")
        write(f"95 % have at most {np.quantile(regrets, 0.95):.2f}, all {regrets.max():.2f}\n")
    write(f"more than 1.5 of DuckDB: {len(beyond)} of {len(over)}\n")
    unfinished = [one for one in outcomes if not math.isfinite(one.took[CHOSEN])]
    for title, worst in (
        ("Largest regret", sorted(done, key=lambda one: -one.regret)[:10]),
        ("Furthest behind DuckDB", sorted(beyond, key=lambda one: -one.over_duckdb)[:10]),
        ("Not finished", unfinished),
        ("Other rows, or errors", [one for one in outcomes if one.wrong]),
    ):
        if worst:
            write(f"\n{title}\n")
        for one in worst:
            write(f"{one}\n")
            write("".join(f"         {wrong}\n" for wrong in one.wrong))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--joins", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds of the chosen plan")
    parser.add_argument("--most-rows", type=int, default=MOST_ROWS)
    chosen = parser.parse_args()
    runner, outcomes = Runner(chosen.most_rows), []
    for number in range(chosen.joins):
        one = measure(runner, chosen.seed * 1000 + number, chosen.limit)
        outcomes.append(one)
        shown = sorted(one.took.items(), key=lambda entry: entry[1])[:6]
        fastest = "  ".join(f"{plan} {took:.3f}" for plan, took in shown)
        sys.stdout.write("\n         ".join((f"{one}", fastest, *one.wrong)) + "\n")
        sys.stdout.flush()
    runner.stop()
    report(outcomes)


if __name__ == "__main__":
    main()
