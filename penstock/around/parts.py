"""The parts of a query, in the order in which they run, and its user's words for their names.

Errors quote the user's words in the place of names of parts and of their columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import pyarrow as pa
from sqlglot import exp

from ..errors import BeyondError, LikelyMistakeError, PenstockError, QueryError
from ..query.compiler import compile_select
from ..query.dialect import Penstock, place
from ..query.options import QueryOptions
from ..uses import Entrance, QueryKind, Way, kinds_of

#: What says that a query makes groups.
OF_GROUPS = ("GROUP BY", "an aggregate")


#: Column, added to the rows of a stream as they are pushed, with their places.
PLACE = "ps_place"


class PartError(QueryError):
    """The SQL around a join is wrong."""

    def beside(self, why: BeyondError) -> QueryError:
        """Choose the error to raise: this one, or why the query is not one join."""
        is_why = isinstance(self, NoJoinError) or isinstance(why, LikelyMistakeError)
        return why if is_why else self


class NoJoinError(PartError):
    """No part of the query is a join; :meth:`beside` then gives why the whole is not one join."""


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
    why : str
        Why this engine runs it, where both could.
    """

    name: str
    text: str
    reads: tuple[str, ...]
    options: QueryOptions
    clock: tuple[tuple[str, str], ...] = ()
    why: str = ""

    #: The engine that runs it.
    engine: ClassVar = "Penstock"

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
        Name of the first construct that needs more than one row; empty if each row of its one input
        gives at most one row, independently of the others.
    closing : Closing, optional
        Of groups of a stream's rows: when one is complete.
    why : str
        Why this engine runs the join in it, where both could.
    """

    name: str
    text: str
    reads: tuple[str, ...]
    needs_all: str
    closing: Closing | None = None
    why: str = ""

    #: The engine that runs it.
    engine: ClassVar = "DuckDB"


Part = Joined | Relational


def tree_lines(parts: Sequence[Part]) -> list[str]:
    """Draw a query as a tree: below each part the parts and tables that it reads."""
    by_name = {part.name: part for part in parts}

    def lines(name: str) -> Iterator[str]:
        part = by_name.get(name)
        if part is None:
            yield f"{name}, a table"
            return
        yield f"{name}, by {part.engine}"
        for number, read in enumerate(part.reads, 1):
            first, later = ("└─ ", "   ") if number == len(part.reads) else ("├─ ", "│  ")
            for row, text in enumerate(lines(read)):
                yield f"{later if row else first}{text}"

    return list(lines(parts[-1].name))


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
    estimated : sequence of (Select, bool)
        Joins whose pairs of equal keys were estimated, and whether these are many: by that it was
        chosen who runs them.
    """

    parts: Sequence[Part]
    names: Sequence[str]
    schemas: Mapping[str, pa.Schema]
    words: Words
    estimated: Sequence[tuple[exp.Select, bool]] = ()

    def __str__(self) -> str:
        return "\n".join(tree_lines(self.parts))

    @property
    def shown_schema(self) -> pa.Schema:
        """The output columns as users see them: without the marks of the last part."""
        fields = zip(self.schemas[self.parts[-1].name], self.names, strict=True)
        return pa.schema([field.with_name(name).remove_metadata() for field, name in fields])

    def of_stream(self) -> tuple[Joined, Sequence[Part], Relational | None]:
        """Return a streaming query's one join, the row-by-row parts after it, and the last part.

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


#: Least pairs of equal keys, and pairs per row of both tables, from which on the engine takes more
#: time for its tests than Penstock to begin and to read the tables. DuckDB tests a pair in 4 to 16
#: ns; Penstock reads a row in some 350 ns.
MANY_PAIRS = 2_000_000, 40


class EqualPairs(NamedTuple):
    """Pairs of two tables with equal keys, as estimated, and the rows of both tables."""

    pairs: float
    rows: int

    @property
    def _limit(self) -> int:
        least, of_each_row = MANY_PAIRS
        return max(least, of_each_row * self.rows)

    @property
    def are_many(self) -> bool:
        return self.pairs > self._limit

    def __str__(self) -> str:
        """The estimate, and the number that it is compared with."""
        if math.isinf(self.pairs):
            return "how many pairs have equal values is not estimated"
        return f"about {self.pairs:,.0f} pairs have equal values; Penstock's above {self._limit:,}"


class Surrounding(Protocol):
    """The engine for what stands around joins.

    Attributes
    ----------
    makes_relations : bool
        Whether it computes tables before they become relations.
    keeps_arrival : bool
        Whether rows of streams can have the column :data:`PLACE`.
    """

    makes_relations: bool
    keeps_arrival: bool

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

    def equal_pairs(self, tree: exp.Select) -> EqualPairs | None:
        """Estimate how many pairs a join has; None if the engine is to run it.

        Parameters
        ----------
        tree : Select
            All columns of two tables, joined by equalities and conditions of one side.
        """
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
    kinds: set[QueryKind] = set()
    for part in split.parts:
        if isinstance(part, Joined):
            reads = {name: split.schemas[name] for name in part.reads}
            query = compile_select(part.text, reads, part.options)
            kinds |= kinds_of(query, part.looks_up, part.options.all_rows)
    entrance.also(Way.PARTS).refuse_unused(
        {*kinds, QueryKind.GROUPED} if kinds else {QueryKind.PLAIN}
    )


#: Where a node stands in the text of a part, at the end of a message.
_PLACE = re.compile(r" \(at(?: line \d+, column \d+)?: (.*)\)$", re.DOTALL)
#: A quoted name up to its closing sign, which may open the next one, and its qualifier. A word is
#: tried from its start alone: from each letter, a long one takes minutes.
_NAME = re.compile(r"(?:[`\"][^`\"]*[`\"]\.|\b\w++\.)?[`\"]([^`\"]*)(?=[`\"])")
#: Functions of the engine's that stand for Spark's.
_OF_ENGINE = re.compile(r"\bps_(?:udf_)?(?=\w)")


@dataclass
class Words:
    """The user's words for added columns and parts, and where these words stand in the query.

    Parameters
    ----------
    tree : Query
        The query, with names in full; not changed.
    """

    tree: exp.Expr
    #: The user's words, by name.
    texts: dict[str, str] = field(default_factory=dict)
    #: The user's aliases, by those that replace them.
    aliases: dict[str, str] = field(default_factory=dict)
    #: Names of columns that are computed for a join.
    computed: set[str] = field(default_factory=set)

    def note(self, name: str, text: str) -> None:
        """Note the words that a column or part stands for."""
        self.texts[name] = self.restored(text)

    def restored(self, message: str) -> str:
        """Put the user's words for added names into a message, and where these words stand.

        The qualifier of an added column, such as a part's name, goes with it.
        """
        for new, alias in self.aliases.items():
            quoted = alias.replace("\\", r"\\")
            message = re.sub(rf"([`\"]?){re.escape(new)}\1", quoted, message)
        pieces, end = [], 0
        for name in _NAME.finditer(message) if self.texts else ():
            if name[1] in self.texts:
                pieces += [message[end : name.start()], self.texts[name[1]]]
                end = name.end() + 1
        if pieces:
            message = _PLACE.sub(self._placed, "".join([*pieces, message[end:]]))
        return _OF_ENGINE.sub("", message)

    def _placed(self, match: re.Match[str]) -> str:
        """Return where the query has the text of a message's place, which may be cut short."""
        snippet, is_cut = match[1].removesuffix("..."), match[1].endswith("...")
        if is_cut:
            snippet = snippet.rpartition(" ")[0]  # it may end within a name
        wanted = _plain(snippet)
        for node in self.tree.walk():
            text = _plain(node.sql(dialect=Penstock))
            if text == wanted or (is_cut and text.startswith(wanted)):
                return f" ({place(node)})"
        return f" (at: {snippet}{'...' if is_cut else ''})"

    @contextmanager
    def spoken(self) -> Iterator[None]:
        """Let errors that leave the block say what the user wrote."""
        try:
            yield
        except PenstockError as error:
            if error.args == (str(error),):  # others make their message of names of options
                error.args = (self.restored(str(error)),)
            raise


def _plain(text: str) -> str:
    return re.sub(r"[`\"]", "", text).lower()
