"""The parts of a query, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from ..errors import QueryError
from ..query.compiler import compile_select
from ..query.options import QueryOptions
from ..uses import Entrance, Kind, Way, kinds_of
from .words import Words

#: What says that a query makes groups.
OF_GROUPS = ("GROUP BY", "an aggregate")


class PartError(QueryError):
    """The SQL around a join is wrong."""


class NoJoinError(PartError):
    """The query has no part that Penstock joins; raised is why the whole is not one join."""

    def beside(self, why: QueryError) -> QueryError:
        return why


@dataclass(frozen=True)
class Joined:
    """A query that Penstock runs: a windowed join, a look-up in a relation, or groups.

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
        Its output columns that are times of sources, and the aliases of these in the join that
        reads them.
    """

    name: str
    text: str
    reads: tuple[str, ...]
    options: QueryOptions
    clock: tuple[tuple[str, str], ...] = ()

    @property
    def looks_up(self) -> bool:
        """Whether one of its tables is a relation."""
        return self.options.relation is not None


@dataclass(frozen=True)
class Closing:
    """A value that says when groups of the pairs of a join are complete.

    Parameters
    ----------
    text : str
        In the engine's SQL: a value of each row, one for each group, that rises with its time.
    column : str
        The time.
    alias : str
        The side of the join that it is of.
    drops_timeless : bool
        Whether rows without that time are in no group, as with windows.
    """

    text: str
    column: str
    alias: str
    drops_timeless: bool = False


@dataclass(frozen=True)
class Relational:
    """A query of tables that an engine for tables runs.

    Parameters
    ----------
    name : str
    text : str
        In the engine's SQL, over tables and earlier parts.
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
    words : Words
        The user's words for names of parts and their columns.
    """

    parts: Sequence[Part]
    names: Sequence[str]
    schemas: Mapping[str, pa.Schema]
    words: Words

    def of_stream(self) -> tuple[Joined, Sequence[Part], Relational | None]:
        """Return the one join of a query on streams, the steps of its rows, and the part behind.

        Raises
        ------
        PartError
            There is no join, or groups of which a stream never knows that they are complete.
        QueryError
            Something in it needs all rows.
        """
        joins = [part for part in self.parts if isinstance(part, Joined)]
        if not joins:
            raise NoJoinError("none of the query is a join")
        core, *further = [part for part in joins if not part.looks_up] or joins[:1]
        if further:
            raise QueryError(
                "a stream is joined with one other; join the rows that this query gives with a "
                "further stream in a query of its own"
            )
        last = self.parts[-1]
        after = last if isinstance(last, Relational) else None
        for part in self.parts:
            if isinstance(part, Joined) or not part.needs_all:
                continue
            if part is after and part.closing is not None:
                continue
            if part.needs_all in OF_GROUPS:
                if core.looks_up and len(joins) == 1:
                    raise NoJoinError("there is no time by which groups are complete")
                kind = PartError if len(joins) == 1 else QueryError
                raise kind(
                    "a stream never knows that these groups are complete, since rows with the same "
                    "keys may always follow: have the event time of a source, or a window of it, "
                    "among the keys, or name a column that differs from row to row by unique="
                )
            raise QueryError(
                f"{part.needs_all} needs all rows, which a stream never has: leave it out, and do "
                "that with the rows that the query gives, or run the query on tables"
            )
        later = self.parts[self.parts.index(core) + 1 :]
        return core, [part for part in later if part is not after], after


class Surrounding(Protocol):
    """The engine for what stands around joins.

    Attributes
    ----------
    makes_relations : bool
        Whether it computes tables before they become relations.
    """

    makes_relations: bool

    def check(self, tree: exp.Query) -> None:
        """Refuse what the engine does not compute with Spark's values.

        Parameters
        ----------
        tree : Query
            As the user says it: with names in full, and types.

        Raises
        ------
        QueryError
        """
        ...

    def written(self, tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> str:
        """Write a query, whose names are in full and whose types are annotated, in its SQL.

        Raises
        ------
        QueryError
            Something in it would not have Spark's values.
        """
        ...

    def pairs(self, part: Joined) -> int | None:
        """How many pairs of tables the window of a join has; None if that is not known."""
        ...

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


def refuse_unused(split: Split, entrance: Entrance) -> None:
    """Refuse options of a call that no part of a query uses.

    Groups may be computed by DuckDB, so options about them are never refused beside a join.

    Raises
    ------
    UnusedError
    """
    kinds: set[Kind] = set()
    for part in split.parts:
        if isinstance(part, Joined):
            reads = {name: split.schemas[name] for name in part.reads}
            kinds |= kinds_of(compile_select(part.text, reads, part.options), part.looks_up)
    entrance.also(Way.PARTS).refuse_unused({*kinds, Kind.GROUPED} if kinds else {Kind.PLAIN})
