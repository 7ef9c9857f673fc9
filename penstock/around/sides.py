"""Sides of a join: the tables that they read, and columns that are computed for them before it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count

from sqlglot import exp

from ..query.dialect import NEAREST, Penstock
from ..query.operators import members
from ..query.sources import Lowered
from ..query.window_function import is_session, is_window
from .parts import Words


@dataclass
class JoinSide:
    """A side of a join.

    Parameters
    ----------
    alias : str
    source : str
        The table that the query reads, or the alias of a subquery.
    table : str
        The table or part that has its columns now.
    inside : str
        The table that a subquery reads, if it reads one.
    """

    alias: str
    source: str
    table: str
    inside: str = ""

    def tree(self) -> exp.Table:
        """The side as an item of FROM."""
        return table_as(self.table, self.alias)


#: Signs by which a name, or the unit of a time, ends; and what is no sign.
_NO_SIGNS = str.maketrans({"`": "'", '"': "'", ":": " ", **dict.fromkeys(map(chr, range(32)), " ")})
#: Characters of the name of a part or a computed column.
_LONGEST_NAME = 80
#: What is no value of a row, or more than one.
_NO_VALUES = (exp.AggFunc, exp.Distinct, exp.Window, exp.Explode)


@dataclass
class ComputedBefore:
    """Finds what Penstock does not compute, for columns of their sides.

    Parameters
    ----------
    lowered : Lowered
        What Penstock computes.
    columns : mapping of alias to names and expressions
        Of each side whose rows can be computed: what is computed, added to by :meth:`expression`.
    words : Words
    """

    lowered: Lowered
    columns: dict[str, dict[str, exp.Expr]]
    words: Words
    #: Names of computed columns, by alias and text.
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def expression(self, tree: exp.Expr) -> exp.Expr:
        """Write what Penstock does not compute as columns, in a copy."""
        root = exp.Paren(this=tree.copy())
        aliases: dict[int, set[str]] = {}
        for node in reversed(list(root.walk(bfs=True))):  # from the leaves up
            inside = [aliases[id(child)] for child in node.iter_expressions()]
            names = {node.table} if isinstance(node, exp.Column) and node.table else set()
            aliases[id(node)] = names.union(*inside) if names or len(inside) != 1 else inside[0]
        self._put(root.this, aliases)
        return root.this.pop()

    def _put(self, tree: exp.Expr, aliases: Mapping[int, set[str]]) -> None:
        """Replace what Penstock does not compute, in the tree itself."""
        if isinstance(tree, exp.Column) or self.lowered.knows(tree):
            return
        is_of_one = len(self.columns) == 1  # whose rows have constants, too
        names = aliases[id(tree)] or set(self.columns if is_of_one else ())
        if len(names) == 1 and names <= self.columns.keys() and _is_value(tree):
            (alias,) = names
            tree.replace(column_of(alias, self._name(alias, tree)))
            return
        for child in list(tree.iter_expressions()) if names else ():
            self._put(child, aliases)

    def _name(self, alias: str, tree: exp.Expr) -> str:
        """Find the name of a computed column of a side, or add the column."""
        text, columns = in_spark(tree), self.columns[alias]
        if (alias, text) not in self._names:
            name = name_of(text, columns)
            columns[name] = tree.copy()
            self._names[alias, text] = name
            self.words.note(name, text)
            self.words.computed.add(name)
        return self._names[alias, text]


@dataclass
class Outputs:
    """Expressions of a join that are needed behind it, each under a name."""

    words: Words
    names: dict[str, tuple[str, exp.Expr]] = field(default_factory=dict)

    def add(self, tree: exp.Expr) -> str:
        """The name of an expression."""
        text = in_spark(tree)
        if text not in self.names:
            used = [name for name, _ in self.names.values()]
            self.names[text] = (name_of(text, used), tree.copy())
            self.words.note(self.names[text][0], text)
        return self.names[text][0]

    def add_column(self, alias: str, name: str) -> None:
        """Add a column of a side, unless it is there, however it is spelled."""
        known = {
            (tree.text("table"), tree.name)
            for _, tree in self.names.values()
            if isinstance(tree, exp.Column)
        }
        if (alias, name) not in known:
            self.add(column_of(alias, name))

    def selected(self, before: ComputedBefore | None = None) -> list[exp.Expr]:
        """The SELECT list."""
        items = []
        for name, tree in self.names.values():
            value = tree.copy() if before is None else before.expression(tree)
            items.append(exp.alias_(value, name, quoted=True))
        return items or [exp.alias_(exp.Literal.number(1), "c0", quoted=True)]

    def put(self, tree: exp.Expr, table: str) -> exp.Expr:
        """Put columns of a table in the place of expressions that it has."""
        sizes: dict[int, int] = {}
        for node in reversed(list(tree.walk(bfs=True))):
            inside = node.iter_expressions()
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in inside)
        shapes = {(type(one), sum(1 for _ in one.walk())) for _, one in self.names.values()}
        return self._put(tree, table, sizes, shapes)

    def _put(
        self,
        tree: exp.Expr,
        table: str,
        sizes: Mapping[int, int],
        shapes: Collection[tuple[type[exp.Expr], int]],
    ) -> exp.Expr:
        # To write a tree takes time with its size: only what may be equal is written.
        is_alike = (type(tree), sizes[id(tree)]) in shapes
        output = self.names.get(in_spark(tree)) if is_alike else None
        if output is not None:
            column = column_of(table, output[0])
            column.type = tree.type
            return column
        for child in list(tree.iter_expressions()):
            new = self._put(child, table, sizes, shapes)
            if new is not child:
                child.replace(new)
        return tree


def _is_value(tree: exp.Expr) -> bool:
    """Whether a row has one value of it."""
    is_branch = tree.arg_key == "ifs"  # WHEN and THEN of a CASE
    if is_branch or not isinstance(tree, exp.Condition) or tree.find(*_NO_VALUES):
        return False
    return not any(is_window(call) or is_session(call) for call in tree.find_all(exp.Anonymous))


def name_of(text: str, used: Collection[str]) -> str:
    """Make a name for a part or a computed column from the user's words, since errors quote it.

    It is short, in lower case as all names are, and gets a number if it is one of ``used``.
    """
    words = text.lower().translate(_NO_SIGNS)
    words = words if len(words) <= _LONGEST_NAME else f"{words[: _LONGEST_NAME - 3]}..."
    names = chain([words], (f"{words} ({k})" for k in count(2)))
    lower = {one.lower() for one in used}
    return next(name for name in names if name not in lower)


def in_spark(tree: exp.Expr) -> str:
    """The text of an expression."""
    return tree.sql(dialect=Penstock)


def table_as(name: str, alias: str) -> exp.Table:
    return exp.Table(
        this=exp.to_identifier(name, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )


def is_closed(tree: exp.Expr) -> bool:
    """Whether an item of FROM is a table, or a subquery that reads nothing of its surroundings."""
    if isinstance(tree, exp.Table):
        return isinstance(tree.this, exp.Identifier) and not tree.args.get("pivots")
    if not isinstance(tree, exp.Subquery) or not tree.alias or tree.args.get("pivots"):
        return False
    inside = {one.alias_or_name for one in tree.this.find_all(exp.Table, exp.Subquery, exp.Lateral)}
    return all(not c.table or c.table in inside for c in tree.this.find_all(exp.Column))


def aliases_in(tree: exp.Expr) -> set[str]:
    return {column.table for column in tree.find_all(exp.Column) if column.table}


def expressions(args: object) -> Iterator[exp.Expr]:
    """The expressions among arguments of a clause."""
    if isinstance(args, exp.Expr):
        yield args
    elif isinstance(args, list):
        for one in args:
            yield from expressions(one)


def items_of(select: exp.Select) -> list[exp.Expr]:
    """The item of FROM and the joined ones, in their order."""
    source = select.args.get("from_")
    joined = [join.this for join in select.args.get("joins") or []]
    return joined if source is None else [source.this, *joined]


def conditions_of(clause: exp.Expr | None) -> list[exp.Expr]:
    """Members of the condition of a JOIN, or of WHERE, which there may be none of."""
    if clause is None:
        return []
    condition = clause.args.get("on") if isinstance(clause, exp.Join) else clause.this
    return [] if condition is None else members(condition)


def set_where(select: exp.Select, conditions: list[exp.Expr]) -> None:
    """Make these conditions the WHERE of a SELECT."""
    where = exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None
    select.set("where", where)


def kind_of(join: exp.Join) -> str:
    """The words before JOIN, such as LEFT; empty for an inner join. NEAREST is the last of them."""
    words = " ".join(str(join.args.get(key) or "") for key in ("method", "side", "kind"))
    kept = [word for word in words.upper().split() if word not in ("INNER", "CROSS", "OUTER")]
    return " ".join([*kept, "NEAREST"] if join.args.get(NEAREST) else kept)


def column_of(alias: str, name: str) -> exp.Column:
    """A column of an item of FROM."""
    return exp.column(name, table=alias, quoted=True)


def field_of(struct: exp.Expr, name: str) -> exp.Dot:
    """A field of a struct."""
    return exp.Dot(this=struct, expression=exp.to_identifier(name))
