from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.host.device.base import Pause, Task
from penstock.host.devices.narrow.kernel import NarrowKernel
from penstock.hw.join.flit import Kind
from penstock.program import BandProgram, GeneralProgram
from penstock.sim.amaranth_device import AmaranthDevice
from penstock.types import FLOAT64, int_of

BAND = BandProgram(tests=1, table=0b10, key_bits=16)


def task(start, end, *, room=1 << 20, low=0, high=100):
    n = len(start)
    keys = [np.full(n, low, np.uint16), np.full(n, high, np.uint16)]
    return Task(keys, np.array(start), np.array(end), room)


def opened(device, window=20):
    kernel = device.open(BAND)
    buffer = kernel.allocate(window)
    buffer.write(0, [np.arange(window, dtype=np.uint16)])
    return kernel, buffer


def test_bad_units():
    with pytest.raises(ValueError, match="units must be 2 to 65536, not 1"):
        AmaranthDevice(units=1)
    with pytest.raises(TypeError, match="units must be an integer, not 'many'"):
        AmaranthDevice(units="many")


def test_bits_of_units():
    with pytest.raises(
        DeviceError, match="amaranth has units of 8, 16, 24, 32, 48, 64 bits, not 17"
    ):
        AmaranthDevice(key_bits=17)
    wide = BandProgram(tests=1, table=0b10, key_bits=32)
    with AmaranthDevice(units=2, key_bits=16) as device:
        assert device.narrow_widths == (16,)
        assert device.open(wide).bits == 16
    with AmaranthDevice(units=2) as device:
        assert device.narrow_widths == (16, 24)
        assert not isinstance(device.open(wide), NarrowKernel)
        assert device.open(replace(wide, unit_bits=24)).bits == 24


def test_refuses_floats():
    dtype = FLOAT64.as_nullable(False)
    predicate = ops.lt(ops.key("s", 0, dtype), ops.key("w", 0, dtype))
    program = GeneralProgram((dtype,), (dtype,), predicate)
    with AmaranthDevice() as device:
        assert "declare a fixed-point scale" in device.refuses(program)
        with pytest.raises(DeviceError, match="the amaranth device cannot run this program"):
            device.open(program)
        assert device.refuses(BandProgram(9, 0)) is not None
        assert device.refuses(BandProgram(1, 2, key_bits=65)) is not None
        assert device.refuses(BAND) is None


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (task([0], [21]), "in a window of 20"),
        (task([3], [2]), "out of order"),
        (task([3, 2], [5, 5]), "out of order"),
        (task([0], [5], room=3), "a task needs room for 8 pairs, not 3"),
        (Task([], np.array([0]), np.array([1]), 99), "2 stream columns, not 0"),
        (
            Task([np.array([1])] * 2, np.array([0, 1]), np.array([1, 2]), 99),
            "must have equal lengths",
        ),
    ],
)
def test_bad_tasks_fail_through_the_future(bad, message):
    with AmaranthDevice() as device:
        kernel, buffer = opened(device)
        with pytest.raises(DeviceError, match=message):
            kernel.submit(buffer, bad).result()


def test_bad_windows():
    with AmaranthDevice() as device:
        kernel, buffer = opened(device)
        with pytest.raises(DeviceError, match="cannot have room for -1"):
            kernel.allocate(-1)
        with pytest.raises(DeviceError, match="1 window keys, not 2"):
            buffer.write(0, [np.arange(2)] * 2)
        with pytest.raises(DeviceError, match="3 tuples at position 18 do not fit"):
            buffer.write(18, [np.arange(3)])
        buffer.free()
        with pytest.raises(DeviceError, match="the window was freed"):
            buffer.write(0, [np.arange(2)])
        with pytest.raises(DeviceError, match="was freed"):
            kernel.submit(buffer, task([0], [1])).result()


def test_counters_and_empty_ranges():
    with AmaranthDevice() as device:
        kernel, buffer = opened(device)
        result = kernel.submit(buffer, task([0, 4, 4], [4, 4, 9], low=2, high=6)).result()
        assert sorted(zip(result.i.tolist(), result.j.tolist(), strict=True)) == [
            *[(0, 2), (0, 3)],
            *[(2, 4), (2, 5), (2, 6)],
        ]
        assert result.pause is None
        assert (result.i.dtype, result.j.dtype) == (np.uint32, np.uint32)
        assert result.counters["evaluations"] == 9
        assert result.counters["window_flits"] == 9
        assert result.counters["units"] == 8
        empty = kernel.submit(buffer, task([3], [3])).result()
        assert (len(empty.i), empty.counters["evaluations"]) == (0, 0)
        assert device.counters()["evaluations"] == 9
        assert device.counters()["cycles"] == result.counters["cycles"]


def test_pause_is_exact():
    """Everything before the pause is there, nothing after it is."""
    with AmaranthDevice(units=4) as device:
        kernel, buffer = opened(device)
        work = task([0, 0, 2, 5, 9], [6, 6, 9, 12, 20], room=12)
        result = kernel.submit(buffer, work).result()
        pause = result.pause
        assert isinstance(pause, Pause)
        assert len(result.i) <= 12
        done = {
            (i, j)
            for i in range(pause.i1)
            for j in range(work.start[i], work.end[i])
            if i < pause.i0 or j < pause.p
        }
        assert set(zip(result.i.tolist(), result.j.tolist(), strict=True)) == done
        assert len(done) == result.counters["evaluations"] > 0


def test_trace():
    with AmaranthDevice(trace=True) as device:
        kernel, buffer = opened(device)
        kernel.submit(buffer, task([0, 1], [5, 8])).result()
        assert sum(cycle.kind is Kind.WINDOW for cycle in device.trace) == 8
        assert max(cycle.active for cycle in device.trace) == 2


def test_waveforms(tmp_path):
    file = tmp_path / "join.vcd"
    with AmaranthDevice(vcd=file) as device:
        for key_bits in (8, 16):
            kernel = device.open(BandProgram(1, 2, key_bits))
            buffer = kernel.allocate(4)
            buffer.write(0, [np.arange(4)])
            kernel.submit(buffer, task([0], [4])).result()
    for path in (file, tmp_path / "join-2.vcd"):
        text = path.read_text()
        assert "unit_0" in text
        assert "$enddefinitions" in text


def test_general_form():
    number = int_of(12, nullable=False)
    s, w = ops.key("s", 0, number), ops.key("w", 0, number)
    distance = ops.sub(s, w)
    predicate = ops.lt(ops.mul(distance, distance), ops.const(50))
    rng = np.random.default_rng(1)
    stream, window = rng.integers(-30, 30, 25), rng.integers(-30, 30, 40)
    with AmaranthDevice(units=4) as device:
        kernel = device.open(GeneralProgram((number,), (number,), predicate))
        buffer = kernel.allocate(40)
        buffer.write(0, [window[:15]])
        buffer.write(15, [window[15:]])
        start = np.sort(rng.integers(0, 30, 25))
        end = start + 10
        result = kernel.submit(buffer, Task([stream], start, end, 1000)).result()
    expected = [
        (i, j)
        for i in range(25)
        for j in range(start[i], end[i])
        if (stream[i] - window[j]) ** 2 < 50
    ]
    assert sorted(zip(result.i.tolist(), result.j.tolist(), strict=True)) == expected
