"""The key-splitting paper's figures 3 to 8 redrawn: ``python -m bench.routing.figures [--quick]``.

All methods run on the same tuples, on nodes in one process, and give the rows that one node gives.
A node's time is what it did, counted, times the costs of a calibrated core of this machine. TPC-H's
columns at scale factor 0.1, foreign keys by Zipf's law; PENSTOCK_DATA adds real streams. Pictures
and the table of claims go to ``build/bench``. ``--quick`` takes a tenth of the rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.command import Titles, run
from bench.pictures import save
from bench.routing.claims import Found, Joins, claims
from bench.routing.paper import (
    BATCHES,
    COUNT_METHODS,
    JOIN_METHODS,
    NODES,
    QUERIES,
    WINDOW,
    counted,
    joined,
    nodes_used,
    plan_seconds,
    real_keys,
    zipf_topics,
)
from bench.rows import Row
from penstock.host.devices.cpu import CpuDevice
from penstock.host.model.cpu import calibrate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = {"MNRT": "o-", "QMMP": "s-", "Readj": "^--", "hash": "x:", "Dynamic": "D-", "Bi": "v-",
          "Bi6": "<-", "PKG": "D-", "D-Choices": "v--", "W-Choices": "<--"}  # fmt: skip
#: One colour for each method in all pictures.
_COLOURS = {name: f"C{k}" for k, name in enumerate(_MARKS)}
_NOTE = "node time: counted tuples, evaluations and rows x the costs of a calibrated core"


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.routing.figures", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    options = parser.parse_args(argv)
    titles = Titles(
        name="routing_figures", text=__doc__ or "", title="Key splitting: the paper's claims",
        baseline="",
    )  # fmt: skip
    return run(
        titles, lambda on_row: _Report(options.quick, on_row), quick=options.quick, pictures=True
    )


class _Report:
    """Runs the experiments, once."""

    def __init__(self, quick: bool, on_row: Callable[[Row], None]) -> None:
        self.rows: list[Row] = []
        self._on_row = on_row
        self._scale = 0.01 if quick else 0.1
        self._exponents = (0.0, 0.8, 1.5, 2.0) if quick else (0.0, 0.4, 0.8, 1.2, 1.5, 2.0)
        self._costs = calibrate(CpuDevice(threads=1))

    def measure(self) -> None:
        """Print each claim as held or not."""
        for text, held, numbers in claims(self.found):
            verdict = "held" if held else "not held"
            row = Row(text, f"{verdict}: {numbers}", values={"held": held, "numbers": numbers})
            self.rows.append(row)
            self._on_row(row)

    @cached_property
    def found(self) -> Found:
        """All runs."""
        return Found(
            self._joins(None), self._joins(WINDOW), self._used, self._plans(), self._counts()
        )

    def _joins(self, window: int | None) -> Joins:
        return {
            query: {
                name: {
                    z: joined(made(self._scale, z, 1), name, NODES, self._costs, window)
                    for z in self._exponents
                }
                for name in JOIN_METHODS
            }
            for query, made in QUERIES.items()
        }

    @cached_property
    def _used(self) -> dict[str, list[int]]:
        streams = QUERIES["EQ5"](self._scale, 0.8, 1)
        return {name: nodes_used(streams, name, 1 / 12) for name in JOIN_METHODS if name not in (
            "hash", "Readj")}  # fmt: skip

    def _plans(self) -> dict[str, dict[float, float]]:
        keys, known = zipf_topics(0.8, round(1e7 * self._scale))
        tolerances = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
        return {
            name: {t: plan_seconds(keys, known, name, t) for t in tolerances}
            for name in ("QMMP", "MNRT", "Readj")
        }

    def _counts(self) -> dict:
        rows = round(1e7 * self._scale)
        return {
            name: {z: counted(*zipf_topics(z, rows), name, self._costs) for z in self._exponents}
            for name in COUNT_METHODS
        }

    # -- pictures ---------------------------------------------------------------------------------

    def draw(self, out: Path) -> list[Path]:
        """Write all pictures; returns their paths."""
        from matplotlib import pyplot as plt

        def two() -> tuple[Figure, np.ndarray]:
            return plt.subplots(1, 2, figsize=(11.5, 4.4), layout="constrained")

        found, time_s = self.found, "execution time, s"
        rebalance_s = "time to rebalance after growing, s"
        received = f"tuples a node received, window {WINDOW} of {BATCHES} batches"
        return save(
            {
                "routing_3": lambda: self._by_query(two(), found.full, "seconds", time_s),
                "routing_4": lambda: self._nodes(plt.subplots(figsize=(6.5, 4.4))),
                "routing_5": lambda: self._by_query(two(), found.full, "rebalance_s", rebalance_s),
                "routing_6": lambda: self._by_query(two(), found.windowed, "received", received),
                "routing_7": lambda: self._plan_times(plt.subplots(figsize=(6.5, 4.4))),
                "routing_8": lambda: self._topics(two()),
                "routing_nodes": lambda: self._scaling(two()),
                "routing_real": lambda: self._real(two()),
            },
            out,
        )

    def _by_query(
        self, made: tuple[Figure, np.ndarray], joins: Joins, what: str, label: str
    ) -> Figure:
        figure, both = made
        for axes, (query, runs) in zip(both, joins.items(), strict=True):
            for name, by_exponent in runs.items():
                if what == "rebalance_s" and name == "hash":
                    continue
                values = [getattr(run, what) for run in by_exponent.values()]
                axes.plot(list(by_exponent), values, _MARKS[name], color=_COLOURS[name], label=name)
            _finish(
                axes, f"{query}, {NODES} nodes (Bi6 at least 12)", "exponent of Zipf's law", label
            )
            axes.set_yscale("log")
        return _noted(figure)

    def _nodes(self, made: tuple[Figure, Axes]) -> Figure:
        figure, axes = made
        for name, used in self.found.used.items():
            axes.plot(
                np.arange(1, BATCHES + 1) / BATCHES,
                used,
                _MARKS[name],
                color=_COLOURS[name],
                label=name,
            )
        _finish(
            axes,
            "EQ5, exponent 0.8; a node holds 1/12 of all tuples",
            "share of the data that is loaded",
            "nodes",
        )
        axes.set_yscale("log", base=2)
        return figure

    def _plan_times(self, made: tuple[Figure, Axes]) -> Figure:
        figure, axes = made
        for name, by_tolerance in self.found.plans.items():
            values = [1e3 * value for value in by_tolerance.values()]
            axes.plot(list(by_tolerance), values, _MARKS[name], color=_COLOURS[name], label=name)
        _finish(
            axes, f"10,000 topics, exponent 0.8, {NODES} nodes", "tolerance", "time of a plan, ms"
        )
        axes.set_yscale("log")
        return figure

    def _topics(self, made: tuple[Figure, np.ndarray]) -> Figure:
        figure, (rate, late) = made
        for name, runs in self.found.counts.items():
            zs = list(runs)
            rate.plot(
                zs,
                [r.per_s / 1e6 for r in runs.values()],
                _MARKS[name],
                color=_COLOURS[name],
                label=name,
            )
            late.plot(
                zs,
                [1e3 * r.latency_s for r in runs.values()],
                _MARKS[name],
                color=_COLOURS[name],
                label=name,
            )
        title = f"10,000 topics, {NODES} nodes, tolerance 0.05"
        _finish(rate, title, "exponent of Zipf's law", "million tuples/s")
        _finish(late, title, "exponent of Zipf's law", "batch and merge, ms")
        late.set_yscale("log")
        return _noted(figure)

    def _scaling(self, made: tuple[Figure, np.ndarray]) -> Figure:
        figure, both = made
        for axes, (query, streams) in zip(both, QUERIES.items(), strict=True):
            tuples = streams(self._scale, 0.8, 1)
            for name in JOIN_METHODS:
                counts = [n for n in (4, 8, 16, 32, 64) if name != "Bi6" or n >= 16]
                times = [joined(tuples, name, n, self._costs).seconds for n in counts]
                axes.plot(counts, times, _MARKS[name], color=_COLOURS[name], label=name)
            _finish(axes, f"{query}, exponent 0.8", "nodes", "execution time, s")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
        return _noted(figure)

    def _real(self, made: tuple[Figure, np.ndarray]) -> Figure:
        figure, (rate, late) = made
        names = []
        for number, (name, keys, known) in enumerate(real_keys()):
            names.append(name)
            for k, method in enumerate(COUNT_METHODS):
                found = counted(keys, known, method, self._costs)
                at, label = number + (k - 3) / 10, method if not number else None
                rate.bar(at, found.per_s / 1e6, 0.1, color=_COLOURS[method], label=label)
                late.bar(at, 1e3 * found.latency_s, 0.1, color=_COLOURS[method], label=label)
        for axes, what in ((rate, "million tuples/s"), (late, "batch and merge, ms")):
            _finish(
                axes,
                "real streams, counted by key" if names else "PENSTOCK_DATA is not set",
                "",
                what,
            )
            axes.set_xticks(range(len(names)), names)
        return _noted(figure)


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8, ncols=2)


def _noted(figure: Figure) -> Figure:
    figure.text(0.01, -0.03, _NOTE, fontsize=8)
    return figure


if __name__ == "__main__":
    sys.exit(main())
