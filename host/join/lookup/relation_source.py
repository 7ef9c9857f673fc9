"""A relation as users give it to a join."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, TypeVar

from penstock import arguments
from penstock.errors import BeyondError, UsageError

from ...lookup.algorithm import Algorithm
from ...lookup.nodes.client import open_nodes
from ...prune.sizes import Pruning
from ...relation import open_relation, server_of
from ...relation.border import Relation
from ...store.location import Location
from ...wire.address import read_token
from .lookup_join import LookupOptions

T = TypeVar("T")

#: When rows of a stream meet a newer version of a relation.
REFRESH = ("batch", "start")


@dataclass(frozen=True)
class RelationTable:
    """A stored relation that stands for a table of a query.

    Parameters
    ----------
    location : str
        Folder, or place in an object store; see :func:`whole_location`.
    refresh : str
        "batch": each batch meets the newest version; "start": all meet that of the start.
    algorithm : Algorithm
    nodes : tuple of str, optional
        Addresses of nodes that are asked for rows; empty for those that the relation has a record
        of. None: rows are read from the location.
    token_file : str, optional
        File with the token that nodes want.
    version : int, optional
        The version that all rows meet, whatever ``refresh`` is.
    """

    location: str = field(repr=False)
    refresh: str = "batch"
    algorithm: Algorithm = Algorithm.AUTO
    nodes: tuple[str, ...] | None = None
    token_file: str | None = None
    version: int | None = None
    #: The location without a password.
    shown: str = field(init=False)

    def __post_init__(self) -> None:
        server = server_of(self.location)
        shown = self.location if server is None else server.masked(self.location)
        object.__setattr__(self, "shown", shown)

    def open(self) -> Relation:
        """Open it for reading.

        Raises
        ------
        FileError
            There is no relation, or it is damaged.
        UsageError
            It has no nodes, and they are to be asked.
        """
        if self.nodes is None:
            return open_relation(self.location)
        token = None if self.token_file is None else read_token(self.token_file)
        return open_nodes(self.location, self.nodes, token=token)

    def options(
        self,
        memory_bytes: int | None = None,
        *,
        ordered: bool = False,
        pruning: Pruning | None = None,
    ) -> LookupOptions:
        """How a join with it runs."""
        chosen = LookupOptions(
            algorithm=self.algorithm,
            refresh=self.refresh == "batch" and self.version is None,
            ordered=ordered,
            pruning=pruning,
            version=self.version,
        )
        if memory_bytes is None:
            return chosen
        return LookupOptions(**{**vars(chosen), "memory_bytes": int(memory_bytes)})


def whole_location(location: str | PathLike) -> str:
    """The location as processes with other working folders find it, too."""
    place = Location.parse(location)
    return place.text if place.path is None else os.path.abspath(place.path)


def relation(
    location: str | PathLike,
    *,
    refresh: str = "batch",
    algorithm: str = "auto",
    nodes: bool | str | Sequence[str] = False,
    token_file: str | PathLike | None = None,
) -> RelationTable:
    """Name a stored relation as a table of :func:`penstock.sql` or :func:`penstock.stream`.

    Parameters
    ----------
    location : str or path
        Where ``penstock relation build`` wrote it; or a table in a PostgreSQL server,
        ``postgresql://user@host/db?table=customers&key=id&max_age=60s``.
    refresh : str
        "batch": the rows of each push, and all rows of a table, meet the newest version at that
        moment; "start": all pushes meet the version at the start.
    algorithm : str
        "auto", or "meshjoin", "hybridjoin", "cachejoin", "d-cachejoin" to compare; the rows that
        come out are the same.
    nodes : bool, str or sequence of str
        Whether rows are asked for at the relation's nodes (``penstock serve --relation``), as
        ``penstock relation nodes add`` has named them; or the addresses of nodes.
    token_file : str or path, optional
        File with the token that the nodes want.

    Raises
    ------
    UsageError
        An argument has a value that it cannot have.
    FileError
        There is no relation, it is damaged, or its server cannot be reached.
    SchemaError, MissingToolError
        A table in a server lacks its key; the driver is not installed.

    Examples
    --------
    >>> import subprocess, pyarrow.parquet
    >>> pyarrow.parquet.write_table(gps, "gps.parquet")
    >>> build = "penstock relation build gps.parquet --key cab --out gps.rel"
    >>> done = subprocess.run(build.split(), check=True)
    >>> penstock.sql(
    ...     "SELECT id, g.x FROM orders o JOIN gps g ON o.id + 5 = g.cab",
    ...     {"orders": orders, "gps": penstock.relation("gps.rel")},
    ... ).to_pylist()
    [{'id': 2, 'x': 2}]
    """
    if arguments.text("refresh", refresh) not in REFRESH:
        raise UsageError(f"refresh is 'batch' or 'start', not {refresh!r}")
    try:
        chosen = Algorithm(arguments.text("algorithm", algorithm))
    except ValueError:
        known = ", ".join(Algorithm)
        raise UsageError(f"algorithm is one of {known}, not {algorithm!r}") from None
    if not isinstance(location, str | PathLike):
        raise arguments.refuse("location", "a folder or the address of a store", location)
    token = None if token_file is None else os.path.abspath(fspath(token_file))
    table = RelationTable(whole_location(location), refresh, chosen, _nodes(nodes), token)
    if refresh == "start" and (server := server_of(table.location)) is not None:
        raise UsageError(
            f"{table.shown} keeps no state of the start, since {server.kind} would have to keep "
            "all rows that were changed since; leave refresh out, or store a copy with `penstock "
            "relation build`"
        )
    table.open().close()
    return table


def _nodes(addresses: bool | str | Sequence[str]) -> tuple[str, ...] | None:
    """Return addresses of nodes: empty to find them, None to ask no node."""
    if isinstance(addresses, bool):
        return () if addresses else None
    return (addresses,) if isinstance(addresses, str) else tuple(addresses)


def relations_of(tables: Mapping[str, Any]) -> dict[str, RelationTable]:
    """Return the relations among the tables of a query, by their names there."""
    return {name: one for name, one in tables.items() if isinstance(one, RelationTable)}


def without_relations(tables: Mapping[str, T | RelationTable]) -> dict[str, T]:
    """Return the tables of a query that are not relations."""
    return {name: one for name, one in tables.items() if not isinstance(one, RelationTable)}


def relation_of(tables: Mapping[str, Any]) -> tuple[str, RelationTable] | None:
    """Return the name and the relation of the one relation in a join; None without one.

    Raises
    ------
    BeyondError
        There are several.
    """
    relations = list(relations_of(tables).items())
    if len(relations) > 1:
        raise BeyondError(
            f"{' and '.join(name for name, _ in relations)} are relations, and a join looks up "
            "one; join the rows that come out with the other one"
        )
    return relations[0] if relations else None
