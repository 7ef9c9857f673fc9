"""The contract of stored relations, as a lookup join uses them.

A relation is a table of rows in pages. A page is what is read at once; a version is a state of the
relation that never changes. A relation is ordered by the hash of its key, so that the page of a key
is known, or clustered by some columns, so that neighbouring rows share a page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.expr.columns import Vector

from .key_hash import KeyHash


@dataclass(frozen=True, eq=False)
class PageIndex:
    """Index of a version's pages: facts known without reading them.

    The pages of keys come first. Those behind them have no order by hash: rows whose key is NULL,
    or all rows of a clustered relation.

    Parameters
    ----------
    first : ndarray of uint64, shape (pages of keys,)
        The least hash that a row of the page may have, ascending; the first one is 0.
    rows : ndarray of int32, shape (pages,)
        An upper bound where later versions have changed rows of the page.
    bytes : ndarray of int32, shape (pages,)
        Bytes to read for the page alone, changes of later versions included; at most 2**31 - 1.
    bounds : mapping of column to (ndarray, ndarray), each of shape (pages,)
        Least and greatest value of each page, for numbers, times and booleans: the integers or
        floats of ``host.rows.columns.load``. A page without a value has a least one that is above
        its greatest one. If a page holds NaN, its greatest value is NaN. Read when asked for.
    memory_bytes : int
        Bytes of the arrays, without bounds, which take 16 bytes per page and requested column.
    """

    first: np.ndarray
    rows: np.ndarray
    bytes: np.ndarray
    bounds: Mapping[str, tuple[np.ndarray, np.ndarray]]
    memory_bytes: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def page_of(self, hashes: np.ndarray) -> np.ndarray:
        """The page that holds all rows of a hash, if there are any; int64.

        Parameters
        ----------
        hashes : ndarray of uint64
        """
        return np.searchsorted(self.first, hashes, "right") - 1


@dataclass(frozen=True, eq=False)
class PageRows:
    """Rows of some pages.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (rows,)
        Of the keys: ascending within a page of keys; ``NULL_HASH`` where a key is NULL, and 0 if
        the relation has no key.
    batch : RecordBatch
        The columns that were asked for.
    starts : ndarray of int64, shape (pages + 1,)
        Rows of page k are ``[starts[k], starts[k + 1])``, in the order in which pages were given.
    """

    hashes: np.ndarray
    batch: pa.RecordBatch
    starts: np.ndarray


class Version(ABC):
    """A state of a relation, which never changes.

    Parameters
    ----------
    number : int
        Versions count up from 1.
    rows : int
    bytes : int
        Bytes of all pages.
    created : float
        When it was committed, in seconds of Unix time.
    index : PageIndex
    asks_keys : bool
        Whether rows are found by the values of their keys, not by pages: :meth:`read_keys`.
    keeps_state : bool
        Whether the state can always be read again; else :attr:`losses` says how often it was lost,
        and a newer one read in its place.
    """

    number: int
    rows: int
    bytes: int
    created: float
    index: PageIndex
    asks_keys: bool = False
    keeps_state: bool = True
    losses: int = 0

    @property
    def scanned(self) -> PageIndex:
        """Pages to :meth:`read` if all rows are wanted; maybe others than the pages of keys."""
        return self.index

    @abstractmethod
    def read(
        self, pages: np.ndarray, columns: Sequence[str], key_hashes: np.ndarray | None = None
    ) -> PageRows:
        """Read pages; neighbours are read at once.

        Needs about twice the memory of the pages' bytes.

        Parameters
        ----------
        pages : ndarray of int
            Numbers of pages, each at most once, in any order.
        columns : sequence of str
        key_hashes : ndarray of uint64, ascending, optional
            Wanted hashes: rows of pages of keys with other hashes may be left out.

        Raises
        ------
        FileError
            A page is gone, or is not what was written.
        """

    def read_keys(
        self,
        pages: np.ndarray,
        columns: Sequence[str],
        key_hashes: np.ndarray,
        keys: Sequence[Vector],
    ) -> PageRows:
        """Read the rows of some keys; in place of :meth:`read` where :attr:`asks_keys`.

        Parameters
        ----------
        pages, columns, key_hashes
            As for :meth:`read`: the pages, and the hashes, of the keys.
        keys : sequence of Vector, each of shape (n,)
            Values of each column of the key, without NULL: the integers in its scale or unit,
            floats, texts. A key may come several times.

        Raises
        ------
        FileError
        """
        return self.read(pages, columns, key_hashes)

    def settled(self) -> None:
        """Note that all rows that met this version were answered; others may still come."""
        return

    @property
    def filter_bytes(self) -> int:
        """Memory of :meth:`filters`; 0 if there are none."""
        return 0

    def filters(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """Predicate on hashes (uint64): whether the relation certainly has no row of each.

        It recognises most absent hashes. It takes memory as long as it is kept. None: there is
        none.
        """
        return None

    @abstractmethod
    def changed_since(self, number: int) -> np.ndarray | None:
        """Hashes of keys whose rows may differ from an earlier version's.

        Returns
        -------
        ndarray of uint64, ascending, or None
            None: not known; all keys may have changed.
        """


class Relation(ABC):
    """A stored table.

    Parameters
    ----------
    name : str
        For messages.
    id : str
        Differs between relations that were built, or opened otherwise, in the same place.
    schema : Schema
    key : tuple of str
        Columns whose values name a row, or a group of rows; empty if none do.
    cluster : tuple of str
        Columns that neighbouring rows have close values of; empty if pages are found by key.
    unique : bool
        Whether no two rows may have one key.
    key_hash : KeyHash
        The hash by which pages are ordered.
    """

    name: str
    id: str
    schema: pa.Schema
    key: tuple[str, ...]
    cluster: tuple[str, ...]
    unique: bool
    key_hash: KeyHash

    @property
    def found_by(self) -> tuple[str, ...]:
        """Columns that tell the page of a row: the key, or none if the relation is clustered."""
        return () if self.cluster else self.key

    def check_used(self, columns: Sequence[str]) -> None:
        """Refuse a query that needs columns if one cannot be read.

        Raises
        ------
        SchemaError
        """
        return

    @abstractmethod
    def newest(self) -> int:
        """Number of the newest version: one look at a file name if there is no newer one."""

    @abstractmethod
    def version(self, number: int | None = None) -> Version:
        """A version; the newest one without a number.

        Raises
        ------
        FileError
            It is gone or damaged.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the files; versions cannot be read any more."""


class ServerRelation(Relation):
    """A table in a server, which keeps its rows: others change them, and no version stays.

    A package offers such a class, called with an address, by an entry point in the group
    ``penstock.relations``, whose name is the scheme of the addresses: ``postgresql``.
    """

    #: Name of such servers in messages: "PostgreSQL".
    kind: ClassVar[str]

    @abstractmethod
    def __init__(self, address: str) -> None: ...

    @staticmethod
    @abstractmethod
    def masked(address: str) -> str:
        """Return an address as people may see it: without a password."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """Describe the table for ``penstock relation info``."""
