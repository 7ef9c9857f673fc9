from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import DeviceError
from penstock.program import BandProgram, Mode
from penstock.sim import measure
from penstock.sim.amaranth_device import AmaranthDevice
from penstock.sim.fjoin_device import FJoinAmaranthDevice
from penstock.sim.measure import band_keys, count_matches, run_whole

PROGRAM = BandProgram(tests=2, table=0b1000, key_bits=8)


def keys(stream_tuples, window_tuples, selectivity, program=PROGRAM):
    rng = np.random.default_rng(0)
    return band_keys(rng, program, stream_tuples, window_tuples, selectivity)


@pytest.mark.parametrize("selectivity", [0.0, 0.01, 0.25, 1.0])
@pytest.mark.parametrize("tests", [1, 3])
def test_keys_match_as_often_as_asked(tests, selectivity):
    program = BandProgram(tests, 1 << (1 << tests) - 1, 32)
    stream, window = keys(64, 5_000, selectivity, program)
    assert [len(column) for column in stream] == [64] * 2 * tests
    assert [len(column) for column in window] == [5_000] * tests
    share = count_matches(program, stream, window).sum() / (64 * 5_000)
    if selectivity in (0.0, 1.0):
        assert share == selectivity
    else:
        assert share == pytest.approx(selectivity, rel=0.1)


def test_selectivity_is_a_share():
    with pytest.raises(ValueError, match=r"selectivity must be 0 to 1, not 1\.1"):
        keys(2, 2, 1.1)


def test_brute_force_counts_every_chunk(monkeypatch):
    monkeypatch.setattr(measure, "_CHUNK", 1_000)
    window = [np.arange(3_000, dtype=np.uint32)] * 2
    stream = [np.array(bounds, np.uint32) for bounds in ([500, 0], [2_499, 9], [0, 5], [1_999, 14])]
    counts = {"and": [1_500, 5], "or": [2_500, 15]}
    for name, table in (("and", 0b1000), ("or", 0b1110)):
        found = count_matches(BandProgram(2, table, 32), stream, window)
        assert found.tolist() == counts[name]


@pytest.mark.parametrize("selectivity", [0.0, 0.05])
def test_the_paper_s_pipeline_takes_two_cycles_per_window_tuple(selectivity):
    with FJoinAmaranthDevice(units=4) as device:
        done = run_whole(device, PROGRAM, *keys(8, 150, selectivity))
    assert (done.counters["units"], done.counters["passes"]) == (4, 2)
    assert done.counters["window_flits"] == 300
    assert 0.42 < done.per_cycle < 0.5
    assert (done.matches > 0) == (selectivity > 0)
    assert done.evaluations_per_s == done.counters["evaluations"] / done.seconds


@pytest.mark.parametrize("mode", [Mode.PAIRS, Mode.COUNT])
def test_ours_takes_one(mode):
    with AmaranthDevice(units=4) as device:
        done = run_whole(device, PROGRAM, *keys(4, 300, 0.1), mode)
    assert (done.tasks, done.counters["evaluations"]) == (1, 1200)
    assert 0.85 < done.per_cycle < 1
    assert done.matches > 0


def drop(result):
    return replace(result, i=result.i[1:], j=result.j[1:])


def double(result):
    return replace(result, i=np.append(result.i, result.i[0]), j=np.append(result.j, result.j[0]))


def move(result):
    return replace(result, j=np.zeros_like(result.j))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop, r"found \d+ matches of stream tuple \d+, not \d+"),
        (double, r"found pair \(\d+, \d+\) twice"),
        (move, r"found pair \(\d+, 0\), which does not match"),
    ],
)
def test_a_wrong_result_is_an_error(spoil, message, monkeypatch):
    with AmaranthDevice(units=4) as device:
        kernel = device.open(PROGRAM)
        finish = kernel._result
        monkeypatch.setattr(kernel, "_result", lambda *given: spoil(finish(*given)))
        monkeypatch.setattr(device, "open", lambda *_: kernel)
        with pytest.raises(DeviceError, match=message):
            run_whole(device, PROGRAM, *keys(3, 40, 0.3))


def test_other_modes_are_refused():
    with (
        AmaranthDevice(units=2) as device,
        pytest.raises(ValueError, match="mode must be pairs or count, not exists"),
    ):
        run_whole(device, PROGRAM, *keys(2, 2, 0), Mode.EXISTS)
