"""Stored tables that streams look rows up in.

Everybody else knows :mod:`.border`, and opens a relation by :func:`open_relation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath

from penstock.errors import UsageError

from .border import PageIndex, PageRows, Relation, Version
from .folder.build import RelationOptions, build
from .folder.folder_relation import FolderRelation
from .folder.reading import file_store
from .nodes.client import NodesRelation
from .nodes.peers import Patience
from .postgres.location import PostgresLocation, is_postgres, masked
from .postgres.relation import PostgresRelation

__all__ = [
    "FolderRelation",
    "NodesRelation",
    "PageIndex",
    "PageRows",
    "PostgresRelation",
    "Relation",
    "RelationOptions",
    "Version",
    "build",
    "is_postgres",
    "masked",
    "open_folder",
    "open_nodes",
    "open_relation",
]


def open_relation(location: str | PathLike) -> Relation:
    """Open a relation.

    Parameters
    ----------
    location : str or path
        A folder, or ``s3://``, ``gs://``, ``abfs://`` as for the streaming store; or
        ``postgresql://user@host/db?table=NAME&key=COLUMN``, a table in a PostgreSQL server.

    Raises
    ------
    FileError
        There is none, it is damaged, or its server cannot be reached.
    SchemaError
        A table lacks its key, or it cannot be one.
    UsageError
        There is no such kind of store.
    """
    text = fspath(location)
    if is_postgres(text):
        return PostgresRelation(PostgresLocation.of(text))
    return FolderRelation(file_store(text))


def open_folder(location: str | PathLike, what: str) -> FolderRelation:
    """Open a relation that is a folder of pages, for what only these can do.

    Parameters
    ----------
    location : str or path
    what : str
        For the message: "cannot be updated".

    Raises
    ------
    FileError
        As for :func:`open_relation`.
    UsageError
        It is of another kind.
    """
    text = fspath(location)
    if is_postgres(text):
        raise UsageError(
            f"{masked(text)} {what}: it is a table in PostgreSQL, which keeps its rows; change "
            "them there, or store a copy with `penstock relation build`"
        )
    return FolderRelation(file_store(text))


def open_nodes(
    location: str | PathLike,
    at: Sequence[str] = (),
    *,
    token: str | None = None,
    patience: Patience | None = None,
) -> NodesRelation:
    """Open a relation whose rows its nodes are asked for.

    Parameters
    ----------
    location : str or path
        As for :func:`open_relation`.
    at : sequence of str, optional
        Addresses of nodes; by default those that the relation has a record of.
    token : str, optional
        That they want.
    patience : Patience, optional

    Raises
    ------
    FileError
        There is no relation, or it is damaged.
    UsageError
        It has no nodes, or is not found by a key.
    """
    folder = open_folder(location, "has no nodes")
    files = file_store(fspath(location))
    try:
        return NodesRelation(folder, files, at=at, token=token, patience=patience)
    except BaseException:
        folder.close()
        raise
