"""The model of workers: what a row costs, and what that allows."""

import pytest

from bench.workers.model import WorkersModel, fitted
from penstock.errors import UsageError


def test_a_row_costs_its_fold_and_the_part_that_is_shipped():
    model = WorkersModel(fold_s=40e-9, ship_s=20e-9)
    assert [model.cpu_s(n) for n in (1, 2, 4)] == pytest.approx([40e-9, 50e-9, 55e-9])


def test_one_and_two_workers_tell_both():
    model = fitted({1: 40e-9, 2: 50e-9, 8: 1.0})
    assert (model.fold_s, model.ship_s) == pytest.approx((40e-9, 20e-9))


@pytest.mark.parametrize("given", [{}, {1: 1.0}, {2: 1.0, 4: 1.0}])
def test_both_are_needed(given: dict[int, float]):
    with pytest.raises(UsageError, match="one and two"):
        fitted(given)


def test_threads_or_the_link_limit_nodes():
    model = WorkersModel(fold_s=100e-9, ship_s=0.0)
    assert model.rate(1, 1e9) == pytest.approx(10 / 100e-9), "nothing is shipped"
    assert model.rate(4, 0.0, threads=2) == pytest.approx(4 * 2 / 100e-9)
    # Half of all rows are shipped by two nodes: 10 bytes of 20 each, over 1e6 bytes per second.
    assert model.rate(2, 20.0, link=1e6) == pytest.approx(2 * 1e6 / 10)
