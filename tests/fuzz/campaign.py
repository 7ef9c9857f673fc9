"""Runs seeds: each a query and its data sets, each run judged and counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.check import Outcome, check
from tests.fuzz.duck import Duck, SkipError
from tests.fuzz.generate import random_case, random_query
from tests.fuzz.minimise import minimise
from tests.fuzz.mode import Mode, random_mode
from tests.fuzz.oracle import Oracle
from tests.fuzz.query import Case
from tests.fuzz.repro import script

DATA_SETS = 20
"""Data sets of one query. Each run of a query over one of them counts as one query."""

DUCK_EVERY = 10
"""Of so many data sets of a query DuckDB sees one: it takes longer than all else together."""


@dataclass
class Tally:
    """Counts over runs, and the findings."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def queries(self) -> int:
        return self.counts["queries"]


@dataclass(frozen=True)
class Finding:
    """A case whose rows are wrong, or that ended in an error that no document allows."""

    seed: int
    at: int
    """Which data set of the seed."""

    mode: Mode
    outcome: Outcome
    case: Case

    @property
    def title(self) -> str:
        return f"Seed {self.seed}, data set {self.at}."


def run_seed(
    seed: int,
    device: Any,
    tally: Tally,
    *,
    data_sets: int = DATA_SETS,
    duck: Duck | None = None,
    band: bool = False,
) -> None:
    """Runs the query of a seed over its data sets.

    A query that is refused for its text ends the seed, since all data sets would be; so does a
    finding.
    """
    query, rng = random_query(seed, band)
    oracle = Oracle(query)
    tally.counts["structures"] += 1
    streams = True
    for at in range(data_sets):
        case = random_case(rng, query)
        mode = random_mode(Random(seed * 1000 + at), at, streams)
        begin = time.perf_counter()
        outcome = check(case, oracle, mode, device)
        tally.counts["queries"] += 1
        tally.counts["milliseconds"] += int(1000 * (time.perf_counter() - begin))
        tally.counts[outcome.kind] += 1
        if mode.stream is not None:
            tally.counts["as streams"] += 1
        if outcome.kind in ("refused", "open"):
            tally.counts[f"{outcome.kind}: {outcome.what}"] += 1
        if duck is not None and at % DUCK_EVERY == 0 and outcome.kind != "refused":
            disagreement = ask_duck(duck, case, oracle, tally)
            if disagreement is not None:
                outcome = Outcome("finding", f"DuckDB: {disagreement}", "DuckDB disagrees")
        if outcome.kind == "finding":
            tally.findings.append(Finding(seed, at, mode, outcome, case))
            return
        if outcome.kind == "refused" and outcome.signature == "QueryError":
            if mode.stream is None:
                return
            streams = False


def ask_duck(duck: Duck, case: Case, oracle: Oracle, tally: Tally) -> str | None:
    """How DuckDB's rows differ from the plain evaluator's."""
    try:
        disagreement = duck.check(case, oracle.run(case))
    except SkipError as reason:
        tally.counts[f"DuckDB skipped: {reason}"] += 1
        return None
    tally.counts["DuckDB"] += 1
    return disagreement


def run_seeds(seeds: Iterable[int], device: Any, tally: Tally, **options: Any) -> None:
    for seed in seeds:
        run_seed(seed, device, tally, **options)


def write_finding(finding: Finding, device: Any, folder: Path, seconds: float = 60.0) -> Path:
    """Minimises a finding and writes a script that reproduces it."""

    if finding.outcome.signature == "DuckDB disagrees":
        return write_script(finding, finding.case, finding.outcome, folder)

    def fails(case: Case) -> bool:
        outcome = check(case, Oracle(case.query), finding.mode, device)
        return outcome.kind == "finding" and outcome.signature == finding.outcome.signature

    small = minimise(finding.case, fails, seconds)
    outcome = check(small, Oracle(small.query), finding.mode, device)
    return write_script(finding, small, outcome, folder)


def write_script(finding: Finding, case: Case, outcome: Outcome, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed{finding.seed}_{finding.at}.py"
    expected = Oracle(case.query).run(case)
    path.write_text(script(case, finding.mode, outcome, expected, finding.title))
    return path
