"""A random query, its text, and what a run of it needs."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fuzz.data import Times
from tests.fuzz.expr import SIDES, E, conjunction, text
from tests.fuzz.expressions import Param
from tests.fuzz.types import Column, Type

JOINS = {
    "inner": "JOIN",
    "comma": ",",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL OUTER JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}


@dataclass(frozen=True)
class Layer:
    """A subquery in FROM: what it selects (None for ``*``) and its WHERE."""

    items: tuple[tuple[E, str], ...] | None
    where: E | None


@dataclass(frozen=True)
class Query:
    """A query over tables ``l`` and ``r`` with the aliases ``a`` and ``b``."""

    columns: tuple[tuple[Column, ...], tuple[Column, ...]]
    times: Times
    join: str
    layers: tuple[tuple[Layer, ...], tuple[Layer, ...]]
    on: tuple[E, ...]
    where: tuple[E, ...]
    select: tuple[tuple[E, str], ...] | None
    distinct: bool = False
    group: tuple[E, ...] = ()
    having: E | None = None
    rows: tuple[int, int] | None = None
    rows_text: bool = True
    within: int | None = None
    """In raw units of integer times without a unit, else in nanoseconds."""
    params: dict[str, Param] = field(default_factory=dict)
    same: bool = False
    """Whether both sides are the same table."""

    bare: bool = False
    """Whether its text has parentheses only where precedence asks for them."""

    def table(self, side: int) -> str:
        return "l" if self.same else "lr"[side]

    def source(self, side: int) -> str:
        """The name of a side's stream: its alias where both are of one table."""
        return SIDES[side] if self.same else self.table(side)

    def seat(self, side: int) -> int:
        """The position of the time among the columns of a side's table."""
        return [c.name for c in self.columns[side]].index("t")

    @property
    def aggregated(self) -> bool:
        if self.group or self.having is not None or self.distinct:
            return True
        return any(e.op == "agg" for item, _ in self.select or () for e in item.walk())

    def visible(self, side: int) -> dict[str, Type]:
        """The columns of a side that the join sees."""
        known = {c.name: self.column_type(side, c) for c in self.columns[side]}
        for layer in self.layers[side]:
            if layer.items is not None:
                known = {name: e.type for e, name in layer.items}
        return known

    def column_type(self, side: int, column: Column) -> Type:
        if column.name == "t" and self.times.declared[side]:
            return Type("clock")
        return column.type

    def outputs(self) -> list[tuple[E, str]]:
        """The select list, ``*`` written out."""
        if self.select is not None:
            return list(self.select)
        sides = (0,) if self.join in ("semi", "anti") else (0, 1)
        known = [self.visible(side) for side in sides]
        items = []
        for side in sides:
            for name, type_ in known[side].items():
                both = len(sides) == 2 and name in known[1 - side]
                alias = f"{SIDES[side]}_{name}" if both else name
                items.append((E("col", (), type_, (side, name)), alias))
        return items

    def used_params(self) -> list[Param]:
        used = {e.value for whole in self.expressions() for e in whole.walk() if e.op == "param"}
        return [p for p in self.params.values() if p.name in used]

    def expressions(self) -> list[E]:
        """All expressions of the query."""
        whole = [*self.on, *self.where, *self.group, *(e for e, _ in self.select or ())]
        if self.having is not None:
            whole.append(self.having)
        for side in (0, 1):
            for layer in self.layers[side]:
                whole += [e for e, _ in layer.items or ()]
                if layer.where is not None:
                    whole.append(layer.where)
        return whole

    def sql(self, e: E, names: tuple[str, str] = SIDES) -> str:
        return text(e, names, self.bare)

    def text(self) -> str:
        """The SQL."""
        if self.select is None:
            items = "*"
        else:
            items = ", ".join(f"{self.sql(e)} AS {name}" for e, name in self.select)
        head = f"SELECT {'DISTINCT ' if self.distinct else ''}{items}"
        left, right = (self._source(side) for side in (0, 1))
        comma = self.join == "comma"
        whole = f"{head} FROM {left}{',' if comma else ' ' + JOINS[self.join]} {right}"
        if self.on and not comma:
            whole += f" ON {self.sql(conjunction(list(self.on)))}"
        where = (*self.on, *self.where) if comma else self.where
        if where:
            whole += f" WHERE {self.sql(conjunction(list(where)))}"
        if self.group:
            whole += f" GROUP BY {', '.join(self.sql(e) for e in self.group)}"
        if self.having is not None:
            whole += f" HAVING {self.sql(self.having)}"
        return whole

    def _source(self, side: int) -> str:
        source = self.table(side)
        for depth, layer in enumerate(self.layers[side]):
            if layer.items is None:
                items = "*"
            else:
                items = ", ".join(
                    name
                    if e.op == "col" and e.value[1] == name
                    else f"{self.sql(e, ('', ''))} AS {name}"
                    for e, name in layer.items
                )
            alias = f" q{depth}" if depth else ""
            source = f"(SELECT {items} FROM {source}{alias}"
            if layer.where is not None:
                source += f" WHERE {self.sql(layer.where, ('', ''))}"
            source += ")"
        window = f" [ROWS {self.rows[side]}]" if self.rows is not None and self.rows_text else ""
        return f"{source}{window} {SIDES[side]}"

    def options(self, params: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments of ``penstock.sql`` and ``penstock.stream``."""
        time = {
            alias: f"t:{unit}" if unit else "t"
            for alias, unit in zip(SIDES, self.times.declared, strict=True)
        }
        options: dict[str, Any] = {"time": time}
        if self.rows is not None and not self.rows_text:
            options["rows"] = dict(zip(SIDES, self.rows, strict=True))
        if self.within is not None:
            span = self.within
            whole = span if self.times.numeric else datetime.timedelta(microseconds=span // 1000)
            options["within"] = whole
        if used := self.used_params():
            options["params"] = {p.name: params[p.name] for p in used}
        return options


@dataclass(frozen=True)
class Case:
    """A query on one data set."""

    query: Query
    rows: tuple[tuple[tuple[Any, ...], ...], tuple[tuple[Any, ...], ...]]
    params: dict[str, tuple[Any, Any]]
    """By name: the plain value and the Python object."""

    def with_rows(self, side: int, rows: tuple[Any, ...]) -> Case:
        if self.query.same:
            return replace(self, rows=(rows, rows))
        both = (rows, self.rows[1]) if side == 0 else (self.rows[0], rows)
        return replace(self, rows=both)

    @property
    def objects(self) -> dict[str, Any]:
        return {name: value[1] for name, value in self.params.items()}
