"""Options of queries and devices that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import isfile
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.join.lookup.relation_source import RelationTable, relation
from penstock.host.rows.formats import CsvFormat, format_of

from ..api.received import TableFiles
from ..api.table_query import TableQuery
from ..errors import FileError, UsageError
from ..query.options import QueryOptions
from ..uses import Entrance, Way
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
#: In place of addresses of nodes: those that the relation has a record of.
_RING = "ring"


@group
class CsvArguments:
    """How the CSV files of a command are written."""

    delimiter: str | None = option("Between values of CSV files: ';', or '\\t' for a tab.")
    no_header: bool = option(
        "CSV files have no line of names; columns are _c0, _c1, ...", "--no-header", default=False
    )
    null: Texts = option(
        "Text that is NULL in CSV files, also in columns of text, in place of blank, NA, null and "
        "the like; repeat, '' for blanks."
    )

    def tables(self, named: Sequence[str]) -> dict[str, TableFiles]:
        """Tables in files, by name.

        Parameters
        ----------
        named : sequence of str
            NAME=FILE each.

        Raises
        ------
        UsageError
            No file is CSV, and an option is about these.
        """
        paths = values.pairs(named, "table")
        options = {"delimiter": self.delimiter, "no-header": self.no_header, "null": self.null}
        chosen = [f"--{name}" for name, value in options.items() if value not in (None, False)]
        is_csv = any(Path(one).is_dir() or format_of(Path(one)) == "csv" for one in paths.values())
        if chosen and not is_csv:
            raise UsageError(f"{chosen[0]} is about CSV files, and no --table is one; leave it out")
        delimiter = "," if self.delimiter is None else self.delimiter
        csv = CsvFormat(delimiter=delimiter, header=not self.no_header, null=tuple(self.null or ()))
        return {name: TableFiles(path, csv) for name, path in paths.items()}


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

    def chosen(self, entrance: Entrance | None = None) -> QueryOptions:
        """The options as the compiler takes them."""
        return QueryOptions(
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
class LookupArguments:
    """Relations in the place of tables."""

    relation: Texts = option("NAME=FOLDER of a stored relation, in the place of a table; repeat.")
    nodes: str | None = option(
        "Where its rows are asked for: `ring` for the nodes that it has a record of, or addresses "
        "(tcp://HOST:PORT,...)."
    )
    nodes_token: Path | None = option("File with the token that these nodes want.")
    memory: str | None = option("Memory of a join with a relation: 128MB.")
    algorithm: str = option(
        "How a relation is looked up: auto, meshjoin, hybridjoin, cachejoin, d-cachejoin.",
        default="auto",
    )

    def relations(self) -> dict[str, RelationTable]:
        """The relations, by their names in the query."""
        return {
            name: relation(
                location,
                algorithm=self.algorithm,
                nodes=self.nodes == _RING or (self.nodes.split(",") if self.nodes else False),
                token_file=self.nodes_token if self.nodes else None,
            )
            for name, location in values.pairs(self.relation or (), "relation").items()
        }

    @property
    def memory_bytes(self) -> int | None:
        """The memory, if it is given."""
        return None if self.memory is None else values.size(self.memory, "memory")


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

    def over(self, lookup: LookupArguments, entrance: Entrance) -> TableQuery:
        """The query, over its files and relations.

        Parameters
        ----------
        entrance : Entrance
            The options that the user wrote.

        Raises
        ------
        PenstockError
        """
        relations = lookup.relations()
        tables = {**self.csv.tables(self.table), **relations}
        if lookup.nodes is None:
            entrance = entrance.also(Way.NODELESS)
        return TableQuery.classify(self.query, tables, self.options.chosen(entrance))

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
            if isfile(self.text):
                raise UsageError(f"{self.text} is a file; write -f {self.text}")
            return self.text
        if self.text_file is None or self.text is not None:
            raise UsageError("give the query as an argument or with --file: one of them")
        try:
            return self.text_file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
            raise FileError(f"cannot read {self.text_file}: {reason}") from None


def open_named(name: str, *, address: str | None = None, **options: Any) -> Device:
    """Open a device with the options that are not None.

    With an address it is the server's device of that name, or its first one for "remote".
    """
    written = {key: value for key, value in options.items() if value is not None}
    if address is None:
        return open_device(name, **written)
    if name == BOARD:
        return open_device(name, address=address, **written)
    served = None if name == REMOTE else name
    return open_device(REMOTE, address=address, device=served, **written)
