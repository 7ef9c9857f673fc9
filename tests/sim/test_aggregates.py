"""Aggregates of the simulated pipeline against brute force in NumPy."""

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.host.device.base import Task
from penstock.host.devices.kernel.pipeline_task import read_folds
from penstock.hw.join.modes import CODES
from penstock.program import BandProgram, GeneralProgram, Mode
from penstock.sim._pipeline import PipelineSimulator
from penstock.sim.amaranth_device import AmaranthDevice
from penstock.types import BOOL, int_of, integer
from tests.kit.effort import effort

SLOW = pytest.mark.slow
BAND_MODES = frozenset(Mode) - {Mode.NEAREST}
VALUE = int_of(9, nullable=False)


def ranges(rng, kind, rows, window):
    at = np.arange(rows)
    if kind == "full":
        return np.zeros(rows, int), np.full(rows, window)
    if kind == "touching":
        return at * window // rows, (at + 1) * window // rows
    if kind == "single":
        start = np.sort(rng.integers(0, window, rows))
        return start, start + 1
    if kind == "empty":
        start = np.sort(rng.integers(0, window + 1, rows))
        return start, start
    start = np.sort(rng.integers(0, window, rows))
    longest = 5 if kind == "short" else window
    return start, np.minimum(np.maximum.accumulate(start + rng.integers(0, longest, rows)), window)


KINDS = ("full", "touching", "single", "empty", "short", "random")


def expected(mode, hits, values):
    """(found, value, position) of one tuple, from its matches' positions and values."""
    if len(hits) == 0:
        return False, 0, -1
    if mode is Mode.COUNT:
        return True, len(hits), None
    if mode is Mode.EXISTS:
        return True, True, None
    if mode is Mode.SUM:
        return True, sum(values), None
    best = max(values) if mode is Mode.MAX else min(values)
    return True, best, hits[list(values).index(best)]


def check(folds, mode, hits, values):
    """``hits`` and ``values`` per tuple."""
    wanted = [expected(mode, *both) for both in zip(hits, values, strict=True)]
    assert folds.found.dtype == bool
    assert folds.found.tolist() == [found for found, _, _ in wanted]
    assert folds.value.tolist() == [value for _, value, _ in wanted]
    assert folds.value.dtype == (bool if mode is Mode.EXISTS else np.int64)
    if mode is Mode.NEAREST:
        assert folds.position.tolist() == [position for *_, position in wanted]
    else:
        assert folds.position is None


class BandCase:
    """A band program with a value, its data and its matches."""

    def __init__(self, rng, tests, bits, rows, window, kind):
        span = 20
        self.program = BandProgram(tests, (1 << (1 << tests)) - 2, bits, payload=VALUE)
        keys = rng.integers(0, span, (tests, window))
        values = rng.choice([-256, 255, -1, 0, *rng.integers(-256, 256, 4)], window)
        self.window = [*keys, values]
        low = rng.integers(0, span, (tests, rows))
        high = low + rng.integers(-1, 3, (tests, rows))
        high = np.maximum(high, 0)
        self.stream = [bound for both in zip(low, high, strict=True) for bound in both]
        self.start, self.end = ranges(rng, kind, rows, window)
        self.hits = [
            [
                j
                for j in range(self.start[i], self.end[i])
                if any(low[d, i] <= keys[d, j] <= high[d, i] for d in range(tests))
            ]
            for i in range(rows)
        ]
        self.values = [values[hits].tolist() for hits in self.hits]

    def task(self, mode):
        return Task(self.stream, self.start, self.end, 1 << 20, mode)


def loaded(kernel, columns):
    buffer = kernel.allocate(len(columns[0]))
    buffer.write(0, columns)
    return buffer


#: What band builds are made for; the short run has them with one test.
BUILDS = [BAND_MODES, {Mode.COUNT}, {Mode.EXISTS}, {Mode.MIN}, {Mode.EXISTS, Mode.MAX}, {Mode.SUM}]


@pytest.mark.parametrize(
    ("modes", "tests"),
    [
        pytest.param(
            modes,
            tests,
            id=f"{'+'.join(sorted(mode.value for mode in modes))}-{tests}",
            marks=() if tests == 1 else SLOW,
        )
        for modes in BUILDS
        for tests in (1, 2, 5)
    ],
)
def test_band_aggregates(modes, tests):
    """One build, one kind of ranges after another, the mode switched from task to task."""
    rng = np.random.default_rng([tests, len(modes)])
    with AmaranthDevice(units=5) as device:
        for kind in KINDS:
            case = BandCase(rng, tests, 8, 17, 40, kind)
            kernel = device.open(case.program, frozenset(modes))
            buffer = loaded(kernel, case.window)
            for mode in sorted(modes, key=lambda mode: mode.value):
                result = kernel.submit(buffer, case.task(mode)).result()
                if mode is Mode.PAIRS:
                    pairs = [(i, j) for i, hits in enumerate(case.hits) for j in hits]
                    assert sorted(zip(result.i.tolist(), result.j.tolist(), strict=True)) == pairs
                    assert result.folds is None
                    continue
                assert (len(result.i), result.pause) == (0, None)
                assert result.counters["evaluations"] == int((case.end - case.start).sum())
                check(result.folds, mode, case.hits, case.values)


@pytest.mark.parametrize("seed", range(effort(3, 1)))
@pytest.mark.parametrize(("units", "per_block"), [(6, 3), (5, 32), (2, 1)])
def test_gaps_and_stalls(units, per_block, seed):
    """Inputs pause and values are taken late; all come, in the order of their tuples."""
    rng = np.random.default_rng([seed, units])
    case = BandCase(rng, 2, 6, 25, 50, "short")
    device = AmaranthDevice(units=units)
    config = device._join_config(
        tests=2, key_bits=6, modes=BAND_MODES, value_bits=9, spare_records=1
    )
    simulator = PipelineSimulator(config, gaps=0.3, stalls=0.8, seed=seed)
    kept = np.flatnonzero(case.start < case.end)
    arguments = {
        "tuples": [pack([c[i] for c in case.stream[::2] + case.stream[1::2]], 6) for i in kept],
        "start": case.start[kept],
        "end": case.end[kept],
        "window": [
            pack(row[:2], 6) | (int(row[2]) & 511) << 12 for row in zip(*case.window, strict=True)
        ],
        "table": case.program.table,
    }
    for mode in (Mode.SUM, Mode.MAX, Mode.COUNT):
        run = simulator.run(**arguments, mode=mode)
        folding = config.folding
        folds = read_folds(
            folding.fields, folding.operand_bits, mode, run.values, arguments["start"]
        )
        check(folds, mode, [case.hits[i] for i in kept], [case.values[i] for i in kept])
        assert (run.complete, run.loaded) == (len(kept), len(kept))


def pack(values, bits):
    return sum(int(value) << bits * place for place, value in enumerate(values))


def general(value, *, columns=2):
    """``abs(s0 - w0) < s1`` with a value."""
    number = int_of(8, nullable=False)
    types = (number,) * columns
    s, w = ([ops.key(side, k, number) for k in range(columns)] for side in "sw")
    predicate = ops.lt(ops.absolute(ops.sub(s[0], w[0])), s[1])
    return GeneralProgram(types, types, predicate, value(s, w))


VALUES = {
    "distance": (
        lambda s, w: ops.absolute(ops.sub(s[0], w[0])),
        lambda s, w: abs(s[0] - w[0]),
    ),
    "product": (
        lambda s, w: ops.mul(ops.sub(s[1], w[1]), w[0]),
        lambda s, w: (s[1] - w[1]) * w[0],
    ),
    "key": (lambda s, w: w[1], lambda s, w: w[1]),
    "stream": (lambda s, w: ops.add(s[1], s[0]), lambda s, w: s[1] + s[0]),
    "constant": (lambda s, w: ops.const(-3), lambda s, w: -3),
}
#: With all modes, these are in the short run.
SHORT = ("distance", "constant")


@pytest.mark.parametrize(
    ("modes", "name"),
    [
        pytest.param(modes, name, marks=() if len(modes) == len(Mode) and name in SHORT else SLOW)
        for modes in (frozenset(Mode), {Mode.NEAREST}, {Mode.SUM, Mode.MAX})
        for name in VALUES
    ],
)
def test_general_aggregates(modes, name):
    """Values of both sides, of one, and of none; ties go to the lowest position."""
    expression, plain = VALUES[name]
    program = general(expression)
    rng = np.random.default_rng(len(name))
    with AmaranthDevice(units=4) as device:
        kernel = device.open(program, frozenset(modes))
        for kind in ("full", "short", "random"):
            rows, width = 11, 30
            stream = [rng.integers(-10, 10, rows), rng.integers(0, 12, rows)]
            window = [rng.integers(-10, 10, width), rng.integers(-128, 128, width)]
            start, end = ranges(rng, kind, rows, width)
            s, w = np.array(stream).T.tolist(), np.array(window).T.tolist()
            hits = [
                [j for j in range(start[i], end[i]) if abs(s[i][0] - w[j][0]) < s[i][1]]
                for i in range(rows)
            ]
            values = [[plain(s[i], w[j]) for j in hits[i]] for i in range(rows)]
            buffer = loaded(kernel, window)
            for mode in sorted(modes, key=lambda mode: mode.value):
                task = Task(stream, start, end, 1 << 20, mode)
                result = kernel.submit(buffer, task).result()
                if mode is not Mode.PAIRS:
                    check(result.folds, mode, hits, values)
                else:
                    assert len(result.i) == sum(map(len, hits))


def test_wide_values_are_python_integers():
    number = int_of(64, signed=False, nullable=False)
    s, w = ops.key("s", 0, number), ops.key("w", 0, number)
    program = GeneralProgram((number,), (number,), ops.le(s, w), ops.sub(w, s))
    with AmaranthDevice(units=2) as device:
        kernel = device.open(program, frozenset({Mode.MAX}))
        buffer = loaded(kernel, [np.array([5, (1 << 64) - 1], np.uint64)])
        task = Task([np.array([3], np.uint64)], np.array([0]), np.array([2]), 99, Mode.MAX)
        assert kernel.submit(buffer, task).result().folds.value.tolist() == [(1 << 64) - 4]


def test_what_is_refused():
    plain = BandProgram(1, 2)
    wide = BandProgram(1, 2, payload=int_of(33, nullable=False))
    with AmaranthDevice() as device:
        assert device.refuses(plain, frozenset({Mode.MIN, Mode.SUM})) == (
            "it has nothing to fold for min, sum"
        )
        assert "33 bits is too wide to be summed" in device.refuses(wide, frozenset({Mode.SUM}))
        assert device.refuses(wide, frozenset({Mode.MIN})) is None
        huge = BandProgram(1, 2, payload=integer(0, 1 << 64, nullable=False))
        assert (
            device.refuses(huge, frozenset({Mode.MIN})) == "its values have 66 bits, more than 64"
        )
        condition = general(lambda s, w: ops.lt(s[0], w[0]))
        assert condition.value.type.kind is BOOL.kind
        assert "a value is a number, not bool" in device.refuses(condition, frozenset({Mode.MIN}))
        assert device.refuses(condition, frozenset({Mode.COUNT})) is None
        with pytest.raises(DeviceError, match="the amaranth device cannot run this program"):
            device.open(wide, frozenset({Mode.SUM}))


def test_a_task_in_another_mode_is_an_error():
    case = BandCase(np.random.default_rng(0), 1, 8, 3, 9, "full")
    with AmaranthDevice() as device:
        kernel = device.open(case.program, frozenset({Mode.COUNT}))
        buffer = loaded(kernel, case.window)
        for mode in (Mode.SUM, Mode.PAIRS):
            with pytest.raises(DeviceError, match=f"opened for other modes than {mode.value}"):
                kernel.submit(buffer, case.task(mode)).result()


def test_a_mode_folds_or_not():
    assert {mode for mode in Mode if CODES[mode]} == set(Mode) - {Mode.PAIRS}


def test_groups_of_a_stream_as_on_the_cpu():
    """The pipeline folds as a stream asks it to: window by window, and in two forms."""
    rng = np.random.default_rng(5)
    tables = {
        name: pa.table(
            {
                "n": pa.array(np.arange(60)),
                "t": pa.array(np.sort(rng.integers(0, 50, 60))),
                "x": pa.array(rng.integers(-9, 10, 60).astype(np.int16), mask=rng.random(60) < 0.2),
            }
        )
        for name in "ab"
    }
    query = (
        "SELECT a.n, count(*) AS c, min_by(b.n, abs(a.x - b.x)) AS near, max(b.n) AS last "
        "FROM a JOIN b ON abs(a.x - b.x) < 6 AND b.t BETWEEN a.t - 4 AND a.t + 2 GROUP BY a.n"
    )
    times = {"a": "t", "b": "t"}
    with AmaranthDevice(units=8) as device:
        schemas = {name: table.schema for name, table in tables.items()}
        stream = penstock.stream(query, schemas, time=times, unique={"a": "n"}, device=device)
        for at in range(0, 60, 20):
            for name, table in tables.items():
                stream.push(name, table.slice(at, 20))
        found = stream.close()
    wanted = penstock.sql(query, tables, time=times)
    assert found.num_rows > 20
    assert found.sort_by("n").equals(wanted.sort_by("n"))
