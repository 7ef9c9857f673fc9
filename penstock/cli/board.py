"""``penstock board``: boards, virtual and real."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from penstock.cli import build, inputs, kernel_build
from penstock.cli.stopping import stops
from penstock.cli.terminal import count, results
from penstock.constraints.boards import BOARDS, Flow
from penstock.constraints.boards import board as find_board
from penstock.errors import MissingToolError, UsageError
from penstock.host.device.board.package import Package
from penstock.host.device.operator import Operator
from penstock.host.files import write_text

app = typer.Typer(help="Run a virtual board, make packages, test a board.", no_args_is_help=True)

#: PYNQ's port, which boards with its remote image listen on.
_LISTEN = "127.0.0.1:7967"
_MEMORY_MIB = 1024


@app.callback(invoke_without_command=True)
def command(
    context: typer.Context,
    virtual: Annotated[
        str | None, typer.Option(help="Run the virtual board of this name until interrupted.")
    ] = None,
    package: Annotated[
        list[Path] | None,
        typer.Option(
            help="Package that lies on it; repeat. Default: two band tests, as join kernel "
            "and as window-join operator."
        ),
    ] = None,
    listen: Annotated[str, typer.Option(help="HOST:PORT; port 0 takes a free one.")] = _LISTEN,
    units: Annotated[int, typer.Option(help="Join units of the default package.")] = 16,
    memory_mib: Annotated[int, typer.Option(help="Memory of the board.")] = _MEMORY_MIB,
    latency_cycles: Annotated[int, typer.Option(help="Latency of that memory.")] = 0,
    stalls: Annotated[float, typer.Option(help="Share of cycles in which a port stalls.")] = 0.0,
) -> None:
    """Boards, virtual and real."""
    if context.invoked_subcommand is not None:
        return
    if virtual is None:
        raise UsageError("give --virtual BOARD, or a command: penstock board --help")
    entry = find_board(virtual)
    if entry.flow is not Flow.VIVADO:
        zynq = ", ".join(name for name, one in BOARDS.items() if one.flow is Flow.VIVADO)
        raise UsageError(f"{virtual} has no remote protocol; virtual boards are {zynq}")
    try:
        from penstock.sim.virtual_board.service import serve
    except ModuleNotFoundError as error:
        raise MissingToolError(
            f"the virtual board needs the package {error.name}, which is not installed; "
            "pip install 'penstock[board,rtl]' into an environment of its own"
        ) from error
    from penstock.hw.join.config import JoinConfig
    from penstock.hw.kernel.config import KernelConfig
    from penstock.sim.deploy import deploy
    from penstock.sim.pipeline_device import block_of
    from penstock.sim.verilated.board import MemoryModel
    from penstock.sim.virtual_board.deploy import virtual_package

    with stops() as stop, ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="penstock-board-")))
        if package:
            packages = [Package.read(one) for one in package]
        else:
            join = JoinConfig(units=units, units_per_block=block_of(units), tests=2, key_bits=32)
            configs = [KernelConfig.fit(join), kernel_build.window_config()]
            packages = [
                virtual_package(config, virtual, folder / f"default-{number}")
                for number, config in enumerate(configs)
            ]
        deploy(packages, folder / "deployed")
        server = cleanup.enter_context(
            serve(
                virtual,
                MemoryModel(latency_cycles=latency_cycles, stalls=stalls),
                memory_bytes=memory_mib << 20,
                deployed=folder / "deployed",
                address=listen,
            )
        )
        host = listen.rpartition(":")[0]
        _say(f"virtual {virtual} at {host}:{server.port}")
        for one in packages:
            _say(f"  {one.overlay}: {_summary(one)}")
        stop.wait()
    _say("stopped")


@app.command("package")
def package(
    board: Annotated[str, typer.Option(help=f"One of {', '.join(BOARDS)}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")],
    virtual: Annotated[
        bool, typer.Option("--virtual", help="For the virtual board, which runs Verilog.")
    ] = False,
    overlay: Annotated[
        Path | None,
        typer.Option(
            help="What the vendor's tools made of the export: .bit (with .hwh) or .xclbin."
        ),
    ] = None,
    units: build.Units = 16,
    pipelines: kernel_build.Pipelines = 1,
    kernels: Annotated[int, typer.Option(help="Kernels on the board.")] = 1,
    leds: Annotated[
        bool,
        typer.Option(
            "--leds",
            help="With --virtual, an AXI GPIO beside the kernels: what PYNQ's own self-test of "
            "remote boards writes to and reads back.",
        ),
    ] = False,
    operator: kernel_build.OperatorOption = Operator.RANGE,
    rows_depth: kernel_build.RowsDepth = None,
    banks: kernel_build.Banks = None,
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
    """Make the folder that the board device loads a kernel from.

    The options of the kernel are those of `penstock export`, and must be the same for an --overlay
    that was made from an export.
    """
    if virtual == (overlay is not None):
        raise UsageError("give either --virtual, or the --overlay that the vendor's tools made")
    if leds and (not virtual or find_board(board).flow is not Flow.VIVADO):
        raise UsageError("--leds is for virtual Zynq boards; an overlay has what its design has")
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
    from penstock.sim.builds import build_of
    from penstock.sim.deploy import made_package
    from penstock.sim.virtual_board.deploy import virtual_package

    if overlay is None:
        made = virtual_package(config, board, out, kernels=kernels, leds=leds)
    else:
        made = made_package(build_of(config), board, out, overlay, kernels=kernels)
    _say(f"{out}: {made.overlay}, {_summary(made)}")


@app.command("build")
def make(
    board: Annotated[str, typer.Option(help=f"One of {', '.join(BOARDS)}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to build in.")],
    units: build.Units = 64,
    pipelines: kernel_build.Pipelines = 1,
    kernels: Annotated[int, typer.Option(help="Kernels on the board.")] = 1,
    operator: kernel_build.OperatorOption = Operator.RANGE,
    rows_depth: kernel_build.RowsDepth = None,
    banks: kernel_build.Banks = None,
    band: build.Band = None,
    key_bits: build.KeyBits = None,
    modes: build.Modes = None,
    scripts_only: Annotated[
        bool, typer.Option("--scripts-only", help="Write everything, run nothing.")
    ] = False,
) -> None:
    """Build what a board loads: export a kernel, run Vivado (and v++ for a card), make a package.

    The vendor's tools must be on the path. Takes an hour for a small board, many for a card.
    """
    config = kernel_build.kernel_config(
        operator,
        build.Query(None),
        units=units,
        pipelines=pipelines,
        tests=band,
        key_bits=key_bits,
        modes=modes,
        depth=rows_depth,
        banks=banks,
    )
    from penstock.hw.board.build import build_overlay, check_tools
    from penstock.hw.board.scripts import build_scripts
    from penstock.hw.export import write_package
    from penstock.hw.kernel.link import compute_units
    from penstock.sim.builds import build_of
    from penstock.sim.deploy import made_package

    entry = find_board(board)
    if not scripts_only:
        check_tools(entry)
    kernel = build_of(config)
    description = kernel.description
    # Several kernels on a Zynq board are in its block design; the export knows cards only.
    linked = kernels if entry.flow is Flow.VITIS else 1
    files = write_package(description, kernel.verilog, board, out, kernels=linked)
    names = compute_units(kernels, description.kernel)
    for name, text in build_scripts(description, entry, names).items():
        files.append(out / name)
        write_text(files[-1], text)
    for file in files:
        _say(str(file))
    if scripts_only:
        return
    overlay = build_overlay(description, entry, out, _say)
    made = made_package(kernel, board, out / "package", overlay, kernels=kernels)
    _say(f"{out / 'package'}: {made.overlay}, {_summary(made)}")


@app.command("selftest")
def selftest(
    address: inputs.Address = None,
    package: inputs.Package = None,
    timeout_s: Annotated[float, typer.Option(help="Seconds a task may take.")] = 60.0,
) -> None:
    """Test registers and memory of a board, a known join, and its cycles against the model."""
    from penstock.host.device.board.selftest import selftest as findings

    given = {"address": address, "package": package, "timeout_s": timeout_s}
    passed = True
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("step", "", ""):
        shown.add_column(name, overflow="fold")
    with inputs.open_named(inputs.BOARD, **given) as device:
        for finding in findings(device):  # pyright: ignore[reportArgumentType]
            passed &= finding.passed
            mark = "[green]ok[/]" if finding.passed else "[red]FAILED[/]"
            shown.add_row(finding.what, mark, finding.text)
    results.print(shown)
    raise typer.Exit(0 if passed else 1)


def _summary(package: Package) -> str:
    geometry, copies = package.table["geometry"], len(package.instances)
    tests = f"{geometry['tests']} band tests"
    if package.is_window:
        rows, banks = count(geometry["depth"]), geometry["banks"]
        return f"{copies} x window join of up to {rows} ROWS, {banks} banks, {tests}"
    form = tests if package.program is None else "a built-in predicate"
    return f"{copies} x {geometry['units']} units, {form}"


def _say(text: str) -> None:
    results.print(text, highlight=False, soft_wrap=True)
