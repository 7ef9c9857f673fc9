"""Stored tables that streams look rows up in.

Everybody else knows :mod:`.border`, and opens a relation by :func:`open_relation`.
"""

from __future__ import annotations

from os import PathLike, fspath

from penstock.errors import UsageError

from .border import PageIndex, PageRows, Relation, Version
from .folder.build import RelationOptions, build
from .folder.folder_relation import FolderRelation
from .folder.reading import file_store
from .postgres.location import PostgresLocation, is_postgres, masked
from .postgres.relation import PostgresRelation

__all__ = [
    "FolderRelation",
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
        There is no relation, it is damaged, or its server cannot be reached.
    SchemaError
        A table lacks its key, or it cannot be one.
    UsageError
        The location names an unknown kind of store.
    """
    text = fspath(location)
    if is_postgres(text):
        return PostgresRelation(PostgresLocation.parsed(text))
    return FolderRelation(file_store(text))


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
    if is_postgres(text):
        raise UsageError(
            f"{masked(text)} {complaint}: it is a table in PostgreSQL, which keeps its rows; "
            "change them there, or store a copy with `penstock relation build`"
        )
    return FolderRelation(file_store(text))
