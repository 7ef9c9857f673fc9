import numpy as np
import pytest

from penstock.errors import DeviceError
from penstock.sim.amaranth_device import AmaranthDevice
from penstock.sim.fjoin_device import FJoinAmaranthDevice
from penstock.sim.measure import LIMIT, points, throughput


def test_points_match_as_often_as_asked():
    rng = np.random.default_rng(0)
    for share in (0.001, 0.01, 0.1):
        stream, window = points(rng, 300, 20_000, share)
        near = sum(abs(s[:, None] - w) for s, w in zip(stream, window, strict=True)) < LIMIT
        assert near.mean() == pytest.approx(share, rel=0.3)
    stream, window = points(rng, 300, 300, 0)
    assert max(map(np.max, stream)) + LIMIT < min(map(np.min, window))
    with pytest.raises(ValueError, match=r"selectivity must be 0 to 0\.5, not 0\.7"):
        points(rng, 3, 3, 0.7)


@pytest.mark.parametrize("selectivity", [0.0, 0.2])
def test_the_paper_s_pipeline_takes_two_cycles_per_window_tuple(selectivity):
    with FJoinAmaranthDevice(units=4) as device:
        done = throughput(
            device, stream_tuples=8, window_tuples=150, selectivity=selectivity, key_bits=16
        )
    assert (done.units, done.passes, done.window_flits) == (4, 2, 300)
    assert 0.42 < done.per_cycle < 0.5
    assert (done.pairs > 0) == (selectivity > 0)
    assert done.selectivity == done.pairs / 1200


def test_ours_takes_one():
    with AmaranthDevice(units=4) as device:
        done = throughput(device, stream_tuples=4, window_tuples=300, key_bits=16)
    assert 0.85 < done.per_cycle < 1


def test_a_wrong_result_is_an_error(monkeypatch):
    with AmaranthDevice(units=4) as device:
        monkeypatch.setattr("penstock.sim.measure._matches", lambda *_: 7)
        with pytest.raises(DeviceError, match="the device found 0 pairs, not 7"):
            throughput(device, stream_tuples=2, window_tuples=9, key_bits=16)
