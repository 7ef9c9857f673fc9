"""Rates of the window join in steady state: cycles per tuple, share admitted, results per cycle.

The exported Verilog runs in Verilator. Windows are full before anything is measured, and each run's
results are compared with those that the admitted tuples must have.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from bench.store import Store
from penstock.errors import PenstockError
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.export import export
from penstock.hw.window.layout import Side
from penstock.sim.verilated.compile_kernel import cache_folder
from penstock.sim.window.verilated import NEVER, Outcome, Stream, VerilatedJoin

#: Width of codes and payloads.
_BITS = 16

#: Tuples that are admitted at full windows before the steady state begins.
_WARM_UP = 2


@dataclass(frozen=True, kw_only=True)
class Run:
    """A build, and streams with a fixed interval and an exact selectivity.

    Parameters
    ----------
    depth, banks, outputs, records, parallel
        See :class:`penstock.hw.window.config.WindowConfig`.
    rows : int
        Size of both windows.
    interval : int
        Cycles between tuples of a side, under admission control; 0 for tuples that wait in line,
        under back-pressure.
    hits, period : int
        Of ``period`` tuples in a window ``hits`` are joined.
    spread : str
        How these lie in the stream: ``even``, ``bunched`` (all in a row) or ``random``.
    tuples : int
        Tuples to admit in steady state, per side.
    """

    depth: int
    banks: int = 1
    outputs: int = 1
    records: int = 16
    parallel: bool = True
    rows: int
    interval: int = 0
    hits: int = 0
    period: int = 10
    spread: str = "even"
    tuples: int = 10

    @property
    def selectivity(self) -> float:
        """Share of the pairs that are joined."""
        return self.hits / self.period

    @property
    def config(self) -> WindowConfig:
        """The build: one band test, so that any share of the pairs can be joined."""
        return WindowConfig(
            depth=self.depth,
            banks=self.banks,
            tests=1,
            key_bits=_BITS,
            payload_a_bits=_BITS,
            payload_b_bits=_BITS,
            outputs=self.outputs,
            records=self.records,
            parallel=self.parallel,
        )


class Rates:
    """Measures runs and keeps what they gave."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._joins: dict[WindowConfig, tuple[VerilatedJoin, str]] = {}

    def measure(self, run: Run) -> dict[str, Any]:
        """What a run gave.

        Returns
        -------
        dict
            ``cycles`` from one admitted tuple of a side to the next, ``admitted`` (share of the
            tuples that arrived), ``results`` per cycle, and ``longest``, the most cycles between
            two tuples.

        Raises
        ------
        PenstockError
            A result is missing or too many.
        """
        config = run.config
        if config not in self._joins:
            self._joins[config] = VerilatedJoin(config), _content(config)
        join, content = self._joins[config]
        step = {"what": "rate", **asdict(run)}
        return self.store.get(step, content, lambda: _measure(join, run))


def _content(config: WindowConfig) -> str:
    """Hash of what is simulated."""
    harness = files("penstock.sim.window").joinpath("harness.cpp").read_text(encoding="utf-8")
    text = export(config, cache=cache_folder()) + harness
    return hashlib.sha256(text.encode()).hexdigest()


def _measure(join: VerilatedJoin, run: Run) -> dict[str, Any]:
    rows, config = run.rows, run.config
    # What a tuple takes at most; both sides one after the other in a sequential build.
    most = max(2 * rows * run.selectivity, config.round_cycles(rows, rows)) * (2 - run.parallel)
    arrivals = run.tuples + _WARM_UP
    if run.interval:
        # As many as arrive while so many are admitted.
        arrivals = round(arrivals * max(most / run.interval, 1)) + 1
    # While windows are filled, tuples come no faster than empty rounds take them, two cycles each.
    pace = 2 if run.parallel else 4
    fill = pace * rows + 100
    due = np.concatenate([pace * np.arange(rows), fill + 50 + run.interval * np.arange(arrivals)])
    hit = {side: _codes(run, side, rows + arrivals) for side in Side}
    bounds = [0, run.hits - 1] if run.hits else [1, 0]
    streams = {
        side: Stream(
            due,
            {
                "payload": np.arange(len(due)) % (1 << _BITS),
                "window": hit[side],
                "probe": np.tile(bounds, (len(due), 1)),
            },
        )
        for side in Side
    }
    limit = int(due[-1] + 3 * (arrivals + 2) * most)
    out = join.run(
        streams,
        rows=(rows, rows),
        fill=fill,
        limit=limit,
        room=int(2 * arrivals * rows * run.selectivity * 1.2) + 1000,
        shed=run.interval > 0,
        tables=(0b10, 0b10),
    )
    if not out.finished:
        raise PenstockError(f"{run} did not end within {limit} cycles; the operator hangs")
    _check(run, out, {side: codes < run.hits for side, codes in hit.items()})
    return _steady(run, out)


def _codes(run: Run, side: Side, count: int) -> np.ndarray:
    """Codes of a stream; those below ``hits`` are joined."""
    number = np.arange(count)
    if run.spread == "even":
        # Of any ``period`` neighbours, and as evenly as whole numbers allow.
        return number * max(run.hits, 1) % run.period
    if run.spread == "bunched":
        return number % run.period
    return np.random.default_rng(side.value).integers(0, run.period, count)


def _check(run: Run, out: Outcome, hit: dict[Side, np.ndarray]) -> None:
    """Each tuple has as many results as brute force finds for it; those of the filling have none.

    A window tuple is joined if it is a hit, whatever the tuple that arrives.
    """
    cycles = {side: out.admitted[side] for side in Side}
    admitted = {side: np.flatnonzero(cycles[side] != NEVER) for side in Side}
    for side in Side:
        found = out.a if side is Side.A else out.b
        found = np.bincount(found[out.later == side.value].astype(np.int64), minlength=1 << _BITS)
        other = admitted[side.other]
        own = admitted[side][admitted[side] >= run.rows]
        before = np.searchsorted(
            cycles[side.other][other],
            cycles[side][own],
            # A tuple of A that is written in the same cycle was first.
            side="left" if side is Side.A else "right",
        )
        sums = np.concatenate([[0], np.cumsum(hit[side.other][other])])
        wanted = np.zeros(1 << _BITS, np.int64)
        counts = sums[before] - sums[np.maximum(before - run.rows, 0)]
        np.add.at(wanted, own % (1 << _BITS), counts)
        if not np.array_equal(found, wanted):
            raise PenstockError(
                f"{run} gave {found.sum()} results of side {side.name}, not {wanted.sum()}; "
                "the operator is wrong"
            )


def _steady(run: Run, out: Outcome) -> dict[str, Any]:
    spacing, admitted, arrived = [], 0, 0
    for side in Side:
        at = out.admitted[side][run.rows :]
        taken = np.flatnonzero(at != NEVER)[_WARM_UP:]
        # From one admitted tuple to another; tuples between were dropped.
        spacing += np.diff(at[taken]).astype(np.int64).tolist()
        admitted += len(taken) - 1
        arrived += int(taken[-1] - taken[0])
    mean = float(np.mean(spacing))
    per_tuple = 2 * run.rows * run.selectivity
    return {
        "cycles": mean,
        "longest": max(spacing),
        "admitted": admitted / arrived,
        "results": per_tuple / mean,
        "total_cycles": out.cycles,
        "waits": out.waits,
    }
