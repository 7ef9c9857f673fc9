"""Orders that are too small for a lane's thread."""

from __future__ import annotations

from concurrent.futures import Future

import pyarrow as pa
import pytest

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Kernel, Result, Task, WindowBuffer
from penstock.host.device.wrapped import WrappedBuffer, WrappedDevice, WrappedKernel
from penstock.host.devices.cpu import CpuDevice
from penstock.host.join.stream import JoinStream
from penstock.program import Mode, Program
from penstock.query import compile_query

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int32())])
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
#: In band form, and in the general form.
ONS = ("a.x = b.x", "a.x * b.x < 9")


class Counting(WrappedDevice):
    """Counts tasks in the calling thread, which may fail, and those in others."""

    runs_here = True

    def __init__(self, inner: CpuDevice, *, fails: bool) -> None:
        super().__init__(inner)
        self.fails = fails
        self.here = self.elsewhere = 0

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return _Kernel(self, self.inner.open(program, modes))


class _Kernel(WrappedKernel):
    def __init__(self, device: Counting, inner: Kernel) -> None:
        super().__init__(inner)
        self.device = device
        self.here_evaluations = inner.here_evaluations

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        self.device.elsewhere += 1
        return super().submit(window, task)

    def run(self, window: WindowBuffer, task: Task) -> Result:
        self.device.here += 1
        if self.device.fails:
            raise DeviceError("not here")
        assert isinstance(window, WrappedBuffer)
        return self.inner.run(window.inner, task)


@pytest.mark.parametrize("on", ONS)
@pytest.mark.parametrize("fails", [False, True])
def test_small_orders_run_in_the_streams_own_thread(on: str, fails: bool) -> None:
    query = compile_query(
        f"SELECT a.t FROM a JOIN b ON {on} AND a.t = b.t", SCHEMAS, time={"a": "t", "b": "t"}
    )
    with CpuDevice(threads=2) as cpu:
        device = Counting(cpu, fails=fails)
        with JoinStream(query, SCHEMAS, device) as stream:
            for time in range(5):
                columns = [pa.array([time] * 3), pa.array([1, 2, 2], pa.int32())]
                for name in "ab":
                    stream.push(name, pa.record_batch(columns, schema=SCHEMA))
            assert stream.close().num_rows == 5 * (5 if on == ONS[0] else 9)
    # Only what loads a program goes to a lane, and what fails here.
    assert device.here >= 3
    assert device.elsewhere == (5 if fails else 5 - device.here)
