"""Queries around joins, of operators that DuckDB runs over columns that Penstock computes."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from ..expr import ops
from ..expr.ops import ExprTypeError
from ..expr.ops.align import align, choice_type
from ..query.dialect import Penstock, refused
from ..query.options import QueryOptions
from ..query.time_rules import TimeRules
from ..query.window_function import is_window, length_ns
from ..types import Kind, Type, integer
from ..zones import zone_of
from .carried import WINDOW, Known, is_coded, known_as, known_field
from .computed_calls import call
from .computed_values import ARGUMENT, Level, Register, Values
from .shapes import SLIDING, equates, slides
from .sides import aliases_in, conditions_of, field_of, items_of, kind_of

#: Most windows that a row is in.
_MOST_WINDOWS = 100_000


class Computing:
    """Puts calls of Penstock's expressions into a query.

    Parameters
    ----------
    schemas : mapping of table to Schema
    options : QueryOptions
    register : callable
    """

    def __init__(
        self, schemas: Mapping[str, pa.Schema], options: QueryOptions, register: Register
    ) -> None:
        self._schemas, self.register = schemas, register
        self.rules = TimeRules(zone_of(options.time_zone or "UTC"))
        self.functions, self.ansi = options.functions or {}, options.ansi

    def query(self, tree: exp.Expr, outer: Level | None = None) -> dict[str, Known | None]:
        """Rewrite a query in place; return the types of its columns, None where not known."""
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, outer)
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree, outer)
        if not isinstance(tree, exp.Select):
            return {}
        level = Level(outer)
        for item in items_of(tree):
            self._source(item, level)
        for lateral in tree.args.get("laterals") or ():
            self._lists(lateral, level)
        values = Values(level, self)
        self._slide(tree, values)
        for join in tree.args.get("joins") or ():
            if join.args.get("on"):
                join.set("on", values.tested(join.args["on"]))
                if kind_of(join):
                    _put_in_keys(join)
        if tree.args.get("where"):
            tree.args["where"].set("this", values.tested(tree.args["where"].this))
        if tree.args.get("group"):
            self._group(tree.args["group"], values)
        for item in tree.expressions:
            if not isinstance(item.unalias(), exp.Star):
                value, known = values.rewritten(item.unalias())
                level.outputs[item.alias_or_name] = known
                if isinstance(item, exp.Alias):
                    item.set("this", value)
                elif value is not item:
                    item.replace(exp.alias_(value, item.alias_or_name, quoted=True))
        for clause in ("having", "qualify"):
            if tree.args.get(clause):
                tree.args[clause].set("this", values.tested(tree.args[clause].this))
        if tree.args.get("order"):
            values.inside(tree.args["order"])
        for window in tree.args.get("windows") or ():
            values.inside(window)
        return level.outputs

    def _set_operation(
        self, tree: exp.SetOperation, outer: Level | None
    ) -> dict[str, Known | None]:
        left, right = self.query(tree.this, outer), self.query(tree.expression, outer)
        if tree.args.get("order"):
            Values(Level(outer, outputs=left), self).inside(tree.args["order"])
        columns: dict[str, Known | None] = {}
        for place, ((name, a), b) in enumerate(zip(left.items(), right.values(), strict=False)):
            columns[name] = a if a == b else self._united(tree, place, (a, b))
        return columns

    def _united(
        self, tree: exp.SetOperation, place: int, known: tuple[Known | None, Known | None]
    ) -> Known | None:
        """Bring a column of two queries to one type, and return that; None if it is not known."""
        types = [one.type for one in known if one is not None]
        if len(types) < 2 or any(one.is_text or one.kind is Kind.OTHER for one in types):
            return None
        columns = [ops.column(ARGUMENT, str(side), one) for side, one in enumerate(types)]
        try:
            aligned = align(columns, "UNION")
        except ExprTypeError as error:
            raise refused(error, tree) from None
        for side, (value, column) in enumerate(zip(aligned, columns, strict=True)):
            if value is not column:
                name = self.register(value, (column,))
                for select in _selects(tree.expression if side else tree.this):
                    item = select.expressions[place]
                    item.set("this", call(name, item.this.copy()))
        (a, b), like = (one.type for one in aligned), choice_type(columns, aligned)
        return Known(like.within(min(a.lo, b.lo), max(a.hi, b.hi)) if a.is_integral else a)

    def _source(self, item: exp.Expr, level: Level) -> None:
        """Note the columns of an item of FROM."""
        alias = item.alias_or_name
        if isinstance(item, exp.Subquery):
            level.tables[alias] = self.query(item.this, level)
        elif isinstance(item, exp.Table):
            schema = self._schemas.get(item.name)
            if schema is not None:
                level.tables[alias] = {one.name: _column(one) for one in schema}
        elif isinstance(item, exp.Lateral | exp.Unnest):
            self._lists(item, level)

    def _lists(self, item: exp.Lateral | exp.Unnest, level: Level) -> None:
        """Note the elements of lists that FROM or LATERAL VIEW gives row by row."""
        is_unnest = isinstance(item, exp.Unnest)
        lists = item.expressions if is_unnest else [*item.this.iter_expressions()]
        values = Values(level, self)
        elements = [values.elements(one) for one in lists]
        alias = item.args.get("alias")
        names = [one.name for one in alias.columns] if alias else []
        known = zip(names, elements, strict=False) if is_unnest or len(names) == 1 else ()
        level.tables[item.alias] = dict(known)

    def _slide(self, tree: exp.Select, values: Values) -> None:
        """Give each row once for each of the windows that it is in: none if it has no time."""
        timed: set[str] = set()
        for one in list(tree.find_all(exp.Anonymous)):
            if not is_window(one) or one.find_ancestor(exp.Select) is not tree:
                continue
            if not one.expressions:
                raise refused("window takes a time and a size", one)
            time, text = one.expressions[0], one.sql(dialect=Penstock)
            join = one.find_ancestor(exp.Join, exp.Select)
            is_kept = isinstance(join, exp.Join) and bool(join.side)  # without a match
            if time.sql(dialect=Penstock) not in timed and not is_kept:
                timed.add(time.sql(dialect=Penstock))
                absent = exp.Is(this=time.copy(), expression=exp.null())
                tree.where(exp.Not(this=absent), copy=False)
            if not slides(one) or text in values.level.counts:
                continue
            _, size, slide = values.slides(one)
            if size.attr < 1 or slide.attr < 1:
                raise refused("the size and the slide of a window must be above 0", one)
            most = -(-length_ns(size) // length_ns(slide))
            if most > _MOST_WINDOWS:
                raise refused(
                    f"each row would be in {most:,} windows; take at most {_MOST_WINDOWS:,}", one
                )
            name = f"{SLIDING}{len(values.level.counts)}"
            alias = exp.TableAlias(this=exp.to_identifier(name), columns=[exp.to_identifier("k")])
            numbers = exp.Unnest(expressions=[call("range", most)], alias=alias)
            tree.append("joins", exp.Join(this=numbers, kind="CROSS"))
            values.level.tables[name] = {"k": Known(integer(0, most - 1, nullable=False))}
            values.level.counts[text] = exp.column("k", table=name)
            # The earliest window may have ended.
            end = field_of(one.copy(), "end")
            tree.where(exp.LT(this=time.copy(), expression=end), copy=False)

    def _group(self, group: exp.Group, values: Values) -> None:
        """Rewrite keys, and note what they are in the SELECT list."""
        keys = [*group.expressions]
        for kind in ("cube", "rollup", "grouping_sets"):
            keys += group.args.get(kind) or ()
        leaves = [leaf for key in keys for leaf in _leaves(key)]
        for leaf in leaves:
            text = leaf.sql(dialect=Penstock)
            value, known = values.rewritten(leaf)
            if not isinstance(leaf, exp.Column):
                values.level.keys[text] = value, known
            if value is not leaf:
                leaf.replace(value)


def _put_in_keys(join: exp.Join) -> None:
    """Make computed tests of one side part of a key, which is computed once for a row."""
    conditions = conditions_of(join)
    key = next(filter(equates, conditions), exp.false())
    for test in conditions if isinstance(key, exp.EQ) else ():
        sides = (s for s in (key.this, key.expression) if set() < aliases_in(test) <= aliases_in(s))
        side = next(sides, None)
        if side is not None and test is not key and test.find(exp.Anonymous):
            side.replace(exp.Case(ifs=[exp.If(this=test.copy(), true=side.copy())]))
            test.replace(exp.true())


def _column(field: pa.Field) -> Known:
    """A column of a table, or a window that another part of the query gives."""
    is_sliding = field.name.startswith(SLIDING) and pa.types.is_struct(field.type)
    if is_sliding and not is_coded(known_as(field.type[0].type).type):
        return Known(Type(Kind.OTHER, nested=WINDOW), field.type)
    return known_field(field)


def _leaves(key: exp.Expr) -> list[exp.Expr]:
    """The expressions that are keys, in sets of keys, too."""
    if isinstance(key, exp.Cube | exp.Rollup | exp.GroupingSets | exp.Tuple):
        return [leaf for one in key.expressions for leaf in _leaves(one)]
    return _leaves(key.this) if isinstance(key, exp.Paren) else [key]


def _selects(tree: exp.Expr) -> list[exp.Select]:
    """The SELECTs whose rows a query gives as they are."""
    if isinstance(tree, exp.SetOperation):
        return [*_selects(tree.this), *_selects(tree.expression)]
    if isinstance(tree, exp.Subquery):
        return _selects(tree.this)
    return [tree] if isinstance(tree, exp.Select) else []
