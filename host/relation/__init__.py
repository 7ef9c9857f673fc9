"""Stored tables that streams look rows up in.

Everybody else knows :mod:`.border`, and opens a relation by :func:`open_relation`.
"""

from __future__ import annotations

from os import PathLike, fspath

from penstock.errors import UsageError
from penstock.providers import load_provider, providers

from .border import PageIndex, PageRows, Relation, ServerRelation, Version
from .folder.build import RelationOptions, build
from .folder.folder_relation import FolderRelation
from .folder.reading import file_store

__all__ = [
    "FolderRelation",
    "PageIndex",
    "PageRows",
    "Relation",
    "RelationOptions",
    "ServerRelation",
    "Version",
    "build",
    "open_folder",
    "open_relation",
    "server_of",
]

GROUP = "penstock.relations"
#: Schemes of addresses that are opened by Penstock's own entry points.
SCHEMES = ("postgresql", "postgres")


def server_of(location: str) -> type[ServerRelation] | None:
    """Return the class for tables of the server that a location is in; None: it is in no server.

    Raises
    ------
    MissingToolError
        It is not installed.
    """
    scheme, mark, _ = location.partition("://")
    if not mark or (scheme not in SCHEMES and scheme not in providers(GROUP)):
        return None
    return load_provider(GROUP, scheme, f"relations at {scheme}://")


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
        There is no relation, it is damaged, or its server cannot be reached.
    SchemaError
        A table lacks its key, or it cannot be one.
    UsageError
        The location names an unknown kind of store.
    MissingToolError
        What reads tables of the server is not installed.
    """
    text = fspath(location)
    server = server_of(text)
    return FolderRelation(file_store(text)) if server is None else server(text)


def open_folder(location: str | PathLike, complaint: str) -> FolderRelation:
    """Open a relation that is a folder of pages, for what only these can do.

    Parameters
    ----------
    location : str or path
    complaint : str
        For the message: "cannot be updated".

    Raises
    ------
    FileError
        As for :func:`open_relation`.
    UsageError
        The relation is no folder of pages.
    """
    text = fspath(location)
    if (server := server_of(text)) is not None:
        raise UsageError(
            f"{server.masked(text)} {complaint}: it is a table in {server.kind}, which keeps its "
            "rows; change them there, or store a copy with `penstock relation build`"
        )
    return FolderRelation(file_store(text))
