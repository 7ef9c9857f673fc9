"""``penstock synth``: how large a build is, and what share of each board it takes."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from penstock.cli.terminal import count, results
from penstock.constraints.boards import BOARDS, Board
from penstock.errors import MissingToolError, UsageError

if TYPE_CHECKING:
    from penstock.hw.cells import Cells


class Build(StrEnum):
    """What to synthesise."""

    BAND = "band"
    MANHATTAN = "manhattan"
    FJOIN = "fjoin"


def command(
    build: Annotated[
        Build,
        typer.Option(
            help="Run-time band tests, a built-in Manhattan distance, or the paper's pipeline "
            "with that distance."
        ),
    ] = Build.BAND,
    tests: Annotated[int, typer.Option(help="Band tests, 1 to 8.")] = 2,
    key_bits: Annotated[int, typer.Option(help="Width of a key.")] = 32,
    units: Annotated[int, typer.Option(help="Join units.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count the cells of a join pipeline with Yosys, for UltraScale+, and compare with boards."""
    try:
        cells = size(build, tests=tests, key_bits=key_bits, units=units)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if as_json:
        typer.echo(json.dumps(_report(cells, units), indent=2))
        return
    results.print(_totals(cells, units))
    results.print()
    results.print(_shares(cells))


def size(build: Build, *, tests: int, key_bits: int, units: int) -> Cells:
    """Cells of a build.

    Raises
    ------
    ValueError
        There is no such build.
    MissingToolError
        Amaranth or Yosys is not installed.
    """
    try:
        from penstock.hw.cells import count_cells
        from penstock.hw.join.config import JoinConfig
        from penstock.hw.join.fjoin.predicates import manhattan
        from penstock.hw.join.fjoin.size import count_fjoin
    except ModuleNotFoundError as error:
        raise MissingToolError(
            f"hardware is generated with {error.name}, which is not installed; "
            "run `pip install 'penstock[rtl]'`"
        ) from None
    if build is Build.BAND:
        return count_cells(JoinConfig(units=units, tests=tests, key_bits=key_bits))
    if build is Build.MANHATTAN:
        return count_cells(JoinConfig(units=units, program=manhattan(key_bits, limit=500)))
    return count_fjoin(units, key_bits)


def _share(cells: Cells, board: Board) -> dict[str, float]:
    return {kind: number / getattr(board, kind) for kind, number in asdict(cells).items()}


def _report(cells: Cells, units: int) -> dict:
    return {
        "units": units,
        "cells": asdict(cells),
        "per_unit": {kind: number / units for kind, number in asdict(cells).items()},
        "boards": {name: _share(cells, board) for name, board in BOARDS.items()},
    }


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    return table


def _totals(cells: Cells, units: int) -> Table:
    table = _table("", "LUT", "FF", "block RAM", "DSP")
    numbers = asdict(cells).values()
    table.add_row(f"{units} units", *(count(number) for number in numbers))
    table.add_row("per unit", *(f"{number / units:.1f}" for number in numbers))
    return table


def _shares(cells: Cells) -> Table:
    table = _table("share of", "LUT", "FF", "block RAM", "DSP")
    for name, board in BOARDS.items():
        table.add_row(name, *(f"{share:.1%}" for share in _share(cells, board).values()))
    return table
