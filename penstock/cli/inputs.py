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
from penstock.host.relation.folder.sources import RowSource, source_of
from penstock.host.rows.files import read_schema, read_table
from penstock.host.rows.formats import CsvFormat, format_of
from penstock.host.rows.sides import SideRows

from ..errors import FileError, UsageError
from ..expr.columns import Vector
from ..plan.forms import JoinForm
from ..plan.group_query import GroupQuery
from ..plan.query import other
from ..query import JoinQuery
from ..query.compiler import compile_select
from ..query.options import QueryOptions
from ..uses import Entrance
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


@group
class CsvArguments:
    """How the CSV files of a command are written."""

    delimiter: str | None = option("Between values of CSV files: ';', or '\\t' for a tab.")
    no_header: bool = option(
        "CSV files have no line of names; columns are _c0, _c1, ...", "--no-header", default=False
    )
    null: Texts = option("Text that is NULL in CSV files, also in columns of text; repeat.")

    def chosen(self, files: Mapping[str, str]) -> CsvFormat:
        """Read the options, for files by the names of their tables.

        Raises
        ------
        UsageError
            No file is CSV, and an option is about these.
        """
        options = {"delimiter": self.delimiter, "no-header": self.no_header, "null": self.null}
        chosen = [f"--{name}" for name, value in options.items() if value not in (None, False)]
        is_csv = any(Path(one).is_dir() or format_of(Path(one)) == "csv" for one in files.values())
        if chosen and not is_csv:
            raise UsageError(f"{chosen[0]} is about CSV files, and no --table is one; leave it out")
        delimiter = "," if self.delimiter is None else self.delimiter
        return CsvFormat(
            delimiter=delimiter, header=not self.no_header, null=tuple(self.null or ())
        )


class TableFiles:
    """Tables in files, by name.

    Parameters
    ----------
    tables : sequence of str
        NAME=FILE each.
    csv : CsvArguments
    """

    def __init__(self, tables: Sequence[str], csv: CsvArguments) -> None:
        self.paths = values.pairs(tables, "table")
        self._csv = csv.chosen(self.paths)

    def schemas(self) -> dict[str, pa.Schema]:
        return {name: read_schema(path, self._csv) for name, path in self.paths.items()}

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        return read_table(self.paths[name], columns, self._csv)

    def source(self, name: str) -> RowSource:
        """The rows of a table, to be read once, batch by batch."""
        return source_of(self.paths[name], csv=self._csv)


@dataclass(frozen=True)
class Inputs:
    """A compiled query and where its tables are."""

    query: JoinQuery | GroupQuery
    files: TableFiles
    schemas: Mapping[str, pa.Schema]
    options: QueryOptions

    def tables(self) -> dict[str, pa.Table]:
        """Read the tables, only the columns that the query needs."""
        needed: dict[str, set[str]] = {}
        for side in self.query.sides:
            needed.setdefault(side.table, set()).update(self.query.columns_of(side.side))
        loaded: dict[tuple[str, tuple[str, ...]], pa.Table] = {}
        tables = {}
        for name, columns in needed.items():
            # A query may need only a side's number of rows; one column gives it.
            names = sorted(columns) or self.schemas[name].names[:1]
            key = (self.files.paths[name], tuple(names))
            if key not in loaded:
                loaded[key] = self.files.table(name, names)
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

    ansi: bool = option("Fail where Spark's ANSI mode does, such as for x / 0.", default=False)

    def compiled(
        self,
        query: str,
        files: TableFiles,
        others: Mapping[str, pa.Schema] | None = None,
        relation: str | None = None,
        entrance: Entrance | None = None,
    ) -> Inputs:
        """Compile a query against the schemas of its files, and of other tables."""
        schemas = files.schemas() | dict(others or {})
        options = self.chosen(relation, entrance)
        return Inputs(compile_select(query, schemas, options), files, schemas, options)

    def chosen(self, relation: str | None = None, entrance: Entrance | None = None) -> QueryOptions:
        """The options as the compiler takes them."""
        return QueryOptions(
            relation=relation,
            entrance=entrance,
            time=values.pairs(self.time or (), "time"),
            rows=values.rows(self.rows),
            within=values.span(self.within, "within"),
            params=values.params(self.param or ()),
            scale=values.digits(self.scale or ()),
            time_zone=self.time_zone,
            ansi=self.ansi,
        )


@group
class Asked:
    """A query over files."""

    text: str | None = argument(
        "SELECT ... FROM a JOIN b ON ..., or FROM a GROUP BY ..., in Spark's SQL.",
        default=None,
        metavar="QUERY",
    )
    text_file: Path | None = option("File with the query, in its place.", "--file", "-f")
    table: list[str] = option(
        "NAME=FILE (Parquet, CSV, JSON lines or Arrow), a folder of them, or a pattern such as "
        "'day*.parquet'; repeat.",
        "--table",
        "-t",
        required=True,
    )
    csv: CsvArguments
    options: QueryArguments

    def compiled(
        self,
        entrance: Entrance,
        others: Mapping[str, pa.Schema] | None = None,
        relation: str | None = None,
    ) -> Inputs:
        """Compile the query against the schemas of its files, and of other tables.

        Parameters
        ----------
        entrance : Entrance
            The options that the user wrote.
        others : mapping of name to pyarrow.Schema, optional
        relation : str, optional
            Name of the one in ``others`` that is a relation.
        """
        return self.options.compiled(self.query, self.files, others, relation, entrance)

    @property
    def query(self) -> str:
        """The text of the query.

        Raises
        ------
        UsageError
            It is not given, or twice.
        FileError
        """
        if self.text_file is None and self.text is not None:
            return self.text
        if self.text_file is None or self.text is not None:
            raise UsageError("give the query as an argument or with --file: one of them")
        try:
            return self.text_file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
            raise FileError(f"cannot read {self.text_file}: {reason}") from None

    @property
    def files(self) -> TableFiles:
        """The files of the tables."""
        return TableFiles(self.table, self.csv)

    def tables(self) -> dict[str, pa.Table]:
        """Read the tables, with all their columns."""
        files = self.files
        return {name: files.table(name) for name in files.paths}


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
