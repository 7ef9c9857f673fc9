"""How far a process grows whose join has a memory budget and a consumer that has stopped.

``python -m bench.host.memory``: a fresh process for each budget and latency target. It joins a
little to warm up, then pushes for as long as asked while nobody polls, and says how far its
resident memory grew at most; then it polls for a while. Exit code 1 if a process grew by more than
its budget and 64 MiB, or gave no more rows.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.host.rss import resident_bytes
from penstock.errors import OverloadError
from penstock.host.device.base import Device
from penstock.host.devices.cpu import CpuDevice
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.query import compile_query

#: What a process may grow by beyond its budget: fragments, stacks, what is on its way.
ALLOWED_BYTES = 64 << 20
#: Budgets, in bytes, and latency targets, in seconds.
BUDGETS, LATENCIES_S = (64 << 20, 512 << 20), (0.0, 0.02)
SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int32()), ("note", pa.string())])
#: Each tuple meets a twentieth of those of the other side in the last 20,000.
QUERY = """SELECT a.t AS ta, b.t AS tb, a.x - b.x AS d, {note} FROM a JOIN b
ON abs(a.x - b.x) < 26 AND b.t BETWEEN a.t - 20000 AND a.t + 20000"""
#: What else a row has: nothing, or text of both sides.
NOTES = {"numbers": "a.x AS x", "text": "a.note AS note, b.note AS other"}
#: Rows that the join still gives when it is polled again, at least.
LEAST_ROWS = 250_000
#: Tuples of one push.
ROWS = 2000
_CLEAR_HIGHEST = Path("/proc/self/clear_refs")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One process.

    Parameters
    ----------
    memory_bytes : int
    latency_s : float
    seconds : float
        How long the consumer stands still.
    ordered : bool
    rows : str
        A key of :data:`NOTES`.
    """

    memory_bytes: int
    latency_s: float
    seconds: float
    ordered: bool = False
    rows: str = "numbers"


@dataclass(frozen=True)
class Outcome:
    """What became of it."""

    #: Most that the process grew by, and what was counted then.
    grown_bytes: int
    counted_bytes: int
    pushed: int
    refused: int
    #: Rows that were polled in the end, to see that the join goes on.
    rows: int

    def within(self, plan: Plan) -> bool:
        """Whether the process stayed within its budget, and goes on when it is polled."""
        is_small = self.grown_bytes <= plan.memory_bytes + ALLOWED_BYTES
        return is_small and self.rows >= LEAST_ROWS


def run(plan: Plan) -> Outcome:
    """Run a plan in this process, which should be a fresh one."""
    device = CpuDevice()
    warm = Plan(memory_bytes=32 << 20, latency_s=0.0, seconds=0.5)
    with _opened(device, warm) as stream:
        _push(stream, warm.seconds)
    del stream
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes()
    _CLEAR_HIGHEST.write_text("5")
    stream = _opened(device, plan)
    pushed, refused = _push(stream, plan.seconds)
    grown, counted, rows = _highest_bytes() - before, stream.budget.highest, 0
    while rows < LEAST_ROWS and stream.wait(1, 10.0):
        rows += stream.poll().num_rows
    return Outcome(grown, counted, pushed, refused, rows)


def measured(plan: Plan) -> Outcome:
    """Run a plan in a fresh process."""
    command = [sys.executable, "-m", "bench.host.memory", "--one", json.dumps(asdict(plan))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Outcome(**json.loads(done.stdout))


def _opened(device: Device, plan: Plan) -> JoinStream:
    query = QUERY.format(note=NOTES[plan.rows])
    schemas = {"a": SCHEMA, "b": SCHEMA}
    flow = Flow(
        latency_s=plan.latency_s,
        memory_bytes=plan.memory_bytes,
        push_timeout_s=0.05,
        running=Running(ordered=plan.ordered),
    )
    compiled = compile_query(query, schemas, time={"a": "t", "b": "t"})
    return JoinStream(compiled, schemas, device, flow=flow)


def _push(stream: JoinStream, seconds: float) -> tuple[int, int]:
    """Push for so long; batches that were taken, and times that one was refused."""
    pushed = refused = 0
    batches, until = _batches(), time.monotonic() + seconds
    waiting = next(batches)
    while time.monotonic() < until:
        try:
            stream.push(*waiting)
            waiting = next(batches)
            pushed += 1
        except OverloadError:
            refused += 1
    return pushed, refused


def _batches() -> Iterator[tuple[str, pa.RecordBatch]]:
    rng = np.random.default_rng(1)
    for k in count():
        for name in "ab":
            x = rng.integers(0, 1000, ROWS, np.int32)
            columns = [np.arange(k * ROWS, (k + 1) * ROWS), x, [f"{n} of {name}" for n in x]]
            yield name, pa.record_batch([pa.array(c) for c in columns], schema=SCHEMA)


def _highest_bytes() -> int:
    """Most resident memory since it was cleared."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10


def main() -> int:
    """Run from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.host.memory", description=__doc__)
    parser.add_argument("--one", help="a plan as JSON, to be run in this process")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--budgets", type=int, nargs="*", help="MiB")
    options = parser.parse_args()
    if options.one:
        sys.stdout.write(json.dumps(asdict(run(Plan(**json.loads(options.one))))))
        sys.stdout.flush()
        os._exit(0)  # to join all that waits would take long, and more memory
    budgets = [size << 20 for size in options.budgets] if options.budgets else BUDGETS
    plans = [
        Plan(memory_bytes=size, latency_s=latency_s, seconds=options.seconds, **more)
        for size in budgets
        for latency_s in LATENCIES_S
        for more in ({}, {"ordered": True}, {"rows": "text"})
    ]
    within = True
    for plan in plans:
        found = measured(plan)
        within &= found.within(plan)
        sys.stdout.write(
            f"{plan.memory_bytes >> 20} MiB, target {plan.latency_s * 1e3:g} ms, "
            f"{'ordered ' if plan.ordered else ''}{plan.rows}: grew by "
            f"{found.grown_bytes / 2**20:.0f} MiB ({found.counted_bytes / 2**20:.0f} counted), "
            f"{found.pushed} batches taken, {found.refused} times refused, {found.rows:,} rows"
            f"{'' if found.within(plan) else ': TOO MUCH'}\n"
        )
        sys.stdout.flush()
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
