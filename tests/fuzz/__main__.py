"""``python -m tests.fuzz``: random queries against a plain evaluator and DuckDB.

Seeds that the ledger has are not run again; a failing query is minimised and written as a script.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from multiprocessing import get_context

from tests.fuzz.devices import CHUNKS
from tests.fuzz.hostile import campaign
from tests.fuzz.ledger import Entry, Ledger, generator_version
from tests.fuzz.worker import FOLDER, run_chunk

MOST_DEATHS = 3
"""Processes that may die before the run ends: more speak of the machine, not of a query."""


def chunks(start: int, size: int, done: list[range]) -> Iterator[tuple[int, int]]:
    """Ranges of seeds from ``start`` on that no range of ``done`` holds."""
    first = start
    while True:
        skipped = [r for r in done if r.start <= first < r.stop]
        if skipped:
            first = max(r.stop for r in skipped)
            continue
        stops = [r.start for r in done if first < r.start < first + size]
        last = min([first + size, *stops])
        yield first, last
        first = last


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def shown(counts: Counter[str]) -> str:
    lines = [f"  {name}: {count:,}" for name, count in sorted(counts.items())]
    ran = counts["queries"] - counts["refused"]
    lines.append(f"  executed: {100 * ran / max(1, counts['queries']):.1f} %")
    return "\n".join(lines)


def search_mutant(number: int, seed: int, queries: int) -> int:
    """Says after how many queries the generator finds a mend that was taken out."""
    from tests.fuzz.mutants import MUTANTS, search, search_twins

    mutant = MUTANTS[number]
    if mutant.is_of_twins:
        count, what = search_twins(mutant, seed, queries)
        say(f"{mutant.name}: {'' if what else 'not '}found in {count:,} pairs from seed {seed} on")
        say(what)
        return 0 if what else 1
    count, finding = search(mutant, seed, queries)
    if finding is None:
        say(f"{mutant.name}: not found in {count:,} queries from seed {seed} on")
        return 1
    say(f"{mutant.name}: found after {count:,} queries from seed {seed} on")
    say(f"{finding.title} {finding.mode}: {finding.outcome.what}")
    say(finding.case.query.text())
    return 0


def compare_twins(pairs: int, first: int, seconds: float, place: str | None) -> int:
    """Says what differs between queries and their twins, and with which seed to go on."""
    from tests.fuzz import places, twins

    count = wrong = 0
    following = first
    with nullcontext() if place is None else places.PLACES[place]() as asked:
        for seed, found in twins.campaign(first, seconds, 5, asked):
            following = seed + 1
            count += len(found)
            for line in filter(None, found):
                wrong += 1
                say(line if line.startswith("as before") else f"FINDING {line}\n")
            if count >= pairs:
                break
    say(f"{count:,} pairs: {wrong} findings; go on with --seed {following}")
    return 1 if wrong else 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--queries", type=int, default=1_000_000, help="in the ledger, in all")
    parser.add_argument("--device", choices=sorted(CHUNKS), default="cpu")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=None, help="end after so many seconds")
    parser.add_argument("--minimise", type=float, default=30, help="seconds to minimise a finding")
    parser.add_argument("--mutant", type=int, help="search with a mend taken out: see mutants.py")
    parser.add_argument("--hostile", type=int, help="check so many hostile texts: see hostile.py")
    parser.add_argument("--twins", type=int, help="compare so many pairs of queries: see twins.py")
    parser.add_argument("--place", choices=["spark", "workers"], help="where twins are asked")
    options = parser.parse_args(argv)
    if options.twins is not None:
        seconds = options.seconds or float("inf")
        return compare_twins(options.twins, options.seed, seconds, options.place)
    if options.hostile is not None:
        count = wrong = 0
        for line in campaign(options.hostile, options.seed, options.seconds or float("inf")):
            count += 1
            wrong += bool(line)
            if line:
                say(f"FINDING {line}")
        say(f"{count:,} hostile texts: {wrong} findings")
        return 1 if wrong else 0
    if options.mutant is not None:
        return search_mutant(options.mutant, options.seed, options.queries)
    ledger = Ledger(FOLDER / "ledger.jsonl")
    version = generator_version()
    total = ledger.total(options.device)
    say(f"generator {version}, device {options.device}: {total['queries']:,} queries so far")
    end = time.monotonic() + (options.seconds or float("inf"))
    source = chunks(options.seed, CHUNKS[options.device], ledger.done(options.device, version))
    findings = deaths = 0
    context = get_context("spawn")

    def pool() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(options.jobs, mp_context=context)

    workers = pool()
    running: dict[Future[tuple[dict[str, int], list[str]]], tuple[int, int]] = {}
    try:
        while True:
            more = total["queries"] < options.queries and time.monotonic() < end
            while more and len(running) < options.jobs:
                first, last = next(source)
                chunk = workers.submit(run_chunk, options.device, first, last, options.minimise)
                running[chunk] = (first, last)
            if not running or deaths > MOST_DEATHS:
                break
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for chunk in finished:
                first, last = running.pop(chunk)
                try:
                    counts, found = chunk.result()
                except BrokenProcessPool:
                    counts, found = {"died": 1}, [f"seeds {first} to {last - 1}: a process died"]
                    workers.shutdown(wait=False)
                    workers = pool()
                    deaths += 1
                ledger.add(Entry(options.device, version, first, last, counts))
                total.update(counts)
                findings += len(found)
                for line in found:
                    say(f"FINDING {line}")
                say(f"seeds {first} to {last - 1}: {total['queries']:,} queries")
    finally:
        workers.shutdown()
    say(shown(total))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
