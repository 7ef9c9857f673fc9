"""The parts of a query, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ..errors import QueryError
from ..query.options import QueryOptions


class PartError(QueryError):
    """What surrounds a join is wrong: what is said of the whole query says more."""


@dataclass(frozen=True)
class Joined:
    """A query that Penstock runs: a windowed join, or groups.

    Parameters
    ----------
    name : str
        By which later parts read its rows.
    text : str
        In the SQL of :mod:`penstock.query`, over tables and earlier parts.
    reads : tuple of str
        The tables and parts in it.
    options : QueryOptions
    clock : tuple of (str, str)
        Its output columns that are times of its sides, and the aliases of these.
    """

    name: str
    text: str
    reads: tuple[str, ...]
    options: QueryOptions
    clock: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Closing:
    """When groups of the pairs of a join are complete.

    Parameters
    ----------
    text : str
        In DuckDB's SQL: a value of each row that rises with its time, and is one for each group.
    column : str
        The time.
    alias : str
        The side of the join that it is of.
    """

    text: str
    column: str
    alias: str


@dataclass(frozen=True)
class Relational:
    """A query of tables that DuckDB runs.

    Parameters
    ----------
    name : str
    text : str
        In DuckDB's SQL, over tables and earlier parts.
    reads : tuple of str
    needs_all : str
        Why it is not row by row: what in it is of several rows. Empty if each row of its one input
        gives at most a row, whatever the others are.
    closing : Closing, optional
        Of groups of a stream's rows: when one is complete.
    """

    name: str
    text: str
    reads: tuple[str, ...]
    needs_all: str
    closing: Closing | None = None


Part = Joined | Relational


@dataclass(frozen=True)
class Split:
    """A query in parts; the last one gives its rows.

    Parameters
    ----------
    parts : sequence of Part
    names : sequence of str
        Of the output columns.
    schemas : mapping of table or part to Schema
    """

    parts: Sequence[Part]
    names: Sequence[str]
    schemas: Mapping[str, pa.Schema]


class Schemas(Protocol):
    """Knows what columns a part gives."""

    def joined(self, part: Joined, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        """The columns of a query of Penstock's.

        Raises
        ------
        QueryError, SchemaError
            Penstock does not run it.
        """
        ...

    def relational(self, part: Relational, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        """The columns of a query of tables.

        Raises
        ------
        PartError
            It is wrong.
        """
        ...
