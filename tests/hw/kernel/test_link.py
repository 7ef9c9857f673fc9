import re
from dataclasses import replace

import pytest

from penstock.constraints.boards import BOARDS, ToolFlow, board
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import describe
from penstock.hw.kernel.link import link_config

KERNEL = describe(KernelConfig.fit(JoinConfig(units=2, tests=1, key_bits=8)))
ARGUMENTS = ("passes", "tuples", "window", "results")


@pytest.mark.parametrize(
    ("name", "kernels", "error", "message"),
    [
        ("u280", 0, ValueError, "kernels must be at least 1, not 0"),
        ("u280", 1.5, TypeError, "kernels must be an integer, not 1.5"),
        ("zcu104", 1, ValueError, "memory must be HBM or DDR, not 'PS'"),
    ],
)
def test_bad_arguments(name, kernels, error, message):
    with pytest.raises(error, match=message):
        link_config(KERNEL, board(name), kernels)


def test_two_kernels():
    lines = link_config(KERNEL, board("u200"), 2).splitlines()
    start = lines.index("[connectivity]")
    assert lines[start : lines.index("", start)] == [
        "[connectivity]",
        "nk=penstock_kernel:2:penstock_kernel_1.penstock_kernel_2",
        "sp=penstock_kernel_1.passes:DDR[0]",
        "sp=penstock_kernel_1.tuples:DDR[0]",
        "sp=penstock_kernel_1.window:DDR[3]",
        "sp=penstock_kernel_1.results:DDR[1]",
        "sp=penstock_kernel_2.passes:DDR[2]",
        "sp=penstock_kernel_2.tuples:DDR[2]",
        "sp=penstock_kernel_2.window:DDR[3]",
        "sp=penstock_kernel_2.results:DDR[0]",
        "slr=penstock_kernel_1:SLR0",
        "slr=penstock_kernel_2:SLR1",
    ]


@pytest.mark.parametrize("name", [n for n, b in BOARDS.items() if b.flow is ToolFlow.VITIS])
@pytest.mark.parametrize("kernels", [1, 3, 12])
def test_each_card(name, kernels):
    """Every argument is connected once, to banks there are; all kernels reach the windows."""
    board = BOARDS[name]
    text = link_config(KERNEL, board, kernels)
    found = re.findall(r"^sp=(\w+)\.(\w+):(\w+)\[(\d+)(?::(\d+))?\]$", text, re.MULTILINE)
    assert len(found) == kernels * len(ARGUMENTS)
    assert {argument for _, argument, *_ in found} == set(ARGUMENTS)
    assert {memory for _, _, memory, *_ in found} == {board.memory}
    windows = {(first, last) for _, argument, _, first, last in found if argument == "window"}
    assert len(windows) == 1
    first, last = windows.pop()
    assert int(last or first) == board.banks - 1
    own = [int(bank) for _, argument, _, bank, _ in found if argument in ("passes", "results")]
    assert len(set(own)) == min(2 * kernels, int(first))
    assert max(own) < int(first)
    assert len(re.findall("^slr=", text, re.MULTILINE)) == (kernels if board.slrs > 1 else 0)


def test_a_single_bank_holds_everything():
    small = replace(board("u200"), banks=1, slrs=1)
    text = link_config(KERNEL, small, 2)
    assert "slr=" not in text.partition("[connectivity]")[2]
    assert len(re.findall(r"^sp=\S+:DDR\[0\]$", text, re.MULTILINE)) == 2 * len(ARGUMENTS)
