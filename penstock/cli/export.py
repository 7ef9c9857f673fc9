"""``penstock export``: the kernel's Verilog and all that packaging and host software need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from penstock.cli import build, inputs, kernel_build
from penstock.cli.terminal import count, results
from penstock.constraints.boards import BOARDS, Board, Flow
from penstock.constraints.boards import board as find_board
from penstock.errors import UsageError
from penstock.host.device.operator import Operator


def command(
    board: Annotated[str, typer.Option(help=f"One of {', '.join(BOARDS)}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")],
    units: build.Units = 512,
    pipelines: kernel_build.Pipelines = 1,
    kernels: Annotated[
        int, typer.Option(help="Kernels on an Alveo card; link.cfg connects them to its memory.")
    ] = 1,
    operator: kernel_build.OperatorOption = Operator.RANGE,
    rows_depth: kernel_build.RowsDepth = None,
    banks: kernel_build.Banks = None,
    streams: Annotated[
        bool, typer.Option("--streams", help="Window kernel: AXI4-Stream ports, not memory.")
    ] = False,
    band: build.Band = None,
    key_bits: build.KeyBits = None,
    modes: build.Modes = None,
    sql: build.Sql = None,
    table: build.SqlTables = None,
    window: build.Window = None,
    time: inputs.Times = None,
    rows: inputs.RowsOption = None,
    within: inputs.WithinOption = None,
    param: inputs.Params = None,
    scale: inputs.Scales = None,
    time_zone: inputs.TimeZone = None,
    no_band: inputs.NoBand = False,
) -> None:
    """Write a kernel for a board: Verilog, register table, C header, kernel.xml, link.cfg.

    A band kernel (--band) runs every predicate in band form with as many tests or fewer. With
    --sql the kernel is as wide as the query and its files need; a predicate that has no band form
    is built in. With --modes it also folds matches: what tasks then ask for is an argument of
    theirs. With --operator window it is the window-join operator, fed from memory or, with
    --streams, from stream ports. The same input gives the same bytes on every machine.
    """
    entry = find_board(board)
    if streams and operator is Operator.RANGE:
        raise UsageError("--streams is for --operator window: add it")
    config = kernel_build.kernel_config(
        operator,
        build.Query(sql, table, time, rows, within, param, scale, time_zone, no_band, window),
        units=units,
        pipelines=pipelines,
        tests=band,
        key_bits=key_bits,
        modes=modes,
        depth=rows_depth,
        banks=banks,
    )
    from penstock.hw.export import export_kernel
    from penstock.hw.kernel.config import KernelConfig
    from penstock.hw.window.kernel.export import export_window_kernel

    try:
        if isinstance(config, KernelConfig):
            files = export_kernel(config, board, out, kernels=kernels)
            many = f"{pipelines} pipelines, each " if pipelines > 1 else ""
            kind = f"{many}{build.describe(config.join)}"
        else:
            made = config.window if streams else config
            files = export_window_kernel(made, board, out, kernels=kernels)
            fed = "from stream ports" if streams else "from memory"
            kind = f"{kernel_build.describe_window(config.window)}, fed {fed}"
    except ValueError as error:
        raise UsageError(str(error)) from None
    _show(files, kind, entry)


def _show(files: Sequence[Path], kind: str, entry: Board) -> None:
    shown = Table(box=None, show_header=False, pad_edge=False)
    shown.add_column()
    shown.add_column(justify="right")
    for file in files:
        shown.add_row(str(file), f"{count(file.stat().st_size)} bytes")
    results.print(shown)
    _line("kernel", kind)
    _line("target", f"{entry.part}, {entry.platform}, {entry.clock_mhz} MHz")
    _line("next", _next_step(entry.flow))


def _next_step(flow: Flow) -> str:
    if flow is Flow.VITIS:
        return (
            "package the Verilog and kernel.xml as an RTL kernel (xo), then link it: "
            "v++ --link --config link.cfg"
        )
    return "package the Verilog as an IP and connect it to the processing system in Vivado"


def _line(name: str, text: str) -> None:
    results.print(f"{name:8} {text}", markup=False, highlight=False, soft_wrap=True)
