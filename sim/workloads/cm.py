"""Events of a cluster's tasks: the benchmark CM of the Slash paper, in the shape of Google's trace.

The paper (§8.1.2) has records of 64 bytes of a cluster of 12,500 machines, and the mean CPU of each
job in tumbling windows of 2 s. Decided: the columns of the trace's task events, generated, since a
seed makes any length of them; shares of jobs fall by Zipf's law with 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .draws import Zipf
from .slots import Slot, steady_times
from .tumbling import TumblingGroups
from .workload import TIMESTAMP_MS, Columns, check

#: 64 bytes.
TASKS = pa.schema(
    [
        ("t", TIMESTAMP_MS),
        ("job", pa.int64()),
        ("task", pa.int64()),
        ("machine", pa.int64()),
        ("event", pa.int32()),
        ("user", pa.int32()),
        ("category", pa.int32()),
        ("priority", pa.int32()),
        ("cpu", pa.float32()),
        ("ram", pa.float32()),
        ("disk", pa.float32()),
        ("constraints", pa.int32()),
    ]
)

MACHINES = 12_500
_TASKS_PER_JOB, _USERS = 1_000, 900
#: Kinds of events, scheduling classes and priorities in the trace.
_EVENTS, _CATEGORIES, _PRIORITIES = 9, 4, 12
#: Resources are parts of the largest machine's, in steps that sums of floats hold exactly, so a
#: mean does not depend on the order of rows.
_STEPS = 1024


@dataclass(frozen=True, kw_only=True)
class CM(TumblingGroups):
    """Stream ``tasks``.

    Columns: ``t`` is the event time in ms, at even distances; ``job`` has its share by Zipf's law,
    and ``user``, ``category`` and ``priority`` belong to it; ``task`` and ``machine`` are uniform;
    ``event`` is the number of a kind, uniform; ``cpu``, ``ram`` and ``disk`` are parts of the
    largest machine's, 0 to 1, mostly small; ``constraints`` is 0 or 1.

    Parameters
    ----------
    jobs : int
    skew : float
        Zipf exponent of the jobs; 0 is even.
    """

    STREAM, SCHEMA = "tasks", TASKS
    KEY, AGGREGATE = "job", "avg(cpu) AS cpu"

    jobs: int = 100_000
    skew: float = 1.2
    window_s: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check("jobs", self.jobs, low=1, high=1 << 31)
        check("skew", self.skew, low=0, high=10)

    def _fill(self, stream: str, slot: Slot) -> Columns:
        rng, ts = slot.rng, steady_times(slot, self.rate)
        count = len(ts)
        job = self._jobs.keys(rng, count)
        return {
            "ts": ts,
            "job": job,
            "task": rng.integers(0, _TASKS_PER_JOB, count),
            "machine": rng.integers(0, MACHINES, count),
            "event": rng.integers(0, _EVENTS, count, dtype=np.int32),
            "user": job % _USERS,
            "category": job % _CATEGORIES,
            "priority": job % _PRIORITIES,
            "cpu": _parts(rng, count),
            "ram": _parts(rng, count),
            "disk": _parts(rng, count),
            "constraints": rng.integers(0, 2, count, dtype=np.int32),
        }

    @cached_property
    def _jobs(self) -> Zipf:
        return Zipf(self.jobs, self.skew)


def _parts(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    """Parts from 0 to 1, in steps; the square of what is even, so half are below a quarter."""
    return (np.rint(rng.random(count) ** 2 * _STEPS) / _STEPS).astype(np.float32)
