"""Cycles of tasks on the Verilated kernels, ours and the paper's.

Cycles do not depend on how a comparison is written, so kernels are built with ``fast``: Verilator
takes many minutes to compile the carry chains of 512 units.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.store import Store, sources
from penstock.host.device.base import PAIRS
from penstock.host.device.registry import open_device
from penstock.program import BandProgram, Mode
from penstock.sim.measure import band_keys, run_whole

PROGRAM = BandProgram(tests=2, table=0b1000, key_bits=32)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A task, and what it runs on.

    Parameters
    ----------
    device : str
        ``rtl``, or ``fjoin`` for the paper's pipeline.
    units, stream_tuples, window_tuples : int
        Each stream tuple meets the whole window.
    selectivity : float
        Share of the pairs that match.
    latency_cycles : int
        Of the memory, whose ports take a 512-bit word per cycle.
    mode : str
        Name of a mode.
    exact : bool
        Simulate the exported Verilog to the letter, carry chains included.
    """

    device: str = "rtl"
    units: int
    stream_tuples: int
    window_tuples: int
    selectivity: float = 0.0
    latency_cycles: int = 0
    mode: str = Mode.PAIRS.value
    exact: bool = False


def measure(store: Store, run: Run) -> dict[str, Any]:
    """What the task cost; or why it could not be run.

    Returns
    -------
    dict
        ``per_cycle``, ``matches``, ``evaluations_per_s``, ``seconds``, ``counters``, and the number
        of device ``tasks``, more than one where results paused it. Or ``refused``.
    """
    step = {"what": "cycles", **asdict(run)}
    mode = Mode(run.mode)
    options = {"units": run.units, "latency_cycles": run.latency_cycles, "fast": not run.exact}
    with open_device(run.device, **options) as device:
        if reason := device.refuses(PROGRAM, PAIRS | {mode}):
            return {"refused": reason}

        def cost() -> dict[str, Any]:
            rng = np.random.default_rng(1)
            sizes = run.stream_tuples, run.window_tuples
            keys = band_keys(rng, PROGRAM, *sizes, run.selectivity)
            found = run_whole(device, PROGRAM, *keys, mode)
            rates = {"per_cycle": found.per_cycle, "evaluations_per_s": found.evaluations_per_s}
            return {**asdict(found), **rates}

        return store.get(step, sources(), cost)
