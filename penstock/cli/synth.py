"""``penstock synth``: how large a build is, and what share of each board it takes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from penstock.cli import build, inputs
from penstock.cli.terminal import count, results
from penstock.constraints.boards import BOARDS, Board
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.hw.cells import Cells, LogicPath


class Build(StrEnum):
    """What to synthesise where no query says it."""

    BAND = "band"
    MANHATTAN = "manhattan"
    FJOIN = "fjoin"


@dataclass(frozen=True)
class Sizes:
    """What was measured of a build."""

    units: int
    cells: Cells
    #: Whether cells are the sum of parts that were synthesised by themselves.
    composed: bool = False
    path: LogicPath | None = None
    #: MHz on an ECP5 for each seed.
    clocks: list[float] = field(default_factory=list)


def command(
    what: Annotated[
        Build,
        typer.Option(
            "--build",
            help="Run-time band tests, a built-in Manhattan distance, or the paper's pipeline "
            "with that distance.",
        ),
    ] = Build.BAND,
    units: build.Units = 64,
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
    parts: Annotated[
        bool,
        typer.Option(
            help="Synthesise unit and block by themselves and add up: for builds that are too "
            "large for one piece. Counts a few per cent more LUTs."
        ),
    ] = False,
    depth: Annotated[bool, typer.Option(help="Also show the deepest logic.")] = False,
    ecp5: Annotated[
        bool,
        typer.Option(
            help="Also place and route on an ECP5, with three seeds: to compare builds with each "
            "other, not to know a clock on any board."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count the cells of a join pipeline with Yosys, for UltraScale+, and compare with boards."""
    query = build.Query(sql, table, time, rows, within, param, scale, time_zone, no_band, window)
    if what is not Build.BAND and (sql is not None or band is not None or modes is not None):
        raise UsageError(f"--build {what} is a predicate; --band, --modes and --sql are others")
    if what is Build.BAND:
        text, top = join_verilog(
            build.join_config(query, units=units, tests=band, key_bits=key_bits, modes=modes)
        )
    else:
        text, top = reference_verilog(what, units, build.KEY_BITS if key_bits is None else key_bits)
    sizes = measure(text, top, units, parts=parts, depth=depth, ecp5=ecp5)
    if as_json:
        typer.echo(json.dumps(_report(sizes), indent=2))
        return
    results.print(_totals(sizes))
    _notes(sizes)
    results.print()
    results.print(_shares(sizes.cells))


def join_verilog(config: Any) -> tuple[str, str]:
    """Verilog of a pipeline, and its top."""
    from penstock.hw.export import TOP, export

    return export(config), TOP


def reference_verilog(what: Build, units: int, key_bits: int) -> tuple[str, str]:
    """Verilog of a pipeline for the Manhattan distance, ours or the paper's, and its top.

    Raises
    ------
    UsageError
        There is no such build.
    MissingToolError
        The packages that hardware is generated with are not installed.
    """
    try:
        from penstock.hw.export import TOP, export
        from penstock.hw.join.config import JoinConfig
        from penstock.hw.join.fjoin.predicates import manhattan
        from penstock.hw.join.fjoin.size import FJOIN_TOP, fjoin_verilog
    except ModuleNotFoundError as error:
        raise build.missing(error) from None
    try:
        if what is Build.FJOIN:
            return fjoin_verilog(units, key_bits), FJOIN_TOP
        program = manhattan(key_bits, limit=500)
        return export(JoinConfig(units=units, program=program)), TOP
    except ValueError as error:
        raise UsageError(str(error)) from None


def measure(
    text: str,
    top: str,
    units: int,
    *,
    parts: bool = False,
    depth: bool = False,
    ecp5: bool = False,
) -> Sizes:
    """Cells of a design, and what else is asked for.

    Raises
    ------
    MissingToolError
        A tool is not installed.
    """
    from penstock.hw.cells import deepest, synthesise
    from penstock.hw.compose import compose
    from penstock.hw.pnr import ecp5_clocks

    return Sizes(
        units,
        compose(text, top) if parts else synthesise(text, top),
        composed=parts,
        path=deepest(text, top) if depth else None,
        clocks=ecp5_clocks(text, top) if ecp5 else [],
    )


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
    if sizes.path is not None:
        report["deepest"] = {
            "cells": list(sizes.path.cells),
            "luts": sizes.path.luts,
            "carry_chain_bits": sizes.path.chains,
        }
    if sizes.clocks:
        report["ecp5_mhz"] = sizes.clocks
    return report


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    return table


def _totals(sizes: Sizes) -> Table:
    table = _table("", "LUT", "FF", "block RAM", "DSP")
    numbers = asdict(sizes.cells).values()
    name = f"{sizes.units} units{', sum of parts' if sizes.composed else ''}"
    table.add_row(name, *(count(number) for number in numbers))
    table.add_row("per unit", *(f"{number / sizes.units:.1f}" for number in numbers))
    return table


def _notes(sizes: Sizes) -> None:
    lines = []
    if sizes.path is not None:
        lines.append(f"deepest logic: {sizes.path}")
    if sizes.clocks:
        low, high = min(sizes.clocks), max(sizes.clocks)
        lines.append(
            f"ECP5, {len(sizes.clocks)} seeds: {low:.0f} to {high:.0f} MHz; compare it with that "
            "of another build, not with a clock of a board"
        )
    for line in lines:
        results.print(line, markup=False, highlight=False, soft_wrap=True)


def _shares(cells: Cells) -> Table:
    table = _table("share of", "LUT", "FF", "block RAM", "DSP")
    for name, board in BOARDS.items():
        table.add_row(name, *(f"{share:.1%}" for share in _share(cells, board).values()))
    return table
