"""``penstock synth``: counts a build's cells, and their share of each board."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.table import Table

from penstock.constraints.boards import BOARDS, Board

from ..errors import UsageError
from ..words import count
from . import pipeline_options
from .options import application, group, option
from .terminal import NUMBERS, results, say, say_json, table

if TYPE_CHECKING:
    from penstock.hw.cells import Cells
    from penstock.hw.join.config import JoinConfig
    from penstock.hw.paths import TimedPath


#: Paths that are shown.
SHOWN = 8
#: Units up to which a kernel is mapped in one piece for its paths.
FLAT_UNITS = 64
#: Kinds of cells, as headings.
_KINDS = ("LUT", "FF", "block RAM", "DSP")


class SynthPipeline(StrEnum):
    """A pipeline to synthesise where no query describes one."""

    BAND = "band"
    MANHATTAN = "manhattan"
    FJOIN = "fjoin"


@dataclass(frozen=True)
class Sizes:
    """Measurements of a build."""

    units: int
    cells: Cells
    #: Whether cells are the sum of separately synthesised parts.
    composed: bool = False
    #: Longest first, of the kernel around the pipeline.
    paths: list[TimedPath] = field(default_factory=list)
    #: MHz on an ECP5 for each seed.
    clocks: list[float] = field(default_factory=list)


@group
class Extra:
    """The method of counting a build's cells, and further measurements."""

    parts: bool = option(
        "Synthesise unit and block by themselves and add up: for builds that are too "
        "large for one piece. Counts a few per cent more LUTs.",
        default=False,
    )
    paths: bool = option(
        "Also show the longest paths of the whole kernel in nanoseconds, with delays of an "
        "UltraScale+ at speed grade -2 and 0.3 ns per net.",
        default=False,
    )
    ecp5: bool = option(
        "Also place and route the whole kernel, with ports of 64 bits, on an ECP5, with five "
        "seeds: to compare builds with each other, not to know a clock on any board. 128 units "
        "take some 10 minutes per seed.",
        default=False,
    )

    def measured(self, text: str, top: str, units: int, config: JoinConfig | None = None) -> Sizes:
        """Count the cells of a design, and take the requested further measurements.

        Parameters
        ----------
        text, top : str
            Verilog of a pipeline, and its top module.
        units : int
        config : JoinConfig, optional
            The build, if it has a kernel.

        Raises
        ------
        MissingToolError
            A tool is not installed.
        """
        from penstock.hw.cells import synthesise
        from penstock.hw.compose import compose
        from penstock.hw.pnr import ecp5_clocks

        return Sizes(
            units,
            compose(text, top) if self.parts else synthesise(text, top),
            composed=self.parts,
            paths=kernel_paths(config) if self.paths and config is not None else [],
            clocks=ecp5_clocks(*(text, top) if config is None else kernel(config, _ECP5_PORT_BITS))
            if self.ecp5
            else [],
        )


#: Ports of a kernel on an ECP5, whose memories are narrow.
_ECP5_PORT_BITS = 64


@application
def app(
    *,
    design: SynthPipeline = option(
        "Run-time band tests, a built-in Manhattan distance, or the paper's pipeline "
        "with that distance.",
        "--build",
        default=SynthPipeline.BAND,
    ),
    units: pipeline_options.Units = 64,
    pipeline: pipeline_options.PipelineArguments,
    query: pipeline_options.BuildQuery,
    extra: Extra,
    as_json: bool = option("Print JSON.", "--json", default=False),
) -> None:
    """Count the cells of a join pipeline with Yosys, for UltraScale+, and compare with boards."""
    band_options = (query.sql, pipeline.band, pipeline.modes)
    if design is not SynthPipeline.BAND and any(option is not None for option in band_options):
        raise UsageError(f"--build {design} is a predicate; --band, --modes and --sql are others")
    if design is SynthPipeline.BAND:
        config = pipeline.config(units, query)
        from penstock.hw.export import TOP, export

        text, top = export(config), TOP
    elif extra.paths:
        raise UsageError(f"--paths shows those of a kernel, and there is none of --build {design}")
    else:
        config = None
        key_bits = pipeline_options.KEY_BITS if pipeline.key_bits is None else pipeline.key_bits
        text, top = reference_verilog(design, units, key_bits)
    sizes = extra.measured(text, top, units, config)
    if as_json:
        say_json(_report(sizes))
        return
    results.print(_totals(sizes))
    _print_notes(sizes)
    results.print()
    results.print(_shares(sizes.cells))


def kernel_paths(config: JoinConfig) -> list[TimedPath]:
    """The longest paths of the kernel of a build.

    Raises
    ------
    MissingToolError
        Yosys is not installed.
    """
    from penstock.hw.paths import longest_paths

    return longest_paths(*kernel(config), SHOWN, flat=config.units <= FLAT_UNITS)


def kernel(config: JoinConfig, port_bits: int = 512) -> tuple[str, str]:
    """The kernel of a build with ports of this width: its Verilog and top module."""
    from penstock.hw.export import kernel_verilog
    from penstock.hw.join.kernel.config import KernelConfig
    from penstock.hw.join.kernel.describe import KERNEL

    return kernel_verilog(KernelConfig.fit(config, word_bits=port_bits)), KERNEL


def reference_verilog(design: SynthPipeline, units: int, key_bits: int) -> tuple[str, str]:
    """Generate a pipeline for the Manhattan distance, ours or the paper's: its Verilog and top.

    Raises
    ------
    UsageError
        There is no such build.
    MissingToolError
        The packages that hardware is generated with are not installed.
    """
    with pipeline_options.building():
        from penstock.hw.export import TOP, export
        from penstock.hw.join.config import JoinConfig
        from penstock.hw.join.fjoin.predicates import manhattan
        from penstock.hw.join.fjoin.size import FJOIN_TOP, fjoin_verilog

        if design is SynthPipeline.FJOIN:
            return fjoin_verilog(units, key_bits), FJOIN_TOP
        program = manhattan(key_bits, limit=500)
        return export(JoinConfig(units=units, program=program)), TOP


def _share(cells: Cells, board: Board) -> dict[str, float]:
    return {kind: number / getattr(board, kind) for kind, number in asdict(cells).items()}


def _report(sizes: Sizes) -> dict[str, Any]:
    report: dict[str, Any] = {
        "units": sizes.units,
        "composed": sizes.composed,
        "cells": asdict(sizes.cells),
        "per_unit": {kind: n / sizes.units for kind, n in asdict(sizes.cells).items()},
        "boards": {name: _share(sizes.cells, board) for name, board in BOARDS.items()},
    }
    if sizes.paths:
        report["paths"] = [
            {"ns": path.ns, "cells": [asdict(step) for step in path.steps], "end": path.end}
            for path in sizes.paths
        ]
    if sizes.clocks:
        report["ecp5_mhz"] = sizes.clocks
    return report


def _totals(sizes: Sizes) -> Table:
    numbers = asdict(sizes.cells).values()
    name = f"{sizes.units} units{', sum of parts' if sizes.composed else ''}"
    whole = name, *map(count, numbers)
    each = "per unit", *(f"{number / sizes.units:.1f}" for number in numbers)
    return table("", *_KINDS, rows=(whole, each), right=NUMBERS)


def _print_notes(sizes: Sizes) -> None:
    if sizes.paths:
        say(
            f"longest paths of the kernel, which allow {sizes.paths[0].mhz:.0f} MHz before it is "
            "placed and routed:"
        )
        for path in sizes.paths:
            say(f"  {path}")
    if sizes.clocks:
        low, middle, high = min(sizes.clocks), median(sizes.clocks), max(sizes.clocks)
        say(
            f"ECP5, {len(sizes.clocks)} seeds: {low:.0f} to {high:.0f} MHz, {middle:.0f} in the "
            "middle; compare it with that of another build, not with a clock of a board"
        )


def _shares(cells: Cells) -> Table:
    rows = (
        (name, *(f"{share:.1%}" for share in _share(cells, board).values()))
        for name, board in BOARDS.items()
    )
    return table("share of", *_KINDS, rows=rows, right=NUMBERS)
