"""Options of queries and devices that several commands have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.keys.prepare import program_keys, stream_values, window_keys
from penstock.host.rows.files import read_schema, read_table
from penstock.host.rows.sides import SideRows

from ..expr.columns import Vector
from ..plan.forms import JoinForm
from ..plan.group_query import GroupQuery
from ..plan.query import other
from ..query import JoinQuery
from ..query.compiler import compile_select
from ..query.options import QueryOptions
from . import values
from .options import argument, group, option

Texts = list[str] | None
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
Package = Annotated[
    str | None,
    typer.Option(help="Folder of a package for the board device; several with commas between."),
]

#: Name of the device behind a server.
REMOTE = "remote"
#: Name of the device with the address of a board.
BOARD = "board"


@dataclass(frozen=True)
class Inputs:
    """A compiled query and where its tables are."""

    query: JoinQuery | GroupQuery
    files: dict[str, Path]
    options: QueryOptions

    def tables(self) -> dict[str, pa.Table]:
        """Read the tables, only the columns that the query needs."""
        needed: dict[str, set[str]] = {}
        for side in self.query.sides:
            needed.setdefault(side.table, set()).update(self.query.columns_of(side.side))
        loaded: dict[tuple[Path, tuple[str, ...]], pa.Table] = {}
        tables = {}
        for name, columns in needed.items():
            # A query may need only a side's number of rows; one column gives it.
            names = sorted(columns) or read_schema(self.files[name]).names[:1]
            key = (self.files[name], tuple(names))
            if key not in loaded:
                loaded[key] = read_table(self.files[name], names)
            tables[name] = loaded[key]
        return tables


@group
class QueryArguments:
    """The options that :class:`QueryOptions` has on the command line."""

    time: Texts = option("ALIAS=COLUMN, or ALIAS=COLUMN:UNIT for an integer column.")
    rows: str | None = option("ROWS window: 4096, or a=100,b=50.")
    within: str | None = option("Time window before and after: 300, or 180s.")
    param: Texts = option("NAME=VALUE for a name in the query.", "--param", "-p")
    scale: Texts = option("TABLE.COLUMN=DIGITS: a float column of fixed-point numbers.")
    time_zone: str | None = option("Zone of times without one: Europe/Dublin, +05:30; else UTC.")

    def compiled(
        self,
        query: str,
        tables: Sequence[str],
        others: Mapping[str, pa.Schema] | None = None,
        relation: str | None = None,
    ) -> Inputs:
        """Compile a query against the schemas of its files, and of other tables."""
        files = _files(tables)
        schemas = {name: read_schema(path) for name, path in files.items()} | dict(others or {})
        options = self.chosen(relation)
        return Inputs(compile_select(query, schemas, options), files, options)

    def chosen(self, relation: str | None = None) -> QueryOptions:
        """The options as the compiler takes them."""
        return QueryOptions(
            relation=relation,
            time=values.pairs(self.time or (), "time"),
            rows=values.rows(self.rows),
            within=values.span(self.within, "within"),
            params=values.params(self.param or ()),
            scale=values.digits(self.scale or ()),
            time_zone=self.time_zone,
        )


def _files(tables: Sequence[str]) -> dict[str, Path]:
    return {name: Path(text) for name, text in values.pairs(tables, "table").items()}


@group
class Asked:
    """A query over files."""

    query: str = argument(
        "SELECT ... FROM a JOIN b ON ..., or FROM a GROUP BY ..., in Spark's SQL."
    )
    table: list[str] = option(
        "NAME=FILE (Parquet, CSV or Arrow); repeat.", "--table", "-t", required=True
    )
    options: QueryArguments

    def compiled(
        self, others: Mapping[str, pa.Schema] | None = None, relation: str | None = None
    ) -> Inputs:
        """Compile the query against the schemas of its files, and of other tables.

        Parameters
        ----------
        others : mapping of name to pyarrow.Schema, optional
        relation : str, optional
            The one of them that is a relation.
        """
        return self.options.compiled(self.query, self.table, others, relation)

    def tables(self) -> dict[str, pa.Table]:
        """Read the tables, with all their columns."""
        return {name: read_table(path) for name, path in _files(self.table).items()}


def keys_of(
    sides: Mapping[str, SideRows], form: JoinForm
) -> tuple[Sequence[Vector], Sequence[Vector]]:
    """Compute the keys that a form of a join prepares: of window tuples, of stream tuples."""
    window, stream = sides[form.window], sides[other(form.window)]
    return (
        window_keys(form, window.columns, len(window))[: program_keys(form)],
        stream_values(form, stream.columns, len(stream)),
    )


def open_named(name: str, *, address: str | None = None, **options: Any) -> Device:
    """Open a device with the options that are not None.

    With an address it is the server's device of that name, or its first one for "remote".
    """
    given = {key: value for key, value in options.items() if value is not None}
    if address is None:
        return open_device(name, **given)
    if name == BOARD:
        return open_device(name, address=address, **given)
    served = None if name == REMOTE else name
    return open_device(REMOTE, address=address, device=served, **given)
