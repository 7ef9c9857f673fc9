"""The Verilated kernel: as a device, and by its registers and memory like a board."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import DeviceError, FileError, MissingToolError
from penstock.host.device.base import Task
from penstock.host.devices.kernel.packing import Packing, header_fields
from penstock.hw.export import kernel_verilog
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import KERNEL, PORTS, table
from penstock.hw.kernel.status import Status
from penstock.passes import plan, recover
from penstock.program import BandProgram
from penstock.sim.rtl_device import RtlDevice
from penstock.sim.verilated import compile_kernel
from penstock.sim.verilated.compile_kernel import Tools, board_library, cache_folder
from penstock.sim.verilated.verilated_board import Board, MemoryModel
from tests.host.kit.tasks import RANGES, band_join, expected, load, run_to_end, sorted_pairs
from tests.kit.effort import effort, examples


def tools_are_there():
    try:
        Tools.find()
    except MissingToolError:
        return False
    return True


needs_tools = pytest.mark.skipif(not tools_are_there(), reason="Verilator or g++ is not installed")

CONFIG = KernelConfig.fit(JoinConfig(units=8, units_per_block=4, tests=1))
WINDOW, TUPLES = 500, 20

#: Addresses of passes, tuples, window and results; all but the first are inside a 4 KiB page.
PASSES, STREAM, KEYS, RESULTS = 0x1000, 0x2_0000_0F80, 0x3_0000_0040, 0x4_0000_0FC0


# -- bad arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"units": 1}, ValueError, "units must be 2 to 65536, not 1"),
        ({"lanes": 0}, ValueError, "lanes must be 1 to 64, not 0"),
        ({"lanes": "two"}, TypeError, "lanes must be an integer, not 'two'"),
        ({"latency_cycles": -1}, ValueError, "latency_cycles must be 0 to 4294967295, not -1"),
        ({"latency_cycles": 1.5}, TypeError, "latency_cycles must be an integer, not 1.5"),
        ({"bandwidth": 0}, ValueError, "bandwidth must be above 0 and at most 1, not 0"),
        ({"bandwidth": "x"}, TypeError, "bandwidth must be a number, not 'x'"),
        ({"stalls": 1.0}, ValueError, "stalls must be 0 or more and below 1, not 1.0"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        RtlDevice(**options)


def test_missing_tools(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(compile_kernel.shutil, "which", lambda name: None)
    with pytest.raises(MissingToolError, match=r"g\+\+, which is not installed"):
        RtlDevice()
    monkeypatch.setattr(
        compile_kernel.shutil, "which", lambda name: "/bin/g++" if name == "g++" else None
    )
    monkeypatch.setattr(compile_kernel.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingToolError, match=r"pip install '\.\["):
        RtlDevice()


def test_the_cache_moves(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path / "verilated"


def test_libraries_that_others_could_replace_are_not_loaded(tmp_path):
    tmp_path.chmod(0o777)
    (tmp_path / "planted.so").write_bytes(b"planted")
    with pytest.raises(FileError, match=f"others may write in the folder {tmp_path}"):
        compile_kernel.load(tmp_path / "planted.so")


def test_the_cache_is_this_user_s_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))
    (tmp_path / "verilated").symlink_to(tmp_path)
    with pytest.raises(FileError, match=r"verilated is no folder but a link"):
        board_library("module kernel; endmodule", "kernel", ["a"], 64)


# -- packing --------------------------------------------------------------------------------------


def packing(window_bits, stream_bits=(8,), slot=64, ordinal_bits=31, pipelines=1):
    geometry = {
        "window_key_bits": list(window_bits),
        "stream_key_bits": list(stream_bits),
        "window_slot_bits": slot,
        "tuple_slot_bits": 128,
        "pass_slot_bits": 128,
        "word_bytes": 64,
        "align_bytes": 64,
        "lanes": 8,
        "ordinal_bits": ordinal_bits,
        "units_per_block": 32,
        "blocks": 16 // pipelines,
        "pipelines": pipelines,
    }
    return Packing({"geometry": geometry, "header": {"a": 32, "b": 64}}, len(window_bits))


@pytest.mark.parametrize("bits", [(32, 16), (5, 1, 30), (40, 9)])
def test_window_slots(bits):
    """The columns lie side by side from bit 0 on; negative values in two's complement."""
    rng = np.random.default_rng(3)
    columns = [rng.integers(-(1 << width - 1), 1 << width - 1, 9) for width in bits]
    rows = packing(bits).window(columns)
    for row, values in zip(rows, zip(*columns, strict=True), strict=True):
        at = stored = 0
        for value, width in zip(values, bits, strict=True):
            stored |= (int(value) & (1 << width) - 1) << at
            at += width
        assert int.from_bytes(row.tobytes(), "little") == stored


def test_wide_keys():
    """Beyond 64 bits, values are Python integers or repeat their sign."""
    big = np.array([1 << 80, -1, 5], dtype=object)
    rows = packing([90, 70], slot=256).window([big, np.array([-1, 2, 3])])
    first = int.from_bytes(rows[0].tobytes(), "little")
    assert first == 1 << 80 | ((1 << 70) - 1) << 90
    assert int.from_bytes(rows[1].tobytes(), "little") == (1 << 90) - 1 | 2 << 90


def test_records():
    words = np.zeros((2, 8, 2), "<u4")
    words[0, 3] = 17, 0b101
    words[1, 7] = 1 << 31 | 9, 1 << 31
    records = packing([8]).records(words.reshape(-1).view(np.uint8))
    assert records.unit.tolist() == [96, 98, 15 * 32 + 31]
    assert records.ordinal.tolist() == [17, 17, 9]
    # The second pipeline has the blocks from 8 on; its units are the odd ones.
    records = packing([8], pipelines=2).records(words.reshape(-1).view(np.uint8))
    assert records.unit.tolist() == [192, 196, 2 * (7 * 32 + 31) + 1]


def test_passes_with_their_share():
    columns = np.array([[7, 1], [10, 20], [90, 30]])
    for pipelines, share in ((1, [0, 0]), (3, [2, 0])):
        words = packing([8], pipelines=pipelines).passes(*columns).view("<u4").reshape(-1, 4)
        assert words[:2].tolist() == [[7, 10, 90, share[0]], [1, 20, 30, share[1]]]


def test_header():
    word = np.frombuffer((7 | 1 << 90).to_bytes(64, "little"), np.uint8)
    assert header_fields(packing([8]).table, word) == {"a": 7, "b": 1 << 58}


# -- by registers and memory ----------------------------------------------------------------------


@dataclass
class Job:
    """A task of twenty tuples over a window, half of its pairs matching, and what to spoil."""

    seed: int = 0
    arguments: dict = field(default_factory=dict)
    passes: object = None
    ranges: object = None
    unmapped: str = ""
    faulty: str = ""


@pytest.fixture(scope="module")
def path():
    if not tools_are_there():
        pytest.skip("Verilator or g++ is not installed")
    return board_library(
        kernel_verilog(CONFIG, cache=cache_folder()), KERNEL, PORTS, CONFIG.word_bytes
    )


def run(path, job, memory=None):
    """Status register, header, and pairs of a job, and the pairs that it should have."""
    described = table(CONFIG)
    layout = Packing(described, 1)
    rng = np.random.default_rng(job.seed)
    keys = rng.integers(0, 1000, WINDOW)
    low = rng.integers(0, 500, TUPLES)
    start = np.sort(rng.integers(0, 250, TUPLES))
    end = np.maximum.accumulate(start + rng.integers(1, 250, TUPLES))
    passes = plan(start, end, CONFIG.join.units)
    if job.ranges:
        start, end = job.ranges(start, end)
    parts = np.array([[p.stop - p.first, p.begin, p.end] for p in passes])
    if job.passes:
        parts = job.passes(parts)
    room = 3000
    results = np.zeros((room + 1) * 64, np.uint8)
    window = np.zeros(layout.window_bytes(WINDOW), np.uint8)
    rows = layout.window([keys]).reshape(-1)
    window[: len(rows)] = rows
    memory_of = {
        "passes": (PASSES, layout.passes(*parts.T)),
        "tuples": (STREAM, layout.tuples([low, low + 499], start, end)),
        "window": (KEYS, window),
        "results": (RESULTS, results),
    }
    # Results that go to the wrong place may overwrite a task; the next one is a fresh copy.
    copies = [(address, part.copy()) for address, part in memory_of.values()]
    board = Board(path, described, memory or MemoryModel())
    for name, (address, part) in memory_of.items():
        if name == job.faulty:
            board.map_faulty(address, len(part))
        elif name != job.unmapped:
            board.map(address, part)
    arguments = {name: address for name, (address, _) in memory_of.items()}
    arguments |= {
        "pass_count": len(parts),
        "tuple_count": TUPLES,
        "window_count": WINDOW,
        "result_words": room,
        "table_0": 0b10,
        "mode": 0,
    }
    board.run(arguments | job.arguments, 200_000)
    status = Status(board.read("status"))
    # A kernel that had an error must be as good as new for the next task.
    board.unmap()
    for address, part in copies:
        board.map(address, part)
    header = header_fields(layout.table, results[:64])
    words = results[64 : 64 * (header["words"] + 1)].copy()
    if not (job.ranges or job.passes):
        board.run(arguments, 200_000)
        assert board.read("status") == Status.OK
    board.close()
    records = layout.records(words)
    i, j = recover(passes, start, CONFIG.join.units, records.unit, records.ordinal)
    at = np.arange(WINDOW)
    hit = (at >= start[:, None]) & (at < end[:, None])
    hit &= (keys >= low[:, None]) & (keys <= low[:, None] + 499)
    return status, header, sorted(zip(i.tolist(), j.tolist(), strict=True)), np.argwhere(hit)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "memory",
    [
        MemoryModel(),
        MemoryModel(latency_cycles=64),
        MemoryModel(latency_cycles=7, stalls=0.6, seed=1),
        MemoryModel(bandwidth=0.1, stalls=0.2, seed=2),
    ],
)
def test_random_jobs(path, seed, memory):
    status, header, found, wanted = run(path, Job(seed), memory)
    assert (status, header["status"]) == (Status.OK, Status.OK)
    assert found == [tuple(pair) for pair in wanted.tolist()]
    assert header["complete"] == header["loaded"] == TUPLES
    assert header["records"] >= header["words"] > 0


def part(column, change):
    def spoil(parts):
        parts = parts.copy()
        parts[-1, column] = change(parts[-1, column])
        return parts

    return spoil


@pytest.mark.parametrize(
    ("job", "status"),
    [
        (Job(arguments={"passes": PASSES + 32}), Status.MISALIGNED),
        (Job(arguments={"tuples": STREAM + 4}), Status.MISALIGNED),
        (Job(arguments={"window": KEYS + 8}), Status.MISALIGNED),
        (Job(arguments={"mode": 1}), Status.BAD_MODE),
        (Job(arguments={"mode": 1 << 31}), Status.BAD_MODE),
        (Job(arguments={"results": RESULTS + 1}), Status.MISALIGNED),
        (Job(arguments={"tuple_count": 0}), Status.EMPTY),
        (Job(arguments={"pass_count": 0}), Status.EMPTY),
        (Job(arguments={"window_count": 0}), Status.EMPTY),
        (Job(arguments={"result_words": CONFIG.least_result_words - 1}), Status.NO_ROOM),
        (Job(arguments={"window_count": 1}), Status.BAD_PASS),
        (Job(arguments={"tuple_count": 19}), Status.BAD_PASS),
        (Job(arguments={"tuple_count": 21}), Status.READ_ERROR),  # where no memory is
        (Job(arguments={"pass_count": 1}), Status.BAD_PASS),
        (Job(passes=part(0, lambda n: 0)), Status.BAD_PASS),
        (Job(passes=part(1, lambda n: 499)), Status.BAD_PASS),
        (Job(passes=part(2, lambda n: WINDOW + 1)), Status.BAD_PASS),
        (Job(passes=part(2, lambda n: n - 1)), Status.BAD_RANGE),
        (Job(ranges=lambda start, end: (start, start)), Status.BAD_RANGE),
        (Job(ranges=lambda start, end: (start[::-1], end)), Status.BAD_RANGE),
        (Job(ranges=lambda start, end: (start, end[::-1])), Status.BAD_RANGE),
        (Job(ranges=lambda start, end: (start, end + 60000)), Status.BAD_RANGE),
        *((Job(unmapped=name), Status.READ_ERROR) for name in ("passes", "tuples", "window")),
        *((Job(faulty=name), Status.READ_ERROR) for name in ("passes", "tuples", "window")),
        (Job(unmapped="results"), Status.WRITE_ERROR),
        (Job(faulty="results"), Status.WRITE_ERROR),
    ],
)
@pytest.mark.parametrize("stalls", [0.0, 0.5])
def test_errors_end_in_a_status(path, job, status, stalls):
    memory = MemoryModel(latency_cycles=20, stalls=stalls, seed=4)
    found, header, _, _ = run(path, job, memory)
    assert found == status
    if job.arguments.get("results") is None and "results" not in (job.unmapped, job.faulty):
        assert header["status"] == status


#: What a task needs, and how its arguments may go wrong, one by one or together.
ARGUMENTS = {
    "passes": PASSES,
    "tuples": STREAM,
    "window": KEYS,
    "results": RESULTS,
    "tuple_count": TUPLES,
    "window_count": WINDOW,
    "result_words": 3000,
}
POINTERS = ("passes", "tuples", "window", "results")


def any_value(name):
    """The right value, one near it, zero, or anything that the register holds."""
    right = ARGUMENTS[name]
    most = (1 << (64 if name in POINTERS else 32)) - 1
    near = st.integers(max(right - 65, 0), right + 65)
    return st.just(right) | near | st.sampled_from([0, 1, most]) | st.integers(0, most)


@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_arguments_end_in_a_status(path, data):
    """Whatever the registers say: a status that fits it, no hang, and the next task is right."""
    names = data.draw(st.sets(st.sampled_from(sorted(ARGUMENTS)), min_size=1, max_size=3))
    given_values = {name: data.draw(any_value(name), name) for name in sorted(names)}
    memory = MemoryModel(
        latency_cycles=data.draw(st.sampled_from([0, 20])),
        stalls=data.draw(st.sampled_from([0.0, 0.4])),
    )
    status, header, found, wanted = run(path, Job(arguments=given_values), memory)
    values = ARGUMENTS | given_values
    # Where the header cannot be written, the register says only that.
    lost = {Status.WRITE_ERROR} if values["results"] != RESULTS else set()
    if values["results"] % 64:
        assert status == Status.MISALIGNED
    elif any(values[name] % 64 for name in POINTERS):
        assert status in {Status.MISALIGNED} | lost
    elif not (values["tuple_count"] and values["window_count"]):
        assert status in {Status.EMPTY} | lost
    elif values["result_words"] < CONFIG.least_result_words:
        assert status in {Status.NO_ROOM} | lost
    elif values == ARGUMENTS | {k: values[k] for k in ("window_count", "result_words")}:
        # More window or room than there is says nothing wrong; less is found out.
        assert status in (Status.OK, Status.PAUSED, Status.BAD_PASS)
        if status == Status.OK:
            assert found == [tuple(pair) for pair in wanted.tolist()]
    else:
        assert status not in (Status.EMPTY, Status.MISALIGNED, Status.NO_ROOM)
        if values["tuple_count"] != TUPLES:
            assert status in (Status.BAD_PASS, Status.READ_ERROR, Status.WRITE_ERROR)
    if values["results"] == RESULTS:
        assert header["status"] == status


# -- as a device ----------------------------------------------------------------------------------


@needs_tools
@pytest.mark.parametrize(
    "memory",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"latency_cycles": 30, "stalls": 0.4, "bandwidth": 0.5, "lanes": 2},
    ],
)
def test_joins_with_pauses(memory):
    """Every kind of range, with room for one window tuple's matches, for some, and for all."""
    rng = np.random.default_rng(1)
    with RtlDevice(units=8, **memory) as device:
        for number, kind in enumerate(RANGES):
            join = band_join(rng, 1 + effort(number % 2, 0), 32, 30, 200, kind)
            kernel = device.open(join.program)
            buffer = load(kernel, join, pieces=3, spare=5)
            for room in (8, 50, 100_000):
                results = run_to_end(kernel, buffer, join, room)
                np.testing.assert_array_equal(sorted_pairs(results), expected(join))
                assert sum(r.counters["evaluations"] for _, r in results) == join.evaluations
        assert device.counters()["units"] == 8


@needs_tools
def test_counters_and_closing():
    with RtlDevice(units=8) as device:
        kernel = device.open(BandProgram(1, 0b10, 32))
        buffer = kernel.allocate(100)
        buffer.write(0, [np.arange(100)])
        task = Task([np.zeros(8, int), np.full(8, 49)], np.zeros(8, int), np.full(8, 100), 1000)
        result = kernel.submit(buffer, task).result()
        assert len(result.i) == 8 * 50
        assert result.counters["window_flits"] == 100
        assert result.counters["evaluations"] == 800
        assert result.counters["passes"] == 1
        assert result.counters["records"] == 2 * 50
        assert result.counters["units"] == 8
        assert result.counters["cycles"] > 100
        assert result.counters["memory_waits"] > 0
        assert result.counters["admission_stalls"] == 0
        kernel.close()
        kernel.close()
        with pytest.raises(DeviceError, match="the kernel was closed"):
            kernel.submit(buffer, task).result()


@needs_tools
def test_window_tuples_per_cycle():
    """Passes follow each other without a drain: five of them cost little more than one."""
    with RtlDevice(units=8) as device:
        kernel = device.open(BandProgram(1, 0, 32))
        buffer = kernel.allocate(4000)
        buffer.write(0, [np.zeros(4000, int)])
        for laps in (1, 5):
            rows = 8 * laps
            task = Task([np.ones(rows)] * 2, np.zeros(rows), np.full(rows, 4000), 1000)
            counters = kernel.submit(buffer, task).result().counters
            assert counters["passes"] == laps
            assert counters["window_flits"] == 4000 * laps
            assert counters["window_flits"] / counters["cycles"] >= 0.98
