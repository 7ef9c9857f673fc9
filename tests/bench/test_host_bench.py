"""What bench/host rests on: predictions and measured rates of one kind."""

import pytest

from bench.host.prediction import predicted_traffic, sustained_rates
from penstock.host.model.cpu import Cores

CORES = Cores(
    lanes=2, lane_evaluations_per_s=3e9, batch_s=1e-3, tuple_s=1e-7, task_s=1e-4, row_s=1e-7
)


def test_traffic_at_the_predicted_rate():
    """Twice the model's share is more than the model has."""
    traffic = predicted_traffic(CORES)
    load = traffic.load(0.2)
    assert 0.9 < CORES.utilisation(load) < 1  # rows take the rest
    assert traffic.sustained(CORES, 0.2, 0.5).rate_per_s < traffic.rate_per_s
    assert traffic.selectivity * load.evaluations_per_s == pytest.approx(traffic.results_per_s)


@pytest.mark.slow
def test_a_run_gives_a_rate():
    """How far off the prediction is depends on what else the machine does: not tested."""
    for one in sustained_rates(runs=2, measured_s=1.0):
        assert one.off == pytest.approx(one.predicted_per_s / one.measured_per_s - 1)
        assert 1e3 < one.measured_per_s < 1e8
