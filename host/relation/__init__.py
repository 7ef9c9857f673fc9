"""Stored tables that streams look rows up in.

Everybody else knows :mod:`.border`, and opens a relation by :func:`open_relation`.
"""

from __future__ import annotations

from os import PathLike, fspath

from .border import PageIndex, PageRows, Relation, Version
from .folder.build import RelationOptions, build
from .folder.reading import file_store
from .folder.relation import FolderRelation

__all__ = [
    "FolderRelation",
    "PageIndex",
    "PageRows",
    "Relation",
    "RelationOptions",
    "Version",
    "build",
    "open_relation",
]


def open_relation(location: str | PathLike) -> FolderRelation:
    """Open a relation.

    Parameters
    ----------
    location : str or path
        A folder, or ``s3://``, ``gs://``, ``abfs://`` as for the streaming store.

    Raises
    ------
    FileError
        There is none, or it is damaged.
    UsageError
        There is no such kind of store.
    """
    return FolderRelation(file_store(fspath(location)))
