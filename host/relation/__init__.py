"""Stored tables that streams look rows up in.

Everybody else knows :mod:`.border`, and opens a relation by :func:`open_relation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath

from .border import PageIndex, PageRows, Relation, Version
from .folder.build import RelationOptions, build
from .folder.reading import file_store
from .folder.relation import FolderRelation
from .nodes.client import NodesRelation
from .nodes.peers import Patience

__all__ = [
    "FolderRelation",
    "NodesRelation",
    "PageIndex",
    "PageRows",
    "Relation",
    "RelationOptions",
    "Version",
    "build",
    "open_nodes",
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
    files = file_store(fspath(location))
    folder = FolderRelation(files)
    try:
        return NodesRelation(folder, files, at=at, token=token, patience=patience)
    except BaseException:
        folder.close()
        raise
