"""The most that a kernel can be asked to write: every pair matches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import Task
from penstock.program import BandProgram
from penstock.sim.rtl_device import RtlDevice

#: Seconds after which the task counts as hung.
_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class FullOutput:
    """What a task cost of which every pair matches.

    Parameters
    ----------
    units : int
        Units of the kernel, each with a tuple.
    window_flits, records, result_words, cycles : int
        Counts of the task. A record is up to 32 matches, a word up to eight records.
    """

    units: int
    window_flits: int
    records: int
    result_words: int
    cycles: int

    @property
    def tuples_per_cycle(self) -> float:
        """Window tuples per cycle."""
        return self.window_flits / self.cycles

    @property
    def port_use(self) -> float:
        """Share of the cycles in which the result port writes: near 1, it is the limit."""
        return self.result_words / self.cycles


def full_output(device: RtlDevice, window: int = 10_000) -> FullOutput:
    """Run a band task over the whole window, all units loaded, in which every pair matches.

    All pairs are checked to be there, each once.

    Parameters
    ----------
    device : RtlDevice
    window : int
        Window tuples.

    Raises
    ------
    DeviceError
        A pair is missing or there twice, or the results do not fit one task.
    """
    units = device.counters()["units"]
    kernel = device.open(BandProgram(tests=1, table=0b11))
    buffer = kernel.allocate(window)
    buffer.write(0, [np.zeros(window, np.uint32)])
    task = Task(
        [np.zeros(units, np.uint32)] * 2,
        np.zeros(units, np.int64),
        np.full(units, window),
        room=units * window,
    )
    result = kernel.submit(buffer, task).result(_TIMEOUT_S)
    kernel.close()
    if result.pause is not None:
        raise DeviceError(f"results of {window} window tuples do not fit; take a shorter window")
    pairs = np.sort(result.i.astype(np.int64) * window + result.j)
    if not np.array_equal(pairs, np.arange(units * window)):
        raise DeviceError("the kernel lost a pair or wrote one twice")
    counts = result.counters
    return FullOutput(
        units, counts["window_flits"], counts["records"], counts["result_words"], counts["cycles"]
    )
