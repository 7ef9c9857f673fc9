"""What ``sql`` and ``explain`` share: the query, its tables and its device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from penstock.cli import options
from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.files import read_schema, read_table
from penstock.query import JoinQuery, compile_query

Query = Annotated[str, typer.Argument(help="SELECT ... FROM a JOIN b ON ..., in Spark's SQL.")]
Tables = Annotated[
    list[str], typer.Option("--table", "-t", help="NAME=FILE (Parquet, CSV or Arrow); repeat.")
]
Times = Annotated[
    list[str] | None,
    typer.Option("--time", help="ALIAS=COLUMN, or ALIAS=COLUMN:UNIT for an integer column."),
]
RowsOption = Annotated[str | None, typer.Option("--rows", help="ROWS window: 4096, or a=100,b=50.")]
WithinOption = Annotated[
    str | None, typer.Option("--within", help="Time window before and after: 300, or 180s.")
]
Params = Annotated[
    list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE for a name in the query.")
]
TimeZone = Annotated[
    str | None,
    typer.Option("--time-zone", help="Zone of times without one: Europe/Dublin, +05:30; else UTC."),
]
Scales = Annotated[
    list[str] | None,
    typer.Option("--scale", help="TABLE.COLUMN=DIGITS: a float column of fixed-point numbers."),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Take the device from the server there (penstock serve): unix:///PATH; or reach a "
        "board: HOST:PORT."
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="File with the token of the server at --address.")
]
NoBand = Annotated[bool, typer.Option("--no-band", help="Switch band form off.")]
NoPruning = Annotated[
    bool, typer.Option("--no-pruning", help="Evaluate every pair that the window admits.")
]

Package = Annotated[
    str | None,
    typer.Option(help="Folder of a package for the board device; several with commas between."),
]

#: The device that is in a server.
REMOTE = "remote"
#: The device whose address is that of a board.
BOARD = "board"


@dataclass(frozen=True)
class Inputs:
    """A compiled query and where its tables are."""

    query: JoinQuery
    files: dict[str, Path]

    def tables(self) -> dict[str, pa.Table]:
        """The tables, only with the columns that the query needs."""
        needed: dict[str, set[str]] = {}
        for side in self.query.sides:
            needed.setdefault(side.table, set()).update(self.query.columns_of(side.side))
        loaded: dict[tuple[Path, tuple[str, ...]], pa.Table] = {}
        tables = {}
        for name, columns in needed.items():
            # A query may need no column of a side but its number of rows: one column tells that.
            names = sorted(columns) or read_schema(self.files[name]).names[:1]
            key = (self.files[name], tuple(names))
            if key not in loaded:
                loaded[key] = read_table(self.files[name], names)
            tables[name] = loaded[key]
        return tables


def read_inputs(
    query: str,
    tables: list[str],
    time: list[str] | None,
    rows: str | None,
    within: str | None,
    param: list[str] | None,
    scale: list[str] | None,
    time_zone: str | None = None,
) -> Inputs:
    """Compile a query against the schemas of its files."""
    files = {name: Path(text) for name, text in options.pairs(tables, "table").items()}
    compiled = compile_query(
        query,
        {name: read_schema(path) for name, path in files.items()},
        time=options.pairs(time or (), "time"),
        rows=options.rows(rows),
        within=options.span(within, "within"),
        params=options.params(param or ()),
        scale=options.digits(scale or ()),
        time_zone=time_zone,
    )
    return Inputs(compiled, files)


def open_named(name: str, *, address: str | None = None, **options: Any) -> Device:
    """A device with those options that were given, the others being None.

    With an address it is the server's device of that name, or its first one for "remote".
    """
    given = {key: value for key, value in options.items() if value is not None}
    if address is None:
        return open_device(name, **given)
    if name == BOARD:
        return open_device(name, address=address, **given)
    served = None if name == REMOTE else name
    return open_device(REMOTE, address=address, device=served, **given)
