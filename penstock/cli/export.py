"""``penstock export``: writes a kernel's Verilog, and files for packaging and host software."""

from __future__ import annotations

from penstock.constraints.boards import BOARDS, ToolFlow
from penstock.constraints.boards import board as find_board

from ..words import count
from . import pipeline_options
from .options import application, option
from .terminal import NUMBERS, results, say, table

#: What to do with the files.
_NEXT = {
    ToolFlow.VITIS: "package the Verilog and kernel.xml as an RTL kernel (xo), then link it: "
    "v++ --link --config link.cfg",
    ToolFlow.VIVADO: "package the Verilog as an IP and connect it to the processing system in "
    "Vivado",
}


@application
def app(
    *,
    board: str = option(f"One of {', '.join(BOARDS)}.", required=True),
    out: pipeline_options.Out,
    units: pipeline_options.Units = 512,
    kernels: int = option(
        "Kernels on the board; of a card, link.cfg connects them to its memory.", default=1
    ),
    kernel: pipeline_options.KernelArguments,
    query: pipeline_options.BuildQuery,
) -> None:
    """Write a kernel for a board: Verilog, register table, C header, kernel.xml, link.cfg.

    A band kernel (--band) runs every predicate in band form with as many tests or fewer. With
    --sql the kernel is as wide as the query and its files need; a predicate that has no band form
    is built in. With --modes it also folds matches: what tasks then ask for is an argument of
    theirs. With --operator window it is the window-join operator. Memory ports are as wide as the
    board's. The same input gives the same bytes on every machine.
    """
    entry = find_board(board)
    config = kernel.config(units, query, entry)
    from penstock.hw.export import export_kernel
    from penstock.hw.join.kernel.config import KernelConfig
    from penstock.hw.window.kernel.export import export_window_kernel

    with pipeline_options.building():
        if isinstance(config, KernelConfig):
            files = export_kernel(config, board, out, kernels=kernels)
            many = f"{kernel.pipelines} pipelines, each " if kernel.pipelines > 1 else ""
            kind = f"{many}{pipeline_options.describe(config.join)}"
        else:
            files = export_window_kernel(config, board, out, kernels=kernels)
            kind = pipeline_options.describe_window(config.window)
    sizes = ((str(file), f"{count(file.stat().st_size)} bytes") for file in files)
    results.print(table("", "", rows=sizes, right=NUMBERS))
    say(f"kernel   {kind}")
    say(f"target   {entry.part}, {entry.platform}, {entry.clock_mhz} MHz")
    say(f"next     {_NEXT[entry.flow]}")
