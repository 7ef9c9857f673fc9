"""The plan of a query that looks up rows of a relation.

Such a query has no window. Rows that may meet are put into one group, and its window says that
only rows of one group meet: so the join's other parts need not know that a relation takes part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ..errors import LikelyMistakeError, QueryError
from ..expr import ops
from ..expr.node import Expr, Op, show
from ..types import int_of
from .group_query import GroupQuery, is_per_row, require_closing
from .linear import linear
from .logic import conjuncts_of, equalities
from .query import JoinQuery, Side, columns, other
from .shown import lookup_facts, text_of

#: Column of the groups; no column of a user has this name.
GROUP = "\0group"


def group_column(side: str) -> Expr:
    """A row's group, the time of the window of :attr:`~.query.JoinQuery.window`."""
    return ops.column(side, GROUP, int_of(64, nullable=False))


@dataclass(frozen=True)
class SoughtKey:
    """The value that a key column has in every match: ``(value - constant) / factor``.

    Parameters
    ----------
    value : Expr
        Over columns of the stream.
    factor, constant : int
        Where it is no whole number, nothing matches; 1 and 0 but for integers, decimals and times.
    """

    value: Expr
    factor: int = 1
    constant: int = 0

    def text(self, names: Mapping[str, str]) -> str:
        """The value to look up as text, with the sides called by these names."""
        text = show(self.value, names)
        if self.constant:
            text = f"({text} - {self.constant})"
        return text if self.factor == 1 else f"{text} / {self.factor}"


@dataclass(frozen=True)
class LookupPlan:
    """How the rows of a relation are found.

    Parameters
    ----------
    query : JoinQuery
        Compiled with a relation.
    relation : str
        Name of the table that is the relation.
    key : tuple of str
        Columns by which the relation's rows are found; empty if it has none.
    """

    query: JoinQuery
    relation: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        return text_of(lookup_facts(self))

    @cached_property
    def inner(self) -> Side:
        """The relation."""
        side = self.query.left
        return side if side.table.lower() == self.relation.lower() else self.query.right

    @cached_property
    def outer(self) -> Side:
        """The stream."""
        return self.query.side(other(self.inner.side))

    @cached_property
    def sought_keys(self) -> tuple[SoughtKey, ...] | None:
        """The values of the key columns: the key path.

        None for the scan path, on which every row of the relation may match: a column of the key
        is compared in another way, or not at all.

        Raises
        ------
        QueryError
            A key column is compared with a value of another type.
        """
        if not self.key:
            return None
        by_column: dict[str, SoughtKey] = {}
        # What is equal to a constant is a filter of the relation by now.
        conditions = (self.query.predicate, self.inner.filter)
        conjuncts = (one for condition in conditions for one in conjuncts_of(condition))
        for _, key, value in equalities(conjuncts, self.inner.side):
            self._add(by_column, key, value)
        if not all(column in by_column for column in self.key):
            return None
        return tuple(by_column[column] for column in self.key)

    @property
    def keys_text(self) -> str:
        """The equalities by which rows are found, as text."""
        names = self.query.names
        keys = zip(self.key, self.sought_keys or (), strict=True)
        return ", ".join(f"{self.inner.alias}.{name} = {key.text(names)}" for name, key in keys)

    @cached_property
    def sought_key_columns(self) -> list[str]:
        """Columns of the stream that keys to look up are computed from, sorted; none on a scan."""
        return sorted({name for one in self.sought_keys or () for _, name in columns(one.value)})

    def _add(self, keys: dict[str, SoughtKey], key: Expr, value: Expr) -> None:
        """Note a key column that is equal to a value of the stream."""
        # A float is hashed as the double that it is equal to.
        plain = key.args[0] if key.op is Op.CAST and key.args[0].type.is_float else key
        if plain.op is Op.COLUMN:
            keys.setdefault(plain.attr[1], SoughtKey(value))
            return
        if key.type.is_integral:
            form = linear(key)
            if len(form.terms) == 1 and form.terms[0][0].op is Op.COLUMN and form.terms[0][1]:
                (column, factor), constant = form.terms[0], form.constant
                keys.setdefault(column.attr[1], SoughtKey(value, factor, constant))
                return
        self._refuse_converted(key, value)

    def require_per_row(self, remark: str = "") -> None:
        """Refuse groups that a stream could never complete; a remark ends the message.

        Raises
        ------
        LikelyMistakeError
        """
        if self.query.aggregation is not None and not is_per_row(self.query):
            alias = self.outer.alias
            raise LikelyMistakeError(
                "a stream never knows that these groups are complete, since rows with the same "
                f"keys may always follow: group by a column that differs from row to row of "
                f"{alias}, and say so with unique={{'{alias}': 'COLUMN'}}, or aggregate the rows "
                f"that the join gives{remark}"
            )

    def _refuse_converted(self, key: Expr, value: Expr) -> None:
        column = _plain(key)
        if column is None or column not in self.key:
            return
        names = self.query.names
        raise QueryError(
            f"{self.inner.alias}.{column}, a key of the relation, is compared with "
            f"{show(value, names)}, whose type is {value.type}, so its rows cannot be found by it; "
            f"CAST the side of {self.outer.alias} to the type of {self.inner.alias}.{column}"
        )


def require_complete(query: JoinQuery | GroupQuery, relation: str | None) -> None:
    """Refuse a query of a stream, and perhaps a relation, with groups that are never complete.

    Raises
    ------
    QueryError
        As for :func:`~.group_query.require_closing`.
    """
    if relation is None or isinstance(query, GroupQuery):
        require_closing(query)
    else:
        LookupPlan(query, relation, ()).require_per_row()


def _plain(expr: Expr) -> str | None:
    """The column that an expression only converts; None if it computes."""
    while expr.op in (Op.CAST, Op.RAW):
        expr = expr.args[0]
    return expr.attr[1] if expr.op is Op.COLUMN else None
