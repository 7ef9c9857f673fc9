"""Random queries as trees that can be written as SQL and evaluated row by row."""

from dataclasses import dataclass, field

from tests.own_queries import expressions as ex
from tests.own_queries.aggregates import ROWS, Ranking, order_key
from tests.own_queries.expressions import E, group_key
from tests.own_queries.values import Data, Type


@dataclass
class Source:
    """A table in FROM."""

    table: str
    columns: list[tuple[str, Type]]

    def text(self) -> str:
        return self.table

    def rows(self, data: dict[str, Data]) -> list[dict]:
        return data[self.table].rows()


@dataclass
class Part:
    """What an alias of FROM stands for."""

    alias: str
    relation: "Source | Query"

    def columns(self) -> list[E]:
        """Return its columns as expressions."""
        made = []
        for name, of in self.relation.columns:
            full = f"{self.alias}.{name}"
            made.append(E(full, of, lambda row, full=full: row[full]))
        return made

    def text(self, ctes: dict[str, str]) -> str:
        if isinstance(self.relation, Source):
            return f"{self.relation.text()} {self.alias}"
        if self.relation.cte:
            ctes[self.relation.cte] = self.relation.text(ctes)
            return f"{self.relation.cte} {self.alias}"
        return f"({self.relation.text(ctes)}) {self.alias}"

    def rows(self, data: dict[str, Data]) -> list[dict]:
        return [
            {f"{self.alias}.{n}": v for n, v in row.items()} for row in self.relation.rows(data)
        ]


@dataclass
class Join:
    """A join with the part before it: kind, condition, and a window beside the condition."""

    kind: str  # JOIN, LEFT JOIN, ..., LEFT SEMI JOIN
    part: Part
    conditions: list[E]
    within: E | None = None  # of the option, not written
    last: tuple[int, int] | None = None  # rows of each side, for ROWS windows
    times: tuple[E, E] | None = None

    def rows(self, left: list[dict], right: list[dict], blanks: tuple[dict, dict]) -> list[dict]:
        """Join by nested loops."""
        tests = self.conditions + ([self.within] if self.within else [])
        allowed = self._arrivals(left, right) if self.last else None
        pairs, met_left, met_right = [], set(), set()
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                if allowed is not None and (i, j) not in allowed:
                    continue
                row = a | b
                if all(t.value(row) is True for t in tests):
                    pairs.append(row)
                    met_left.add(i)
                    met_right.add(j)
        if self.kind == "LEFT SEMI JOIN":
            return [a for i, a in enumerate(left) if i in met_left]
        if self.kind == "LEFT ANTI JOIN":
            return [a for i, a in enumerate(left) if i not in met_left]
        if self.kind in ("LEFT JOIN", "FULL JOIN"):
            pairs += [a | blanks[1] for i, a in enumerate(left) if i not in met_left]
        if self.kind in ("RIGHT JOIN", "FULL JOIN"):
            pairs += [blanks[0] | b for j, b in enumerate(right) if j not in met_right]
        return pairs

    def _arrivals(self, left: list[dict], right: list[dict]) -> set[tuple[int, int]]:
        """Return the pairs that meet in windows of the last rows."""
        order = [(self.times[0].value(r), 0, i) for i, r in enumerate(left)]
        order += [(self.times[1].value(r), 1, j) for j, r in enumerate(right)]
        came: tuple[list, list] = ([], [])
        pairs = set()
        for _, side, place in sorted(order):
            for other in came[1 - side][-self.last[1 - side] :]:
                pairs.add((place, other) if side == 0 else (other, place))
            came[side].append(place)
        return pairs


@dataclass
class Key:
    """A key of GROUP BY: its text, its value, and whether rows without it are dropped."""

    text: str
    value: E
    dropping: bool = False


@dataclass
class Query:
    """A SELECT, with the further ones that UNION ALL adds."""

    first: Part
    joins: list[Join] = field(default_factory=list)
    where: list[E] = field(default_factory=list)
    grouped: bool = False
    keys: list[Key] = field(default_factory=list)
    having: E | None = None
    items: list[tuple[E, str]] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)
    qualify: E | None = None
    distinct: bool = False
    order: list[tuple[int, bool, bool | None]] = field(default_factory=list)
    limit: int | None = None
    union: "Query | None" = None
    cte: str | None = None
    comma: bool = False

    @property
    def columns(self) -> list[tuple[str, Type]]:
        return [(name, e.type) for e, name in self.items]

    def sql(self) -> str:
        """Write the whole query."""
        ctes: dict[str, str] = {}
        body = self.text(ctes)
        named = ", ".join(f"{name} AS ({text})" for name, text in ctes.items())
        return f"WITH {named} {body}" if ctes else body

    def text(self, ctes: dict[str, str]) -> str:
        """Write the query without its WITH."""
        listed = ", ".join(f"{e} AS {name}" for e, name in self.items)
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{listed} FROM {self.first.text(ctes)}"
        where = list(self.where)
        for join in self.joins:
            if self.comma:
                text += f", {join.part.text(ctes)}"
                where = join.conditions + where
            else:
                conditions = join.conditions or [ex.literal(True, Type("bool"), None)]
                text += (
                    f" {join.kind} {join.part.text(ctes)} ON {' AND '.join(map(str, conditions))}"
                )
        if where:
            text += f" WHERE {' AND '.join(map(str, where))}"
        if self.keys:
            text += f" GROUP BY {', '.join(k.text for k in self.keys)}"
        if self.having:
            text += f" HAVING {self.having}"
        if self.qualify:
            text += f" QUALIFY {self.qualify}"
        if self.union:
            text += f" UNION ALL {self.union.text(ctes)}"
        if self.order:
            names = [self.items[place][1] for place, _, _ in self.order]
            text += " ORDER BY " + ", ".join(
                name
                + (" DESC" if down else "")
                + ("" if first is None else f" NULLS {'FIRST' if first else 'LAST'}")
                for name, (_, down, first) in zip(names, self.order, strict=True)
            )
        if self.limit is not None:
            text += f" LIMIT {self.limit}"
        return text

    def rows(self, data: dict[str, Data]) -> list[dict]:
        """Evaluate the query: rows by the names of its columns."""
        names = [name for _, name in self.items]
        return [dict(zip(names, row, strict=True)) for row in self.tuples(data)]

    def tuples(self, data: dict[str, Data]) -> list[tuple]:
        """Evaluate the query."""
        rows = self._joined(data)
        rows = [r for r in rows if all(w.value(r) is True for w in self.where)]
        if self.grouped:
            rows = self._groups(rows)
            if self.having:
                rows = [g for g in rows if self.having.value(g) is True]
        for ranking in self.rankings:
            ranking.compute(rows)
        if self.qualify:
            rows = [r for r in rows if self.qualify.value(r) is True]
        made = [tuple(e.value(r) for e, _ in self.items) for r in rows]
        if self.distinct:
            made = list({tuple(group_key(v) for v in row): row for row in made}.values())
        if self.union:
            made += self.union.tuples(data)
        if self.order:
            made.sort(key=self.sort_key)
        return made if self.limit is None else made[: self.limit]

    def sort_key(self, row: tuple) -> tuple:
        """Return what orders a row."""
        return tuple(
            order_key(row[p], down, (not down) if first is None else first)
            for p, down, first in self.order
        )

    def _joined(self, data: dict[str, Data]) -> list[dict]:
        rows = self.first.rows(data)
        blank = {f"{self.first.alias}.{n}": None for n, _ in self.first.relation.columns}
        for join in self.joins:
            other = {f"{join.part.alias}.{n}": None for n, _ in join.part.relation.columns}
            rows = join.rows(rows, join.part.rows(data), (blank, other))
            blank = blank | other
        return rows

    def _groups(self, rows: list[dict]) -> list[dict]:
        groups: dict = {}
        if not self.keys:
            return [{ROWS: rows}]
        for row in rows:
            values = [k.value.value(row) for k in self.keys]
            if any(k.dropping and v is None for k, v in zip(self.keys, values, strict=True)):
                continue
            groups.setdefault(tuple(map(group_key, values)), []).append(row)
        return [{ROWS: members} for members in groups.values()]


@dataclass
class Case:
    """A query with its tables and options."""

    query: Query
    data: dict[str, Data]
    options: dict
    mode: str
