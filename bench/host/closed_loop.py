"""A join under tuples that come as fast as they are taken."""

from __future__ import annotations

import math
import time

from bench.host.traffic import Tick, Traffic
from penstock.errors import DeviceError
from penstock.host.device.base import Device
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.model.load import Load

#: Intervals' worth of bytes that wait at most, some three of tuples, which count with their keys; a
#: batch is 60 % of what waits.
_WAITING = 6
#: Seconds that room for tuples is waited for.
_ROOM_S = 60.0


def sustained_per_s(device: Device, traffic: Traffic, latency_s: float, measured_s: float) -> float:
    """Rate at which arriving and joining keep step, about.

    A run at rate T by the tuples' times joins R tuples per second. Evaluations go with R·T, so the
    rate at which both are equal is near their geometric mean.

    Parameters
    ----------
    device : Device
    traffic : Traffic
        At a rate that is near the one in question.
    latency_s : float
        Latency target, which says how large batches are.
    measured_s : float
        Seconds by the tuples' times, after two windows.
    """
    joined = _joined_per_s(device, traffic, traffic.load(latency_s), measured_s)
    return math.sqrt(traffic.rate_per_s * joined)


def _joined_per_s(device: Device, traffic: Traffic, load: Load, measured_s: float) -> float:
    warm_s = 2 * traffic.window_s
    ticks = list(traffic.ticks(warm_s + measured_s, load.interval_s))
    # Each pair in the window is evaluated, as the model has it.
    flow = Flow(latency_s=load.latency_s, running=Running(pruning=False))
    with JoinStream(traffic.query(), traffic.schemas, device, flow=flow) as stream:
        warm = round(warm_s / load.interval_s)
        for tick in ticks[:warm]:
            _push(stream, tick)
        stream.flush()
        began = time.perf_counter()
        tuples = sum(_push(stream, tick) for tick in ticks[warm:])
        stream.flush()
        return tuples / (time.perf_counter() - began)


def _push(stream: JoinStream, tick: Tick) -> int:
    """Push a tick when few tuples wait; returns its tuples."""
    room = (_WAITING - 1) * sum(batch.nbytes for batch in tick.batches.values())
    if not stream.wait_for(lambda: stream.budget.parts().get("waiting", 0) <= room, _ROOM_S):
        raise DeviceError(f"the join took none of the waiting tuples within {_ROOM_S:g} s")
    for source, batch in tick.batches.items():
        stream.push(source, batch)
    stream.poll()
    return sum(batch.num_rows for batch in tick.batches.values())
