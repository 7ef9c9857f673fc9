"""``penstock board``: runs virtual boards, makes packages, tests boards."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from penstock.constraints.boards import BOARDS, ToolFlow
from penstock.constraints.boards import board as find_board
from penstock.host.devices.board.package import Package
from penstock.host.rows.files import write_text

from ..errors import MissingToolError, UsageError, installing
from ..words import count
from . import inputs, pipeline_options
from .options import Commands, group, grouped, option
from .stopping import stops
from .terminal import results, say, table

app = Commands("Run a virtual board, make packages, test a board.")

Board = Annotated[str, typer.Option(help=f"One of {', '.join(BOARDS)}.")]
Kernels = Annotated[int, typer.Option(help="Kernels on the board.")]
Clock = Annotated[
    int | None,
    typer.Option(help="Clock that kernels are built for, at most the board's, the default."),
]

#: PYNQ's port, which boards with its remote image listen on.
_LISTEN = "127.0.0.1:7967"


@group
class VirtualBoard:
    """A virtual board and its packages."""

    virtual: str | None = option("Run the virtual board of this name until interrupted.")
    package: list[Path] | None = option(
        "Package that lies on it; repeat. Default: two band tests, as join kernel "
        "and as window-join operator."
    )
    listen: str = option("HOST:PORT; port 0 takes a free one.", default=_LISTEN)
    units: int = option("Join units of the default package.", default=16)
    memory_mib: int = option("Memory of the board.", default=1024)
    latency_cycles: int = option("Latency of that memory.", default=0)
    stalls: float = option("Share of cycles in which a port stalls.", default=0.0)

    def packages(self, board: str, folder: Path) -> list[Package]:
        """Read the packages, or make the default ones in a folder."""
        if self.package:
            return [Package.read(one) for one in self.package]
        from penstock.hw.join.config import JoinConfig
        from penstock.hw.join.kernel.config import KernelConfig
        from penstock.sim.pipeline_device import block_of
        from penstock.sim.virtual_board.deploy import virtual_package

        block = block_of(self.units)
        join = JoinConfig(units=self.units, units_per_block=block, tests=2, key_bits=32)
        entry = find_board(board)
        configs = [
            KernelConfig.fit(join, word_bits=entry.port_bits),
            pipeline_options.window_config(entry),
        ]
        return [
            virtual_package(config, board, folder / f"default-{number}")
            for number, config in enumerate(configs)
        ]


@app.callback(invoke_without_command=True)
@grouped
def command(context: typer.Context, board: VirtualBoard) -> None:
    """Boards, virtual and real."""
    if context.invoked_subcommand is not None:
        return
    name = board.virtual
    if name is None:
        raise UsageError("give --virtual BOARD, or a command: penstock board --help")
    if find_board(name).flow is not ToolFlow.VIVADO:
        zynq = ", ".join(name for name, one in BOARDS.items() if one.flow is ToolFlow.VIVADO)
        raise UsageError(f"{name} has no remote protocol; virtual boards are {zynq}")
    try:
        from penstock.sim.virtual_board.service import serve
    except ModuleNotFoundError as error:
        raise MissingToolError(
            f"the virtual board needs the package {error.name}, which is not installed; "
            f"in an environment of its own, {installing('board,rtl')}"
        ) from error
    from penstock.sim.deploy import deploy
    from penstock.sim.verilated.verilated_board import MemoryModel

    with stops() as wait, tempfile.TemporaryDirectory(prefix="penstock-board-") as folder:
        packages = board.packages(name, Path(folder))
        deployed = Path(folder) / "deployed"
        deploy(packages, deployed)
        with serve(
            name,
            MemoryModel(latency_cycles=board.latency_cycles, stalls=board.stalls),
            memory_bytes=board.memory_mib << 20,
            deployed=deployed,
            address=board.listen,
        ) as server:
            say(f"virtual {name} at {board.listen.rpartition(':')[0]}:{server.port}")
            for one in packages:
                say(f"  {one.overlay}: {_summary(one)}")
            wait()
    say("stopped")


@app.grouped("package")
def package(
    *,
    board: Board,
    out: pipeline_options.Out,
    virtual: bool = option(
        "For the virtual board, which runs Verilog.", "--virtual", default=False
    ),
    overlay: Path | None = option(
        "What the vendor's tools made of the export: .bit (with .hwh) or .xclbin."
    ),
    units: pipeline_options.Units = 16,
    kernels: Kernels = 1,
    clock_mhz: Clock = None,
    leds: bool = option(
        "With --virtual, an AXI GPIO beside the kernels: what PYNQ's own self-test of "
        "remote boards writes to and reads back.",
        "--leds",
        default=False,
    ),
    kernel: pipeline_options.KernelArguments,
    query: pipeline_options.BuildQuery,
) -> None:
    """Make the folder that the board device loads a kernel from.

    The options of the kernel are those of `penstock export`, and must be the same for an --overlay
    that was made from an export.
    """
    if virtual == (overlay is not None):
        raise UsageError("give either --virtual, or the --overlay that the vendor's tools made")
    if leds and (not virtual or find_board(board).flow is not ToolFlow.VIVADO):
        raise UsageError("--leds is for virtual Zynq boards; an overlay has what its design has")
    if virtual and clock_mhz is not None:
        raise UsageError("--clock-mhz is for an --overlay; a virtual board has its board's clock")
    config = kernel.config(units, query, find_board(board))
    from penstock.sim.builds import build_of
    from penstock.sim.deploy import made_package
    from penstock.sim.virtual_board.deploy import virtual_package

    if overlay is None:
        packed = virtual_package(config, board, out, kernels=kernels, leds=leds)
    else:
        packed = made_package(
            build_of(config), board, out, overlay, kernels=kernels, clock_mhz=clock_mhz
        )
    say(f"{out}: {packed.overlay}, {_summary(packed)}")


@app.grouped("build")
def make(
    *,
    board: Board,
    out: Path = option("Folder to build in.", "--out", "-o", required=True),
    units: pipeline_options.Units = 64,
    kernels: Kernels = 1,
    kernel: pipeline_options.KernelArguments,
    clock_mhz: Clock = None,
    scripts_only: bool = option("Write everything, run nothing.", "--scripts-only", default=False),
) -> None:
    """Build a package that a board loads: export a kernel, run Vivado (and v++ for a card).

    The vendor's tools must be on the path. Takes an hour for a small board, many for a card.
    """
    entry = find_board(board, clock_mhz)
    config = kernel.config(units, pipeline_options.BuildQuery(), entry)
    from penstock.hw.board.build import build_overlay, check_tools
    from penstock.hw.board.scripts import build_scripts
    from penstock.hw.export import write_package
    from penstock.hw.kernel.link import compute_units
    from penstock.sim.builds import build_of
    from penstock.sim.deploy import made_package

    if not scripts_only:
        check_tools(entry)
    made_kernel = build_of(config)
    description = made_kernel.description
    files = write_package(description, made_kernel.verilog, board, out, kernels=kernels)
    names = compute_units(kernels, description.kernel)
    for name, text in build_scripts(description, entry, names).items():
        files.append(out / name)
        write_text(files[-1], text)
    for file in files:
        say(str(file))
    if scripts_only:
        return
    overlay = build_overlay(description, entry, out, say)
    folder = out / "package"
    packed = made_package(made_kernel, board, folder, overlay, kernels=kernels, clock_mhz=clock_mhz)
    say(f"{folder}: {packed.overlay}, {_summary(packed)}")


@app.grouped("selftest")
def selftest(
    address: inputs.Address = None,
    package: inputs.Package = None,
    timeout_s: float = option("Seconds a task may take.", default=60.0),
) -> None:
    """Test registers and memory of a board, a known join, and its cycles against the model."""
    from penstock.host.devices.board.selftest import selftest as findings

    arguments = {"address": address, "package": package, "timeout_s": timeout_s}
    passed = True
    shown = table("step", "", "")
    with inputs.open_named(inputs.BOARD, **arguments) as device:
        for finding in findings(device):  # pyright: ignore[reportArgumentType]
            passed &= finding.passed
            mark = "[green]ok[/]" if finding.passed else "[red]FAILED[/]"
            shown.add_row(finding.step, mark, finding.text)
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
