"""The exported window kernel with stream ports, between independent bus models."""

import pytest

from penstock.hw.window.kernel.export import window_kernel_verilog
from penstock.hw.window.kernel.stream_kernel import STREAM_KERNEL
from tests.hw.cocotb.simulators import Simulation, missing


@pytest.mark.parametrize(
    "simulator",
    [
        pytest.param(
            "icarus",
            marks=pytest.mark.skipif(bool(missing("icarus")), reason=str(missing("icarus"))),
        ),
        pytest.param(
            "verilator",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(bool(missing("verilator")), reason=str(missing("verilator"))),
            ],
        ),
    ],
)
def test_all_cases(simulator, tmp_path):
    from tests.hw.cocotb.stream_cases import CONFIG

    simulation = Simulation(
        simulator,
        window_kernel_verilog(CONFIG),
        tmp_path,
        top=STREAM_KERNEL,
        cases="tests.hw.cocotb.stream_cases",
    )
    outcome, _ = simulation.run("")
    assert len(outcome) == 6
    failed = {case: failure for case, failure in outcome.items() if failure}
    assert not failed, f"{failed}\n{simulation.log()}"
