"""The record of a relation's nodes: a numbered file in its folder, beside its versions.

Each change writes the next record, ``nodes/<number>.json``, which appears as a whole or not at all
and never changes; of two writers at once one is told to try again. There is no other membership:
who answers lookups, and who asks, compares numbers and reads the newest record.

A record says who answers, never what is answered: rows are a function of the relation's version.
So with an older record answers are slower, not wrong. Where the newest one is damaged, whoever has
the one before may go on with it; the next change begins with the newest one that can be read and
takes a new number, since no number ever has two contents.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import FileError, UsageError

from ...keys.hashing import HASH
from ...relation.folder.records import NODES, RING_NAMES, relation_values
from ...store.file_store import FileStore
from ...store.numbered import put_once
from .ring import POINTS, Node, Ring

_log = logging.getLogger("penstock.relation.nodes")

#: Version of the format; changes whenever the contents of the files do.
FORMAT = 1
#: Times that a change is tried again after another writer was faster.
_TRIES = 100


def newest_ring(store: FileStore, known: int = 0) -> int:
    """The number of the newest record; 0 if there never was one.

    Parameters
    ----------
    store : FileStore
        The relation's files.
    known : int
        A number that was the newest one, which saves a listing.

    Raises
    ------
    FileError
    """
    return RING_NAMES.newest(store, known)


def read_ring(store: FileStore, number: int | None = None) -> Ring | None:
    """Read the record of a relation's nodes.

    Parameters
    ----------
    store : FileStore
        The relation's files.
    number : int or None
        Number of a record; None for the newest one.

    Returns
    -------
    Ring or None
        None if the relation has no nodes: it never had one, or the last one was drained.

    Raises
    ------
    FileError
        The record is gone, damaged, of another relation, or of another release's format.
    """
    if number is None:
        number = newest_ring(store)
        if not number:
            return None
        try:
            ring = _read(store, number)
        except FileError:
            newer = newest_ring(store)
            if newer == number:
                raise
            ring = _read(store, newer)  # removed between two looks
    else:
        ring = _read(store, number)
    return ring if ring.nodes else None


def change_ring(store: FileStore, change: Callable[[Ring | None], Ring]) -> Ring:
    """Write the next record; again if another writer was faster.

    Parameters
    ----------
    store : FileStore
        The relation's files.
    change : callable
        Makes the new ring of the newest one, of any number; None if the relation has no nodes.

    Returns
    -------
    Ring
        With its number; the newest one as it is, if nothing changes.

    Raises
    ------
    UsageError
        The change refuses.
    FileError
    MissingToolError
        The store is none of folders, and the package obstore is not installed.
    """
    store.check_put_new()
    relation = relation_values(store)["id"]
    number = 0
    for _ in range(_TRIES):
        number = newest_ring(store, number)
        before, is_newest = _readable(store, number)
        after = change(before if before is not None and before.nodes else None)
        if before is not None and is_newest and before.nodes == after.nodes:
            return before
        following = Ring(number + 1, after.nodes)
        store.make([NODES])
        if put_once(store, RING_NAMES.name(following.number), _values(relation, following)):
            return following
    raise FileError(
        f"the nodes of {store.root} cannot be changed: {_TRIES} times in a row another writer was "
        "faster; let fewer programs change them at once, and try again"
    )


def _readable(store: FileStore, newest: int) -> tuple[Ring | None, bool]:
    """The newest ring that can be read, and whether it is the newest one.

    Raises
    ------
    FileError
        There are records, and none of them can be read.
    """
    if not newest:
        return None, True
    damage = None
    for number in [n for n in reversed(RING_NAMES.numbers(store)) if n <= newest]:
        try:
            ring = _read(store, number)
        except FileError as error:
            damage = damage or error
            continue
        if damage is not None:
            _log.warning(
                "%s. Its change is lost; the next record follows number %d", damage, number
            )
        return ring, damage is None
    raise FileError(
        f"none of the records in {store.shown(NODES)} can be read; remove that folder and add all "
        f"nodes again. {damage or 'It is empty'}"
    )


def _values(relation: str, ring: Ring) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "relation": relation,
        "number": ring.number,
        "created": time.time(),
        "hash": HASH,
        "points": POINTS,
        "nodes": [{"name": node.name, "address": node.address} for node in ring.nodes],
    }


def _read(store: FileStore, number: int) -> Ring:
    name = RING_NAMES.name(number)
    shown = store.shown(name)
    before = (
        f"go on with the record before it, or change the nodes (`penstock relation nodes add`), "
        f"which writes number {number + 1}"
    )
    try:
        values = store.get_json(name)
    except FileError as error:
        raise FileError(f"{error}; until then {before}") from error
    if values is None:
        raise FileError(f"{shown} is gone; see `penstock relation nodes list` for the newest one")
    if values.get("relation") != relation_values(store)["id"]:
        raise FileError(f"{shown} belongs to another relation; {before}")
    expected = (FORMAT, HASH, POINTS)
    stated = tuple(values.get(one) for one in ("format", "hash", "points"))
    if stated != expected:
        raise FileError(
            f"{shown} has format {stated[0]}, hash {stated[1]} and {stated[2]} points, and this "
            f"release reads {FORMAT}, {HASH} and {POINTS}; use one release on all nodes"
        )
    try:
        return _ring_of(values)
    except (KeyError, TypeError, UsageError) as error:
        raise FileError(f"{shown} cannot be read: {error}; {before}") from error


def _ring_of(values: Mapping[str, Any]) -> Ring:
    return Ring(values["number"], [Node(**node) for node in values["nodes"]])
