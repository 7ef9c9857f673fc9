"""Times of rows: of the sources of a query, and of the pairs of its joins."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from ..query.compiler import time_columns
from ..query.options import QueryOptions
from .shapes import clauses_of_all, is_row_by_row, last_moment, rising
from .sides import JoinSide, Outputs, column_of


@dataclass
class Clocks:
    """Columns that may be the time of rows, and columns that no two rows of a source share.

    Parameters
    ----------
    schemas : mapping of table or part to Schema
        Of all that there are by now.
    options : QueryOptions
    relations : collection of str
        Tables whose rows are looked up; they have no time.
    """

    schemas: Mapping[str, pa.Schema]
    options: QueryOptions
    relations: Collection[str]
    #: Columns that are computed for a join.
    computed: Collection[str] = ()
    #: The user's aliases, by those that replace them.
    aliases: Mapping[str, str] = field(default_factory=dict)
    #: Of parts that are joins: what may be the time of their rows, and the sources that it is of.
    joined: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Of parts that are joins, and a source of theirs: columns that no two rows of it share.
    unique: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    #: Of parts with pairs in their windows, and a column of these: the time that they are of.
    windows: dict[tuple[str, str], str] = field(default_factory=dict)

    def named_time(self, side: JoinSide) -> str | None:
        """The time of a side that the options name: a column, perhaps with a unit behind.

        They may name the table that a subquery reads, whose column the subquery must give.
        """
        for name, column in (self.options.time or {}).items():
            if name.lower() in self._names(side):
                return column
            if name.lower() == side.inside.lower():
                time, _ = time_columns({side.alias: column})
                names = {one.lower() for one in self.schemas[side.table].names}
                if time[side.alias].lower() in names:
                    return column
        return None

    def _names(self, side: JoinSide) -> list[str]:
        """Names by which options may call a side."""
        return [self.aliases.get(name, name).lower() for name in (side.alias, side.source)]

    def times(self, side: JoinSide) -> dict[str, str]:
        """Columns that may be the time of a side, with the source of each."""
        named = self.named_time(side)
        if named is not None:
            columns, _ = time_columns({side.alias: named})
            return {columns[side.alias].lower(): side.alias}
        if side.source in self.joined:
            return self.joined[side.source]
        schema = () if side.source in self.relations else self.schemas[side.table]
        return {
            one.name.lower(): side.alias
            for one in schema
            # A computed time, such as the start of a month, says nothing about later rows.
            if pa.types.is_timestamp(one.type) and one.name not in self.computed
        }

    def unique_of(self, side: JoinSide) -> dict[str, set[str]]:
        """Columns of a side that no two rows of a source share, by source."""
        if side.source in self.joined:
            return {alias: ids for (name, alias), ids in self.unique.items() if name == side.source}
        for name, columns in (self.options.unique or {}).items():
            if name.lower() in self._names(side):
                names = [columns] if isinstance(columns, str) else columns
                return {side.alias: {one.lower() for one in names}}
        return {}

    def unique_in(self, item: exp.Expr) -> set[str]:
        """Columns that no two rows of an item of FROM share."""
        alias = item.alias_or_name
        source = item.name if isinstance(item, exp.Table) else alias
        return self.unique_of(JoinSide(alias, source, source)).get(alias, set())

    def kept(self, side: JoinSide) -> list[str]:
        """Columns of a side by which groups of its pairs are complete."""
        times = list(self.times(side))
        unique = [column for columns in self.unique_of(side).values() for column in sorted(columns)]
        return [*(times if side.source in self.joined else times[:1]), *unique]

    def note(
        self, name: str, sides: list[JoinSide], outputs: Outputs
    ) -> tuple[tuple[str, str], ...]:
        """Note those columns of a join; its times, and the sources that they are of."""
        clock = self.joined[name] = {}
        for side in sides:
            names = {
                tree.name: column
                for column, tree in outputs.names.values()
                if tree.text("table") == side.alias
            }
            times = self.times(side)
            clock |= {names[column]: alias for column, alias in times.items() if column in names}
            for alias, columns in self.unique_of(side).items():
                if columns and columns <= names.keys():
                    self.unique[name, alias] = {names[column] for column in columns}
        return tuple(clock.items())

    def choices(self, sides: list[JoinSide], *, is_grouped: bool = False) -> Iterator[QueryOptions]:
        """Options of the join of two sides, for each choice of their times."""
        plain = replace(self.options, time=None, rows=None, scale=None, unique=None)
        choices: list[dict[str, str]] = [{}]
        for side in sides:
            times = [named] if (named := self.named_time(side)) else self.times(side)
            choices = [{**one, side.alias: name} for one in choices for name in times] or choices
        unique = {
            side.alias: tuple(sorted(ids[side.alias]))
            for side in sides
            if side.alias in (ids := self.unique_of(side))
        }
        relation = next((one.table for one in sides if one.source in self.relations), None)
        if relation is not None:
            # Only groups of what is looked up have a time.
            plain = replace(plain, within=None, relation=relation)
            choices = [{}, *choices] if is_grouped else [{}]
        for one in choices:
            yield replace(plain, time=one, unique=unique or None)

    def note_windows(self, name: str, pairs: str, calls: Mapping[str, exp.Expr]) -> None:
        """Note a part that has pairs of a join once for each of their windows."""
        self.joined[name] = self.joined[pairs]
        for (part, alias), columns in list(self.unique.items()):
            if part == pairs:
                self.unique[name, alias] = columns
        for column, call in calls.items():
            if isinstance(call.expressions[0], exp.Column):
                self.windows[name, column] = call.expressions[0].name

    def closing(self, name: str, tree: exp.Query) -> tuple[str, str, exp.Expr] | None:
        """By what groups of the pairs of a join are complete, in a query of these.

        A time of the pairs, the source that it is of, and a value of each group that rises with
        it. None if that is not known, or the query has no groups. The rows that window functions
        rank, or add up, are groups, too.
        """
        if not isinstance(tree, exp.Select) or set(clauses_of_all(tree)) - {"QUALIFY"}:
            return None
        source = tree.args["from_"].this if tree.args.get("from_") else None
        if isinstance(source, exp.Subquery):
            return self.closing(name, source.this) if is_row_by_row(tree) else None
        group, distinct = tree.args.get("group"), tree.args.get("distinct")
        every = [window.args.get("partition_by") or [] for window in tree.find_all(exp.Window)]
        if group is not None or distinct is not None:
            if every:
                return None  # window functions over groups
            every = [
                [o.unalias() for o in tree.expressions] if group is None else group.expressions
            ]
        for time, alias in self.joined.get(name, {}).items():
            values = [self._rising(name, time, alias, keys) for keys in every]
            if values and values[0] is not None and all(one == values[0] for one in values):
                return time, alias, values[0]
        return None

    def _rising(self, name: str, time: str, alias: str, keys: list[exp.Expr]) -> exp.Expr | None:
        """A value of groups with these keys that rises with a time of the pairs."""
        unique = self.unique.get((name, alias))
        if unique and unique <= {key.name for key in keys if isinstance(key, exp.Column)}:
            return column_of(name, time)
        for key in keys:
            column = key.this if isinstance(key, exp.Dot) else key
            if isinstance(column, exp.Column) and self.windows.get((name, column.name)) == time:
                return last_moment(column, column_of(name, time))
        value = next((risen for key in keys if (risen := rising(key, time))), None)
        return None if value is None else value.copy()
