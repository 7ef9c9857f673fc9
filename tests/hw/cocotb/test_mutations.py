"""Kernels that break a rule of AXI, made by a change of one place in a source: all are found."""

from dataclasses import dataclass
from types import ModuleType

import pytest

from penstock.hw.export import kernel_verilog
from penstock.hw.kernel import axi, items, kernel, reader, shell, writer
from tests.hw.cocotb.builds import BUILDS
from tests.hw.cocotb.simulators import Simulation, missing
from tests.hw.formal.proof import Mutation, mutant

pytestmark = pytest.mark.skipif(bool(missing("icarus")), reason=missing("icarus") or "is there")

#: VALID rests every other cycle while it waits; the handshake itself stays in step.
_DROPPING = """\
            self._port(f"{channel}VALID").eq(burst.valid & ~self._rest(burst)),
            burst.ready.eq(self._port(f"{channel}READY") & ~self._rest(burst)),
        ]

    def _rest(self, burst: stream.Interface) -> Signal:
        rest = Signal()
        self._m.d.sync += rest.eq(burst.valid & ~rest)
        return rest
"""


@dataclass(frozen=True)
class Fault:
    """A mutation, whose part of the kernel it is, and what the monitor must say.

    Parameters
    ----------
    module : module
        Has the source.
    name : str
        The class that is replaced.
    user : module
        Where the kernel takes that class from.
    mutation : Mutation
    report : str
        Part of the violation.
    """

    module: ModuleType
    name: str
    user: ModuleType
    mutation: Mutation
    report: str


FAULTS = {
    "dropped VALID": Fault(
        axi,
        "MemoryPort",
        kernel,
        Mutation(
            '            self._port(f"{channel}VALID").eq(burst.valid),\n'
            '            burst.ready.eq(self._port(f"{channel}READY")),\n'
            "        ]\n",
            _DROPPING,
        ),
        "m_axi_gmem1 AR: VALID was dropped before READY",
    ),
    "unstable WDATA": Fault(
        axi,
        "MemoryPort",
        kernel,
        Mutation(
            'self._port("WDATA").eq(word.payload.data)',
            'self._port("WDATA").eq(word.payload.data ^ ~self._port("WREADY"))',
        ),
        "m_axi_gmem2 W: the payload changed while it was stalled",
    ),
    "early LAST": Fault(
        writer,
        "Writer",
        shell,
        Mutation(
            "word.payload.last.eq(last)",
            "word.payload.last.eq(last | (number == 2))",
        ),
        "m_axi_gmem2: WLAST before the last word",
    ),
    "missing LAST": Fault(
        axi,
        "MemoryPort",
        kernel,
        Mutation('self._port("WLAST").eq(word.payload.last)', 'self._port("WLAST").eq(0)'),
        "m_axi_gmem2: no WLAST with the last word",
    ),
    "read across 4 KiB": Fault(
        reader,
        "Reader",
        items,
        Mutation(
            "until.eq(sizes.burst_words - page[: sizes.burst_words.bit_length() - 1])",
            "until.eq(sizes.burst_words)",
        ),
        "a burst across 4 KiB",
    ),
    "write across 4 KiB": Fault(
        writer,
        "Writer",
        shell,
        Mutation(
            "until.eq(sizes.burst_words - page[: sizes.burst_words.bit_length() - 1])",
            "until.eq(sizes.burst_words)",
        ),
        "m_axi_gmem2: a burst across 4 KiB",
    ),
}


#: A fault of the handshake and of a burst's length.
SHORT = ("dropped VALID", "missing LAST")
CASES = [
    pytest.param(fault, id=name, marks=[pytest.mark.slow] * (name not in SHORT))
    for name, fault in FAULTS.items()
]


@pytest.mark.parametrize("fault", CASES)
def test_the_monitor_finds_it(fault, tmp_path, monkeypatch):
    changed = mutant(fault.module, fault.mutation)
    monkeypatch.setattr(fault.user, fault.name, getattr(changed, fault.name))
    simulation = Simulation("icarus", kernel_verilog(BUILDS["small"]().config), tmp_path)
    outcome, violations = simulation.run("small", ["random_tasks"])
    assert fault.report in violations, violations or outcome
    assert outcome["random_tasks"], "the case passed"
