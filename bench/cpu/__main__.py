"""Benchmarks of the CPU device: ``python -m bench.cpu [--quick] [--no-peers] [--only-narrow]``.

(a) evaluations per second against the fastest of several C loops compiled in the same run;
(b) a brute-force theta query against DuckDB, Polars and Spark;
(c) the rate against the selectivity, as a table and as ``build/bench/cpu_selectivity.png``;
(d) narrow codes first, against full codes alone (``--only-narrow`` for this part alone).

Rates depend on the machine and on what else it does; ratios less so. So all contenders take turns
within one run, and each one's best turn counts. Every contender's number of pairs is compared.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.cpu import baseline, penstock_side
from bench.cpu.peers import PEERS, Peer
from bench.cpu.workload import Points, radius_for
from penstock.errors import MissingToolError, PenstockError
from penstock.host.device.registry import open_device

BUILD = Path("build/bench")
C_TARGET = 0.8
NARROW_TARGET = 2.2


def best_times(runs: Mapping[str, Callable[[], int]], turns: int) -> dict[str, float]:
    """Seconds of each contender's fastest turn; they take turns.

    Raises
    ------
    PenstockError
        Two contenders found different numbers of pairs.
    """
    best: dict[str, float] = {}
    pairs: dict[str, int] = {}
    for _ in range(turns):
        for name, run in runs.items():
            begin = time.perf_counter()
            pairs[name] = run()
            best[name] = min(best.get(name, float("inf")), time.perf_counter() - begin)
    if len(set(pairs.values())) > 1:
        raise PenstockError(f"the contenders found different pairs: {pairs}; one of them is wrong")
    return best


class CLoops:
    """The C baselines on one set of points, with result memory that is used again."""

    def __init__(self, points: Points, most_pairs: int) -> None:
        self._points = points
        self._compiled = baseline.compile_all(BUILD / "c")
        # Touched beforehand: C pays for no fresh page either.
        self._out = [np.zeros(most_pairs + 64, np.uint32) for _ in range(2)]

    def runs(self) -> dict[str, Callable[[], int]]:
        return {f"C {b.name}": self._run(b) for b in self._compiled}

    def _run(self, chosen: baseline.Baseline) -> Callable[[], int]:
        p = self._points
        columns = [*p.stream, *p.resident]
        if chosen.form == "band":
            columns = [*p.window_keys, *p.stream_bounds]
        return lambda: chosen.run(columns, p.rows, p.window, *self._out, p.d)


def against_c(console: Console, points: Points, turns: int, detail: bool) -> dict[str, float]:
    """One selectivity: rates in evaluations per second, and the ratio to the fastest C loop."""
    cores = len(os.sched_getaffinity(0))
    with (
        penstock_side.loaded(points, 1) as single,
        penstock_side.loaded(points, cores) as many,
    ):
        pairs = penstock_side.join(single, points)
        runs = {
            "Penstock, 1 core": lambda: penstock_side.join(single, points),
            f"Penstock, {cores} cores": lambda: penstock_side.join(many, points),
            **CLoops(points, pairs).runs(),
        }
        best = best_times(runs, turns)
    rates = {name: points.evaluations / seconds for name, seconds in best.items()}
    fastest = max((n for n in rates if n.startswith("C ")), key=rates.__getitem__)
    if detail:
        table = Table(
            title=f"(a) {points.rows:,} x {points.window:,} tuples, selectivity "
            f"{pairs / points.evaluations:.1e}, {pairs:,} pairs written; C: gcc "
            f"{' '.join(baseline.FLAGS)}, one core"
        )
        for heading in ("contender", "G evaluations/s", "over the fastest C loop", "target"):
            table.add_column(heading, justify="left" if heading == "contender" else "right")
        for name, rate in rates.items():
            target = f">= {C_TARGET}" if name == "Penstock, 1 core" else ""
            table.add_row(name, f"{rate / 1e9:.2f}", f"{rate / rates[fastest]:.2f}", target)
        console.print(table)
    return {
        "selectivity": pairs / points.evaluations,
        "one": rates["Penstock, 1 core"],
        "all": rates[f"Penstock, {cores} cores"],
        "c": rates[fastest],
    }


def against_peers(console: Console, points: Points, turns: int) -> None:
    cores = len(os.sched_getaffinity(0))
    table = Table(
        title=f"(b) {points.rows:,} x {points.window:,} tuples, d = {points.d}, {cores} cores; "
        "peers count pairs, Penstock (penstock.sql, from SQL to an Arrow table) writes them"
    )
    for heading in ("contender", "form", "G evaluations/s", "Penstock is faster by", "target"):
        table.add_column(heading, justify="left" if heading in ("contender", "form") else "right")
    for make in PEERS:
        try:
            peer = make(points, cores)
        except MissingToolError as cause:
            table.add_row(make.__name__, f"skipped: {cause}", "", "", "")
            continue
        for row in _peer_rows(peer, points, cores, turns):
            table.add_row(*row)
        peer.close()
    console.print(table)


def _peer_rows(peer: Peer, points: Points, cores: int, turns: int) -> list[tuple[str, ...]]:
    given = penstock_side.tables(points)
    with open_device("cpu", threads=cores) as device:
        best = best_times(
            {
                "penstock": lambda: penstock_side.sql(device, given, points),
                "brute": lambda: peer.count(False),
                "pruned": lambda: peer.count(True),
            },
            turns,
        )
    rate = {name: points.evaluations / seconds / 1e9 for name, seconds in best.items()}
    ratio = {name: best[name] / best["penstock"] for name in best}
    return [
        ("Penstock", f"brute force, beside {peer.name}", f"{rate['penstock']:.2f}", "", ""),
        (
            peer.name,
            "brute force",
            f"{rate['brute']:.3f}",
            f"{ratio['brute']:.1f}x",
            f">= {peer.target:g}x",
        ),
        (
            peer.name,
            "pruned by hand (x ranges)",
            f"as if {rate['pruned']:.3f}",
            f"{ratio['pruned']:.1f}x",
            "",
        ),
    ]


def curve(console: Console, rows: int, window: int, exponents: range, turns: int) -> None:
    """Rate against selectivity, 10 ** exponent each."""
    table = Table(title=f"(c) rate against selectivity, {rows:,} x {window:,} tuples")
    for heading in ("selectivity", "1 core, G/s", "all cores, G/s", "fastest C, G/s", "ratio"):
        table.add_column(heading, justify="right")
    found = []
    for exponent in exponents:
        points = Points(rows, window, radius_for(10.0**exponent))
        rates = against_c(console, points, turns, detail=False)
        found.append((10.0**exponent, rates))
        table.add_row(
            f"1e{exponent} ({rates['selectivity']:.1e})",
            *(f"{rates[key] / 1e9:.2f}" for key in ("one", "all", "c")),
            f"{rates['one'] / rates['c']:.2f}",
        )
    console.print(table)
    _draw(console, found)


def narrow_first(console: Console, rows: int, window: int, exponents: range, turns: int) -> None:
    """One thread with and without narrow codes, at selectivities of 10 ** exponent each."""
    table = Table(title=f"(d) narrow codes first, {rows:,} x {window:,} tuples, one thread")
    for heading in ("selectivity", "without, G/s", "with, G/s", "ratio", "target", "first run"):
        table.add_column(heading, justify="right")
    for exponent in exponents:
        points = Points(rows, window, radius_for(10.0**exponent))
        with (
            penstock_side.loaded(points, 1, narrow=False) as without,
            penstock_side.loaded(points, 1) as first,
        ):
            begin = time.perf_counter()
            pairs = penstock_side.join(first, points)
            first_s = time.perf_counter() - begin
            best = best_times(
                {
                    "without": lambda given=without, points=points: penstock_side.join(
                        given, points
                    ),
                    "with": lambda given=first, points=points: penstock_side.join(given, points),
                },
                turns,
            )
        table.add_row(
            f"1e{exponent} ({pairs / points.evaluations:.1e})",
            *(f"{points.evaluations / best[name] / 1e9:.2f}" for name in ("without", "with")),
            f"{best['without'] / best['with']:.2f}",
            f">= {NARROW_TARGET if exponent <= -4 else 1}",
            f"{best['without'] / first_s:.2f}",
        )
    console.print(table)
    console.print("first run: its ratio while the codes are made, once for a window's keys")


def _draw(console: Console, found: list) -> None:
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        console.print("no picture: matplotlib is not installed; pip install 'penstock[demo]'")
        return
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for key, label in (("one", "Penstock, 1 core"), ("all", "all cores"), ("c", "fastest C loop")):
        axes.loglog([s for s, _ in found], [r[key] for _, r in found], marker="o", label=label)
    axes.set_xlabel("selectivity (pairs written per evaluation)")
    axes.set_ylabel("evaluations per second")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    target = BUILD / "cpu_selectivity.png"
    figure.savefig(target, dpi=150, bbox_inches="tight")
    console.print(f"picture: {target}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cpu", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: half a minute")
    parser.add_argument("--no-peers", action="store_true", help="leave part (b) out")
    parser.add_argument("--only-narrow", action="store_true", help="part (d) alone: a minute")
    options = parser.parse_args()
    quick = options.quick
    console = Console()
    BUILD.mkdir(parents=True, exist_ok=True)
    rows, window = (1024, 1 << 17) if quick else (4096, 1 << 18)
    turns = 3 if quick else 5
    exponents = range(-9, 0, 4) if quick else range(-9, 0)
    if options.only_narrow:
        narrow_first(console, rows, window, exponents, turns)
        return
    for selectivity in (1e-6,) if quick else (1e-9, 1e-6, 1e-3):
        against_c(console, Points(rows, window, radius_for(selectivity)), turns, detail=True)
    if not options.no_peers:
        size = (2_000, 200_000) if quick else (16_000, 400_000)
        against_peers(console, Points(*size, radius_for(1e-6)), 2)
    curve(console, 1024, 1 << 17 if quick else 1 << 18, exponents, turns)
    narrow_first(console, rows, window, exponents, turns)


if __name__ == "__main__":
    main()
