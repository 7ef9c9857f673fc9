"""Whole benchmarks in two trees: ``python -m bench.versus REVISION --suite [--only cpu,host]``.

Each tree runs the quick forms of its own benchmarks, this one twice, so that the ratios of the same
tree beside those of both tell what a machine's noise is. They take turns. Of each row that both
trees have, the first figure with a unit of time or of a rate is compared; the others are listed.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean, median

from bench.trees import HERE, checked_out, environment

#: Arguments of each benchmark's quick form.
BENCHES = {
    "cpu": ("--quick", "--no-peers"),
    "peers": ("--quick",),
    "host": ("--quick", "--again", "--no-pictures"),
    "workers": ("--quick",),
    "lookup": ("--quick", "--no-pictures"),
    "channel": ("--quick", "--no-pictures"),
    "spark": ("--quick", "--again", "--no-pictures"),
}
_NUMBER = r"(\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)"
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "million": 1e6, "G": 1e9}
#: A rate (``4.1 M rows/s``), or a time (``3.2 ms``).
_FIGURE = re.compile(rf"{_NUMBER} ?(?:((?:million|[kMG])?) ?[A-Za-z ]*/s|({'|'.join(_SECONDS)}))\b")
#: Seconds of a row's figure, or of one unit of its rate; None where it has neither.
Figures = dict[str, float | None]


def seconds_of(what: str, measured: str) -> float | None:
    """Return a row's figure as seconds, so that more is worse; None if it has none.

    Parameters
    ----------
    what : str
        The row's name, which has the unit of a figure without one.
    measured : str
    """
    plain = re.match(rf"{_NUMBER} \(", measured)
    if plain and "/s" in what:
        return _inverse(plain[1], 1.0)
    thousands = re.search(rf"{_NUMBER} k\b", measured)
    if thousands and "per CPU second" in what + measured:
        return _inverse(thousands[1], 1e3)
    figure = _FIGURE.search(measured)
    if figure is None:
        return None
    number, scale, unit = figure.groups()
    if unit is not None:
        return float(number.replace(",", "")) * _SECONDS[unit] or None
    return _inverse(number, _SCALES[scale])


def _inverse(number: str, scale: float) -> float | None:
    rate = float(number.replace(",", "")) * scale
    return 1 / rate if rate else None


def table_figures(text: str) -> Figures:
    """Return Penstock's rates in tables that were printed, as seconds of a unit."""
    found: Figures = {}
    title, headings = "", []
    for line in text.splitlines():
        if named := re.match(r"\s*(\([a-z]\))", line):
            title = named[1]
        cells = [cell.strip() for cell in re.split("[┃│]", line)[1:-1]]
        if "┃" in line:
            headings = cells
        elif cells and (cells[0].startswith("Penstock") or re.match(r"1e-\d", cells[0])):
            label = " ".join(cell for cell in cells[:2] if re.search("[a-z]", cell))
            for heading, cell in zip(headings, cells, strict=False):
                is_ours = re.search(r"\bG(/s| evaluations/s)$", heading) and " C," not in heading
                if is_ours and re.fullmatch(_NUMBER, cell) and float(cell):
                    found[f"{title} {label.split(' (')[0]}: {heading}"] = 1 / float(cell) / 1e9
    return found


def measured_in(root: Path, name: str) -> Figures:
    """Run a benchmark in a tree; returns the seconds of its rows, none if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *BENCHES[name]],
        capture_output=True,
        text=True,
        cwd=root,
        env={**environment(root), "COLUMNS": "200"},
    )
    if done.returncode:
        sys.stdout.write(f"bench.{name} failed in {root}: {done.stderr[-400:]}\n")
        return {}
    file = root / "build/bench/quick" / f"{name}.json"
    if name == "cpu":
        return table_figures(done.stdout)
    rows = json.loads(file.read_text(encoding="utf-8"))
    # Some names say how many tasks there were, which differs from run to run.
    names = {row["what"]: re.sub(r"of [\d,]+ tasks", "of tasks", row["what"]) for row in rows}
    return {names[row["what"]]: seconds_of(row["what"], row["measured"]) for row in rows}


def compared(revision: str, only: str | None, rounds: int) -> int:
    """Measure and print; returns the exit code."""
    names = only.split(",") if only else list(BENCHES)
    if unknown := set(names) - set(BENCHES):
        raise SystemExit(f"no benchmark {', '.join(unknown)} in the suite: {', '.join(BENCHES)}")
    ratios: list[tuple[float, float]] = []
    with checked_out(revision) as then:
        for name in names:
            turns: Mapping[str, list[Figures]] = {"then": [], "now": [], "again": []}
            for number in range(rounds):
                for side in list(turns)[:: -1 if number % 2 else 1]:
                    turns[side].append(measured_in(then if side == "then" else HERE, name))
            ratios += _shown(name, turns)
    if ratios:
        over, same = (geometric_mean(column) for column in zip(*ratios, strict=True))
        sys.stdout.write(
            f"geometric mean of {len(ratios)} rows: now over then {over:.3f}, "
            f"this tree over itself {same:.3f}\n"
        )
    return 0 if ratios else 1


def _shown(name: str, turns: Mapping[str, list[Figures]]) -> list[tuple[float, float]]:
    """Print a benchmark's rows; returns their ratios, in which more is slower."""
    ratios = []
    for what in dict.fromkeys(what for sides in turns.values() for one in sides for what in one):
        figures = [[s for one in sides if (s := one.get(what))] for sides in turns.values()]
        if not all(figures):
            sys.stdout.write(f"{name:9}not compared: {what}\n")
            continue
        then, now, again = map(median, figures)
        ratios.append((math.sqrt(now * again) / then, again / now))
        sys.stdout.write(
            f"{name:9}{what[:90]:92}{then:10.3g} s then{now:10.3g} s now   "
            f"ratio {ratios[-1][0]:.3f}, same tree {ratios[-1][1]:.3f}\n"
        )
    sys.stdout.flush()
    return ratios
