"""The exported kernel between independent bus models, in two simulators."""

import pytest

from penstock.hw.export import kernel_verilog
from tests.hw.cocotb.builds import BUILDS
from tests.hw.cocotb.simulators import Simulation, missing
from tests.kit.effort import effort

#: One simulator runs the band kernel in every test run; the general one has the same ports.
SLOW = {("icarus", "general"), ("verilator", "band"), ("verilator", "general")}

RUNS = [
    pytest.param(
        simulator,
        build,
        id=f"{simulator}-{build}",
        marks=[
            pytest.mark.skipif(bool(missing(simulator)), reason=missing(simulator) or "is there"),
            *([pytest.mark.slow] if (simulator, build) in SLOW else []),
        ],
    )
    for simulator in ("icarus", "verilator")
    for build in ("band", "general")
]

#: All; in the short run without those that take longest.
CASES = effort(
    None,
    [
        *("registers", "addresses_without_a_register", "control_and_interrupt"),
        *("random_tasks", "impossible_arguments"),
    ],
)


@pytest.mark.parametrize(("simulator", "build"), RUNS)
def test_all_cases(simulator, build, tmp_path):
    simulation = Simulation(simulator, kernel_verilog(BUILDS[build]().config), tmp_path)
    outcome, violations = simulation.run(build, CASES)
    assert len(outcome) == effort(8, 5)
    failed = {case: failure for case, failure in outcome.items() if failure}
    assert not failed, f"{failed}\n{simulation.log()}"
    assert violations == "", violations
