"""What bench/host rests on: streams that have the rate they are meant to have."""

from itertools import islice

import numpy as np
import pytest

from bench.host.prediction import LOAD, TICKS_PER_S, _parts, sustained_rates


def test_parts_have_the_rate_and_are_in_order():
    parts = list(islice(_parts(20_000), 20))
    seconds = 20 * LOAD.interval_s
    for source in "ab":
        times = np.concatenate([part[source]["t"].to_numpy() for part in parts])
        assert len(times) / seconds == pytest.approx(10_000)
        assert (np.diff(times) >= 0).all()
        assert times[-1] / TICKS_PER_S == pytest.approx(seconds, rel=0.01)


@pytest.mark.slow
def test_a_run_gives_a_rate():
    """How far off the prediction is depends on what else the machine does: not tested."""
    found = sustained_rates(runs=1, measured_s=1.0)
    assert len(found.runs) == 1
    rate, joined = found.runs[0]
    assert rate == found.predicted_per_s
    assert found.measured_per_s == pytest.approx((rate * joined) ** 0.5)
