"""Cycles of tasks on the Verilated kernels, ours and the paper's.

Cycles do not depend on how a comparison is written, so kernels are built with ``fast``: Verilator
takes many minutes to compile the carry chains of 512 units.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.store import Store, sources
from penstock.errors import PenstockError
from penstock.host.device.base import Task
from penstock.host.device.registry import open_device
from penstock.program import BandProgram, Mode

PROGRAM = BandProgram(tests=2, table=0b1000, key_bits=32)

#: Keys are in [0, SPAN).
SPAN = 1 << 24

#: Window tuples whose matches are counted at a time.
_CHUNK = 1024


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
    """Counters of the task, window tuples per cycle, seconds; or why it could not be run."""
    step = {"what": "cycles", **asdict(run)}
    options = {"units": run.units, "latency_cycles": run.latency_cycles, "fast": not run.exact}
    with open_device(run.device, **options) as device:
        mode = Mode(run.mode)
        modes = frozenset({Mode.PAIRS, mode})
        if reason := device.refuses(PROGRAM, modes):
            return {"refused": reason}
        return store.get(step, sources(), lambda: _measure(device, run, mode, modes))


def _measure(device: Any, run: Run, mode: Mode, modes: frozenset[Mode]) -> dict[str, Any]:
    stream, window = _keys(run)
    kernel = device.open(PROGRAM, modes)
    buffer = kernel.allocate(run.window_tuples)
    buffer.write(0, window)
    rows = run.stream_tuples
    whole = np.zeros(rows, np.int64), np.full(rows, run.window_tuples)
    task = Task(stream, *whole, room=rows * run.window_tuples, mode=mode)
    began = time.perf_counter()
    result = kernel.submit(buffer, task).result()
    seconds = time.perf_counter() - began
    kernel.close()
    if result.pause is not None:
        return {"refused": "its results need more room than a task has"}
    expected = _matches(stream, window)
    found = len(result.i) if result.folds is None else int(result.folds.value.sum())
    if found != expected:
        raise PenstockError(f"{run} found {found} matches, not {expected}; the device is wrong")
    counters = {name: int(value) for name, value in result.counters.items()}
    return {
        "per_cycle": counters["window_flits"] / counters["cycles"],
        "matches": found,
        "evaluations_per_s": counters["evaluations"] / seconds,
        "seconds": seconds,
        "counters": counters,
    }


def _keys(run: Run) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Stream bounds and window keys; a pair matches with the run's selectivity."""
    rng = np.random.default_rng(1)
    window = [rng.integers(0, SPAN, run.window_tuples, np.uint32) for _ in range(2)]
    width = round(SPAN * run.selectivity**0.5)
    stream = []
    for _ in range(2):
        lo = rng.integers(0, SPAN - width + 1, run.stream_tuples, np.uint32)
        # Without matches the range is empty: its end lies before its start.
        stream += [lo + 1, lo] if width == 0 else [lo, lo + np.uint32(width - 1)]
    return stream, window


def _matches(stream: list[np.ndarray], window: list[np.ndarray]) -> int:
    """Matches by brute force."""
    count = 0
    for at in range(0, len(window[0]), _CHUNK):
        met = True
        for test, keys in enumerate(window):
            part = keys[at : at + _CHUNK, None]
            met = met & (stream[2 * test] <= part) & (part <= stream[2 * test + 1])
        count += int(np.count_nonzero(met))
    return count
