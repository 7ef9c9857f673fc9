"""What the CPU device promises beyond the device contract."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from llvmlite import binding

from penstock import providers
from penstock.errors import DeviceError, MissingToolError, UsageError
from penstock.expr import ops
from penstock.host.device import registry
from penstock.host.device.base import Task
from penstock.host.device.storage import key_dtype, storage_dtype
from penstock.host.devices.cpu import CpuDevice, loops
from penstock.host.devices.cpu.codegen import generate
from penstock.host.devices.cpu.general import CompiledKernel
from penstock.host.devices.cpu.interpreted import InterpretedKernel
from penstock.host.devices.cpu.kernel import ResultMemory
from penstock.host.devices.cpu.operations import NotCompilable
from penstock.host.keys.narrow import NarrowCodes
from penstock.program import BandProgram, GeneralProgram
from penstock.types import BOOL, FLOAT32, FLOAT64, NULL, STRING, integer
from tests.host.kit.tasks import Join, band_join, expected, load, run_to_end, sorted_pairs

ALL_OF_TWO = BandProgram(2, 0b1000, 32)


@pytest.fixture(scope="module")
def device():
    with CpuDevice(threads=2) as opened:
        yield opened


# -- arguments ------------------------------------------------------------------------------------


def test_threads_must_be_positive() -> None:
    with pytest.raises(UsageError, match="at least one thread, not 0"):
        CpuDevice(threads=0)


def test_lanes_default_to_the_cores_of_the_process() -> None:
    with CpuDevice() as device:
        assert device.lanes == len(os.sched_getaffinity(0))


def test_a_closed_device_takes_no_tasks() -> None:
    device = CpuDevice(threads=1)
    kernel = device.open(ALL_OF_TWO)
    buffer = kernel.allocate(1)
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        kernel.submit(buffer, Task([], np.zeros(0, np.int64), np.zeros(0, np.int64), 1))


@pytest.mark.parametrize("capacity", [-1, 1 << 32])
def test_a_window_has_32_bit_positions(device: CpuDevice, capacity: int) -> None:
    with pytest.raises(DeviceError, match="split the window into runs"):
        device.open(ALL_OF_TWO).allocate(capacity)


@pytest.mark.parametrize(
    ("start", "end"), [([0, 1], [2, 1]), ([1, 0], [2, 2]), ([-1, 0], [2, 2]), ([0, 2], [1, 1])]
)
def test_ranges_must_be_in_order(device: CpuDevice, start: list, end: list) -> None:
    kernel = device.open(ALL_OF_TWO)
    task = Task([np.zeros(2, np.uint32)] * 4, np.array(start), np.array(end), 10)
    with pytest.raises(DeviceError, match="range"):
        kernel.submit(kernel.allocate(5), task).result(10)


# -- layout ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        (integer(-128, 127), np.int8),
        (integer(0, 255), np.int16),
        (integer(0, (1 << 31) - 1), np.int32),
        (integer(-(1 << 63), 0), np.int64),
        (integer(0, 1 << 63), np.uint64),
        (integer(-1, 1 << 63), object),
        (BOOL, np.bool_),
        (FLOAT32, np.float32),
        (FLOAT64, np.float64),
    ],
)
def test_storage_is_the_narrowest_that_holds_the_bounds(dtype, stored) -> None:
    assert storage_dtype(dtype) == np.dtype(stored)


def test_text_is_stored_as_it_is_and_null_is_not() -> None:
    assert storage_dtype(STRING) == np.dtype(object)
    with pytest.raises(DeviceError, match="prepare an integer"):
        storage_dtype(NULL)


def test_key_dtypes() -> None:
    assert [key_dtype(b).itemsize for b in (2, 16, 17, 32, 33, 64)] == [2, 2, 4, 4, 8, 8]


# -- the band kernel ------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("tests", [1, 2, 3])
def test_windows_of_many_chunks(device: CpuDevice, bits: int, tests: int) -> None:
    rng = np.random.default_rng([bits, tests])
    program = BandProgram(tests, 1 << ((1 << tests) - 1), bits)
    kernel = device.open(program)
    for kind in ("random", "full", "lapping", "touching"):
        for room in (1 << 20, 5000, 257, 7):
            window = 9000 if room > 1000 else 1500
            made = band_join(rng, tests, bits, 41 if room > 1000 else 9, window, kind)
            join = Join(program, made.window, made.stream, made.start, made.end)
            results = run_to_end(kernel, load(kernel, join), join, room)
            np.testing.assert_array_equal(sorted_pairs(results), expected(join))


def test_a_range_upside_down_is_empty(device: CpuDevice) -> None:
    kernel = device.open(BandProgram(1, 0b10, 16))
    buffer = kernel.allocate(3)
    buffer.write(0, [np.array([0, 5, 65533], np.uint16)])
    bounds = [np.array([6], np.uint16), np.array([4], np.uint16)]
    task = Task(bounds, np.array([0]), np.array([3]), 3)
    assert len(kernel.submit(buffer, task).result(10).i) == 0


@pytest.mark.parametrize(
    "bits", [pytest.param(n, marks=() if n == 32 else pytest.mark.slow) for n in (16, 32, 64)]
)
def test_the_compiled_loop_uses_full_vectors(bits: int) -> None:
    """Registers of the compares in the machine code; the trap is a width that silently halves."""
    features = binding.get_host_cpu_features()
    letter = {16: "w", 32: "d", 64: "q"}[bits]
    if features.get("avx512bw") and features.get("avx512vl"):
        compare = rf"vpcmp\w*u{letter}\s[^\n]*zmm"
    elif features.get("avx2"):
        compare = rf"vpcmpeq{letter}\s[^\n]*ymm"
    else:
        pytest.skip("this machine has neither AVX-512 nor AVX2")
    kernel = np.dtype(f"u{bits // 8}")
    keys = (np.zeros(0, kernel),) * 2
    none = np.zeros(0, np.int64)
    out = np.zeros(loops.SLACK, np.uint32)
    run = loops.run_pairs.py_func
    compiled = type(loops.run_pairs)(run, targetoptions={"nogil": True, "nopython": True})
    codes, masks = (np.zeros(0, np.uint16),) * 2, (np.zeros(0, np.uint64),) * 2
    arguments = NarrowCodes.fit(keys[0], bits, 8).arguments
    narrow = codes, masks, (arguments,) * 2, none
    compiled(keys, None, keys, keys, narrow, none, none, loops.new_walk(1, 1, 1), out, out)
    (text,) = compiled.inspect_asm().values()
    assert re.search(compare, text)


def test_other_programs_of_the_same_shape_compile_nothing(device: CpuDevice) -> None:
    device.open(BandProgram(3, 0b10101000, 32))
    before = len(loops.run_pairs.signatures)
    device.open(BandProgram(3, 0b11101000, 32))
    device.open(BandProgram(3, 0b11111110, 32))
    assert len(loops.run_pairs.signatures) == before


# -- the general kernel ---------------------------------------------------------------------------


def one_key(low: int, high: int) -> tuple:
    dtype = integer(low, high, nullable=False)
    return (dtype,), ops.key("s", 0, dtype), ops.key("w", 0, dtype)


def test_each_step_has_the_narrowest_width() -> None:
    types, s, w = one_key(0, 1 << 20)
    predicate = ops.lt(ops.mul(ops.sub(s, w), ops.sub(s, w)), ops.const(9))
    source = generate(GeneralProgram(types, types, predicate))
    assert "np.int32(np.int32(v0) - np.int32(v1))" in source
    assert "np.int64(np.int64(v2) * np.int64(v2))" in source


def test_values_beyond_int64_are_interpreted(device: CpuDevice) -> None:
    types, s, w = one_key(0, 1 << 40)
    product = GeneralProgram(types, types, ops.lt(ops.mul(s, w), ops.const(10)))
    with pytest.raises(NotCompilable):
        generate(product)
    assert isinstance(device.open(product), InterpretedKernel)
    total = GeneralProgram(types, types, ops.lt(ops.add(s, w), ops.const(10)))
    assert isinstance(device.open(total), CompiledKernel)


def test_generated_source_is_a_pure_function() -> None:
    types, s, w = one_key(-5, 5)
    program = GeneralProgram(types, types, ops.eq(ops.bit_xor(s, w), ops.const(3)))
    assert generate(program) == generate(program)


@pytest.mark.slow
def test_kernels_are_cached_where_the_environment_says(tmp_path) -> None:
    text = (
        "from penstock.expr import ops\n"
        "from penstock.host.devices.cpu import CpuDevice\n"
        "from penstock.program import GeneralProgram\n"
        "from penstock.types import integer\n"
        "t = integer(0, 9, nullable=False)\n"
        "p = ops.lt(ops.key('s', 0, t), ops.key('w', 0, t))\n"
        "k = CpuDevice(1).open(GeneralProgram((t,), (t,), p))\n"
        "print(sum(k._modules[None].run.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "PENSTOCK_CACHE_DIR": str(tmp_path)}
    hits = [
        subprocess.run(
            [sys.executable, "-c", text],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert hits == ["0", "1"]
    kept = [file.name.partition("-")[0] for file in (tmp_path / "kernels").iterdir()]
    assert kept.count("run") == 1
    assert (tmp_path / "kernels").stat().st_mode & 0o777 == 0o700


# -- result memory --------------------------------------------------------------------------------


def test_memory_is_lent_again_only_after_the_last_view_is_gone() -> None:
    memory = ResultMemory(kept=2)
    first = memory.lend(100)
    address, part = first.ctypes.data, first[10:20]
    del first
    assert memory.lend(100).ctypes.data != address
    del part
    assert address in [memory.lend(100).ctypes.data for _ in range(2)]


# -- the registry ---------------------------------------------------------------------------------


def test_an_unknown_device_names_the_known_ones() -> None:
    with pytest.raises(DeviceError, match=r"no device named 'gpu'; choose one of .*cpu"):
        registry.open_device("gpu")


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("amaranth", "no_such_package_here:Device", registry.GROUP)
    monkeypatch.setattr(providers, "providers", lambda group: {"amaranth": entry})
    with pytest.raises(MissingToolError, match=r"no_such_package_here.*pip install .\.\[rtl\]"):
        registry.open_device("amaranth")
