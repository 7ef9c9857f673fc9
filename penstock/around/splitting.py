"""Split a query into windowed joins, which Penstock runs, and SQL of tables around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from ..errors import BeyondError, QueryError, SchemaError
from ..plan.query import LEFT
from ..query.dialect import COUNT, NEAREST, ROWS, Penstock, refused, snippet
from ..query.groups import NO_KEY
from ..query.join_window import NoWindowError
from ..query.options import QueryOptions
from ..query.parse import parse
from ..query.rewriting import (
    existence_as_join,
    with_column_names,
    without_filters,
    without_with,
)
from ..query.sources import Lowered, reader_of
from ..query.window_function import is_session, is_window
from ..uses import UnusedError
from .clocks import Clocks
from .computed_values import COMPUTED
from .given import check_fields, check_names, check_size, name_tables, with_values
from .join_order import as_nearest, order_joins, rank_nearest, relations_last
from .parts import (
    PLACE,
    Closing,
    EqualPairs,
    Joined,
    Part,
    PartError,
    Relational,
    Split,
    Surrounding,
    Words,
    refuse_unused,
)
from .qualified import is_unread, output_names, qualified, set_apart
from .shapes import (
    add_needed,
    calls_in,
    equates,
    existence_joined,
    gives_all,
    merge,
    needs_all,
    put_columns,
    takes_some,
    with_ends,
)
from .sides import (
    ComputedBefore,
    JoinSide,
    Outputs,
    aliases_in,
    column_of,
    conditions_of,
    expressions,
    is_closed,
    items_of,
    kind_of,
    name_of,
    set_where,
    table_as,
)

#: Joins after which a condition on an earlier side is not what it is before them.
_NOT_PASSED = ("RIGHT", "FULL")
_KINDS = {"": "", "LEFT": "LEFT", "RIGHT": "RIGHT", "FULL": "FULL"}
_KINDS |= {"SEMI": "SEMI", "ANTI": "ANTI", "LEFT SEMI": "SEMI", "LEFT ANTI": "ANTI"}
_ROWS_OF_ONE_JOIN = (
    "ROWS are for a query that is one join, and this one is run in parts: write bounds of times in "
    "ON in their place"
)
#: Expressions that need more than the row of each side.
_OF_SEVERAL_ROWS = (exp.Query, exp.AggFunc, exp.Window)
#: Comparisons by which ASOF JOIN takes a row.
_ORDERS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
#: Clauses of a SELECT that groups take up.
_OF_GROUPS = ("from_", "joins", "where", "group")


def split(
    text: str,
    schemas: Mapping[str, pa.Schema],
    options: QueryOptions,
    engine: Surrounding,
    *,
    ends: bool = True,
    relations: Collection[str] = (),
) -> Split:
    """Split a query into parts.

    Parameters
    ----------
    engine : Surrounding
        Runs what stands around joins.
    ends : bool
        Whether the inputs end: they are tables, not streams.
    relations : collection of str
        The tables whose rows are looked up.

    Raises
    ------
    QueryError
        Nothing runs it.
    """
    # Each of the parts may leave unused what another one uses.
    entrance, options = options.entrance, replace(options, entrance=None)
    tree = with_column_names(without_filters(without_with(parse(text))), schemas)
    if not isinstance(tree, exp.Query):
        raise QueryError(f"a SELECT is needed, not {type(tree).__name__.upper()}")
    if any(ROWS in t.meta for t in tree.find_all(exp.Table)):
        raise PartError(_ROWS_OF_ONE_JOIN)
    name_tables(tree, schemas)
    check_names(tree, schemas, options)
    check_fields(tree, schemas)
    check_size(tree)
    tree = with_values(tree, schemas, options.params or {})
    if not ends and isinstance(tree, exp.Select):
        reader = reader_of(schemas, options)
        tree = existence_as_join(tree, lambda item: reader.read(item, LEFT))
    named = qualified(tree, schemas)
    if named.find(exp.Join):  # of one table, all is the engine's
        engine.check(named)
    words = Words(named.copy())
    words.aliases = set_apart(named)
    splitter = _Splitter(dict(schemas), options, engine, words, ends, relations)
    names = output_names(tree, named, schemas)
    for select in () if ends else named.find_all(exp.Select):
        merge(select)
        with words.spoken():
            table = rank_nearest(
                select, splitter.clocks.unique_in, keeps_arrival=engine.keeps_arrival
            )
        clashing = table and next(
            (n for n in schemas if PLACE in map(str.lower, schemas[n].names)), ""
        )
        if clashing:
            raise QueryError(
                f"{clashing} has a column {PLACE}, as rows are numbered here: rename it"
            )
        if table and PLACE not in splitter.schemas[table].names:
            place = pa.field(PLACE, pa.int64(), nullable=False)
            splitter.schemas[table] = splitter.schemas[table].append(place)
    with words.spoken():
        splitter.take_joins(named)
        if not splitter.parts or not gives_all(named, splitter.parts[-1], splitter.schemas):
            splitter.add_relational(named)
    result = Split(splitter.parts, names, splitter.schemas, words, splitter.estimated)
    # A stream without a join does not run, for a reason that its caller knows.
    if entrance is not None and (ends or any(isinstance(part, Joined) for part in result.parts)):
        try:
            refuse_unused(result, entrance)
        except UnusedError as error:
            if error.option == "within" and isinstance(splitter.why, NoWindowError):
                raise splitter.why from None  # it says which table has no time
            raise
    return result


def holds(parts: Split, engine: Surrounding) -> bool:
    """Whether the rows of an engine's tables leave it to the same engines to run the joins."""
    return all(_are_many(engine.equal_pairs(one)) == many for one, many in parts.estimated)


def _are_many(equals: EqualPairs | None) -> bool:
    return equals is not None and equals.are_many


@dataclass
class _Splitter:
    schemas: dict[str, pa.Schema]
    options: QueryOptions
    engine: Surrounding
    words: Words
    #: Whether the inputs end: they are tables, not streams.
    ends: bool = True
    relations: Collection[str] = ()
    parts: list[Part] = field(default_factory=list)
    estimated: list[tuple[exp.Select, bool]] = field(default_factory=list)
    clocks: Clocks = field(init=False)
    #: Why Penstock does not run a join, of the last one that it does not.
    why: QueryError | SchemaError | None = None
    #: Why an engine runs the last join without a window, for the part that has it.
    reason: str = ""

    def __post_init__(self) -> None:
        computed = self.words.computed
        self.clocks = Clocks(
            self.schemas, self.options, self.relations, computed, self.words.aliases
        )

    # -- parts ------------------------------------------------------------------------------------

    def add_relational(self, tree: exp.Query) -> str:
        """Make a part of a query without windowed joins."""
        reads = tuple(
            dict.fromkeys(t.name for t in tree.find_all(exp.Table) if t.name in self.schemas)
        )
        for name in () if self.engine.makes_relations else reads:
            if name in self.relations:
                raise self.why or QueryError(
                    f"{name} is a relation, whose rows are looked up one by one: join it with "
                    "conditions in ON (by SEMI or ANTI JOIN for EXISTS and IN), or read "
                    f"{name} as a table"
                )
        self._check_joins(tree)
        closing = None if self.ends else self._closing(tree)
        name = name_of(f"rows of {' and '.join(reads)}", self.schemas)
        text = self.engine.written(tree, self.schemas)
        reason, self.reason = (self.reason, "") if tree.find(exp.Join) else ("", self.reason)
        part = Relational(name, text, reads, needs_all(tree), closing, reason)
        return self._add(part, self.engine.relational(part, self.schemas))

    def _closing(self, tree: exp.Query) -> Closing | None:
        """Find when groups of a join's pairs are complete; None if that is not known."""
        if all(one.looks_up for one in self.parts if isinstance(one, Joined)):
            return None  # no window says how far time has come
        name = self.parts[-1].name
        closing = self.clocks.closing(name, tree)
        if closing is None:
            return None
        time, alias, value = closing
        select = exp.Select(expressions=[exp.alias_(value, "closing")])
        select.set("from_", exp.From(this=table_as(name, name)))
        in_window = any(map(is_window, value.find_all(exp.Anonymous)))
        return Closing(self.engine.written(select, self.schemas), time, alias, in_window)

    def _joined(
        self, tree: exp.Select, sides: list[JoinSide], options: Iterable[QueryOptions] | None = None
    ) -> str | None:
        """Make a part of a query that Penstock runs; None if it does not."""
        reads = tuple(dict.fromkeys(side.table for side in sides))
        for chosen in self.clocks.choices(sides) if options is None else options:
            name = name_of(" join ".join(side.alias for side in sides), self.schemas)
            part = Joined(name, tree.sql(dialect=Penstock), reads, chosen)
            try:
                return self._add(part, self.engine.joined(part, self.schemas))
            except (BeyondError, SchemaError) as error:
                self.why = error
        return None

    def _add(self, part: Part, schema: pa.Schema) -> str:
        self.parts.append(part)
        self.schemas[part.name] = schema
        return part.name

    def _back_to(self, count: int) -> None:
        """Forget the parts behind the first so many."""
        for part in self.parts[count:]:
            del self.schemas[part.name]
        del self.parts[count:]

    def _check_joins(self, tree: exp.Query) -> None:
        """Refuse what would compare all rows with all others."""
        for join in tree.find_all(exp.Join):
            select = join.find_ancestor(exp.Select)
            conditions = conditions_of(join)
            if select is not None:
                conditions += conditions_of(select.args.get("where"))
            compared = (one for one in conditions if len(aliases_in(one)) > 1)
            if join.method.upper() == "ASOF" and not any(isinstance(c, _ORDERS) for c in compared):
                raise refused(
                    "ASOF JOIN takes the latest or next row by a comparison of both tables: write "
                    "one with >=, >, <= or < in ON, such as l.t >= r.t",
                    join,
                )
            is_cross = str(join.args.get("kind") or "").upper() == "CROSS"
            if join.args.get(NEAREST):
                raise self.why or refused("NEAREST is not for these tables", join)
            is_theta = join.args.get("on") is not None or not is_cross
            is_listed = (
                join.method
                or join.args.get("using")
                or not isinstance(join.this, exp.Table | exp.Subquery)
            )
            if is_theta and not is_listed and not any(map(equates, conditions)):
                if self.options.rows is not None:
                    raise PartError(_ROWS_OF_ONE_JOIN)
                if not self.ends and isinstance(self.why, NoWindowError):
                    raise PartError(str(self.why)) from self.why
                raise self.why or refused(
                    "a join needs a window or an equality of both sides", join
                )

    # -- joins ------------------------------------------------------------------------------------

    def take_joins(self, tree: exp.Query) -> None:
        """Replace windowed joins, those inside first, and from left to right, by parts."""
        for select in reversed(list(tree.find_all(exp.Select))):
            if select.args.get("from_") is None:
                continue
            if not self._take_existence(select):
                self._take_joins_of(select)

    def _take_existence(self, select: exp.Select) -> bool:
        """Take the joins of a SELECT, EXISTS and IN among them, if Penstock runs all of these."""
        if not self.ends or self.relations or self.engine.makes_relations:
            return False
        joined, count = existence_joined(select, self.schemas), len(self.parts)
        if joined is None:
            return False
        self._take_joins_of(joined)
        if any(str(one.kind) in ("SEMI", "ANTI") for one in joined.args.get("joins") or ()):
            # What Penstock does not run, the engine runs as it was written.
            self._back_to(count)
            return False
        _put_back(joined, select)
        return True

    def _take_joins_of(self, select: exp.Select) -> None:
        """Replace the windowed joins of one SELECT by parts."""
        relations_last(select, self.relations)
        order_joins(select, self._estimate)
        while len(select.args.get("joins") or ()) > 1 and (
            self._take_pairs(select) or self._take_rows(select)
        ):
            pass
        if not self._take_groups(select) and select.args.get("joins"):
            self._take_pairs(select)
        if not self.ends:
            self._take_windows(select)

    def _estimate(self, a: exp.Expr, b: exp.Expr, on: list[exp.Expr]) -> int | None:
        """How many pairs two tables have in the window of their join."""
        tables = [one.name if isinstance(one, exp.Table) else "" for one in (a, b)]
        known = self.schemas.keys() - self.relations
        is_bound = self.options.within is not None  # by the first time, whatever the order
        if not self.ends or is_bound or any(name not in known for name in tables):
            return None
        sides = [self._side(a), self._side(b)]
        lowered = self._lowered(sides)
        core = exp.Select(expressions=[exp.alias_(exp.Literal.number(1), "c0", quoted=True)])
        self._read_from(core, "", sides, [one.copy() for one in on if lowered.knows(one)])
        for chosen in self.clocks.choices(sides):
            part = Joined("", core.sql(dialect=Penstock), tuple(dict.fromkeys(tables)), chosen)
            count = self.engine.pairs(part)
            if count is not None:
                return count
        return None

    def _take_pairs(self, select: exp.Select) -> bool:
        """Replace the first join of a SELECT by a part with its pairs."""
        if self.ends and self._take_as_nearest(select):
            return True
        first = self._read_first(select)
        if first is None:
            return False
        count, join = len(self.parts), select.args["joins"][0]
        kind, sides, conditions, kept = first
        rows = [arg for key, arg in select.args.items() if key not in ("from_", "joins", "where")]
        later = [*expressions([*rows, select.args["joins"][1:], kept])]
        if join.args.get(NEAREST):
            name = self._make_nearest(select, join, kind, sides, conditions, later)
        else:
            name = self._make_pairs(select, kind, sides, conditions, kept, later)
        if name is None:
            self._back_to(count)
        return name is not None

    def _take_as_nearest(self, select: exp.Select) -> bool:
        """Replace an ASOF JOIN, or rows that LATERAL limits, by the nearest rows that they are."""
        nearest, why, count = select.copy(), self.why, len(self.parts)
        try:
            is_taken = as_nearest(nearest) and self._take_pairs(nearest)
        except QueryError:  # as of a text, by which the engine orders
            is_taken = False
        if not is_taken:
            self._back_to(count)
            self.why = why
            return False
        _put_back(nearest, select)
        return True

    def _take_rows(self, select: exp.Select) -> bool:
        """Replace a join of tables on an equality by its rows; Penstock may run one behind it."""
        source, (join, *later) = select.args["from_"].this, select.args["joins"]
        items = items_of(select)
        are_relations = [isinstance(one, exp.Table) and one.name in self.relations for one in items]
        compares = any(
            joined.args.get(NEAREST)
            or (isinstance(joined.this, exp.Lateral) and isinstance(joined.this.this, exp.Subquery))
            or any(len(aliases_in(one)) > 1 and not equates(one) for one in conditions_of(joined))
            for joined in later
        )
        if not self.ends or not (compares or any(are_relations[2:])) or any(are_relations[:2]):
            return False
        if not any(map(equates, conditions_of(join))) or not all(map(is_closed, items[:2])):
            return False
        outputs = Outputs(self.words)
        rows = [arg for key, arg in select.args.items() if key not in ("from_", "joins")]
        for one in expressions([*rows, later]):
            for column in one.find_all(exp.Column):
                if column.table in (source.alias_or_name, join.this.alias_or_name):
                    outputs.add(column)
        core = exp.Select(expressions=outputs.selected())
        core.set("from_", exp.From(this=source))
        core.set("joins", [join])
        name = self.add_relational(core)
        select.set("from_", exp.From(this=table_as(name, name)))
        select.set("joins", later)
        outputs.put(select, name)
        return True

    def _read_first(
        self, select: exp.Select
    ) -> tuple[str, list[JoinSide], list[exp.Expr], list[exp.Expr]] | None:
        """Kind, sides and conditions of a SELECT's first join, and other conditions of WHERE."""
        source, (join, *later) = select.args["from_"].this, select.args["joins"]
        is_nearest = bool(join.args.get(NEAREST))
        kind = _KINDS.get(kind_of(join).removesuffix("NEAREST").strip())
        if kind is None or join.args.get("using") or not all(map(is_closed, (source, join.this))):
            return None
        names = {source.alias_or_name, join.this.alias_or_name}
        conditions = conditions_of(join)
        kept: list[exp.Expr] = []
        passed = not (kind or is_nearest) and not any(
            str(one.side).upper() in _NOT_PASSED for one in later
        )
        for one in conditions_of(select.args.get("where")):
            is_own = passed and bool(aliases_in(one)) and aliases_in(one) <= names
            (conditions if is_own and not one.find(exp.Query) else kept).append(one)
        several = next((f for c in conditions if (f := c.find(*_OF_SEVERAL_ROWS))), None)
        if several is not None:
            self.why = refused(
                "the condition of a join is about one pair of rows; compute a value of several "
                "rows in a subquery of FROM",
                several,
            )
            return None
        return kind, [self._side(source), self._side(join.this)], conditions, kept

    def _side(self, tree: exp.Expr) -> JoinSide:
        """A side of a join as a table; a subquery becomes a part."""
        alias = tree.alias_or_name
        if not isinstance(tree, exp.Subquery):
            return JoinSide(alias, tree.name, tree.name)
        tables = {one.name for one in tree.this.find_all(exp.Table)}
        inside = tables.pop() if len(tables) == 1 else ""
        return JoinSide(alias, alias, self.add_relational(tree.this), inside)

    def _make_pairs(
        self,
        select: exp.Select,
        kind: str,
        sides: list[JoinSide],
        conditions: list[exp.Expr],
        kept: list[exp.Expr],
        later: list[exp.Expr],
    ) -> str | None:
        """Make a part of a join, and put it in its place; None if Penstock does not run it."""
        on, left = self._conditions(sides, conditions)
        if left and kind:
            why = self._lowered(sides).refusal(left[0])
            self.why = QueryError(
                f"{why}; Penstock itself tests the condition of a {kind} JOIN for each pair in "
                "the window: write it with functions of docs/joins/sql.md, give the function "
                "columns of one side only, or take an inner JOIN, whose pairs are tested afterwards"
            )
            return None
        aliases = {side.alias for side in (sides[:1] if kind in ("SEMI", "ANTI") else sides)}
        outputs = self._outputs(aliases, [*later, *left])
        # With within= they have a window with the tables of later joins.
        is_timed = self.options.within is not None and len(select.args["joins"]) > 1
        for side in sides if is_timed or not self.ends else ():
            for column in self.clocks.kept(side):
                if side.alias in aliases:
                    outputs.add_column(side.alias, column)
        core = exp.Select(expressions=outputs.selected())
        self._read_from(core, kind, sides, on)
        name = self._joined(core, sides)
        if name is None and not all(map(self.clocks.named_time, sides)):
            name = self._without_window(core, kind, sides, on, kept, is_cut=takes_some(select))
        if name is None:
            return None
        part = self.parts[-1]
        assert isinstance(part, Joined)
        self.parts[-1] = replace(part, clock=self.clocks.note(name, sides, outputs))
        set_where(select, [*kept, *left])
        return self._put_part(select, name, outputs)

    def _put_part(self, select: exp.Select, name: str, outputs: Outputs) -> str:
        """Put a part in the place of a SELECT's first join."""
        select.set("from_", exp.From(this=table_as(name, name)))
        select.set("joins", select.args["joins"][1:])
        outputs.put(select, name)
        return name

    def _outputs(self, aliases: Collection[str], later: Iterable[exp.Expr]) -> Outputs:
        """Columns of some sides that expressions behind their join read."""
        outputs = Outputs(self.words)
        for column in (column for one in later for column in one.find_all(exp.Column)):
            if column.table in aliases:
                outputs.add(column)
        return outputs

    def _make_nearest(
        self,
        select: exp.Select,
        join: exp.Join,
        kind: str,
        sides: list[JoinSide],
        conditions: list[exp.Expr],
        later: list[exp.Expr],
    ) -> str | None:
        """Make a part of a join of nearest rows; None if Penstock does not compute its value."""
        ordered = join.args[NEAREST]
        if any(side.source in self.relations for side in sides):
            self.why = QueryError("NEAREST is for tables; read the relation as a table")
            return None
        # Conditions of WHERE are of the rows that are chosen.
        known, left = self._conditions(sides, [*conditions, ordered.this])
        if left:
            self.why = self._lowered(sides).refusal(left[0]) or self.why
            return None
        *on, value = known
        where = conditions_of(select.args.get("where"))
        outputs = self._outputs({side.alias for side in sides}, [*later, *where])
        core = exp.Select(expressions=outputs.selected())
        self._read_from(core, kind, sides, on)
        order = exp.Ordered(
            this=value, desc=ordered.args["desc"], nulls_first=ordered.args.get("nulls_first")
        )
        core.args["joins"][0].set(NEAREST, order)
        core.args["joins"][0].set(COUNT, join.args[COUNT].copy())
        time = {one.alias: named for one in sides if (named := self.clocks.named_time(one))}
        options = replace(
            self.options, time=time or None, within=None, rows=None, scale=None, unique=None
        )
        name = self._joined(core, sides, [options])
        return None if name is None else self._put_part(select, name, outputs)

    def _without_window(
        self,
        core: exp.Select,
        kind: str,
        sides: list[JoinSide],
        on: list[exp.Expr],
        kept: list[exp.Expr],
        *,
        is_cut: bool,
    ) -> str | None:
        """Join tables without a window in one that has all rows; None if the engine is faster.

        The engine joins by equal values, and tests each of these pairs. Penstock searches by all
        conditions together, but reads its tables more slowly.

        Parameters
        ----------
        kept : list of expression
            Conditions of WHERE, which the engine may test before the join.
        is_cut : bool
            Whether the engine may stop before all pairs are tested.
        """
        if not self.ends or not isinstance(self.why, NoWindowError):
            return None
        # Estimates read rows: not where nobody needs one, so that the parts are kept.
        if any(map(equates, on)) and (is_cut or not self._has_many_pairs(sides, on, kept)):
            return None
        unused = dict.fromkeys(("time", "within", "rows", "scale", "unique"))
        name = self._joined(core, sides, [replace(self.options, all_rows=True, **unused)])
        if name is not None:
            self.parts[-1], self.reason = replace(self.parts[-1], why=self.reason), ""
        return name

    def _has_many_pairs(
        self, sides: list[JoinSide], on: list[exp.Expr], kept: list[exp.Expr]
    ) -> bool:
        """Whether equalities leave more pairs than the engine tests in the time of our join.

        Rows that a condition of one side leaves out are in no such pair.
        """
        tests = [one for one in on if len(aliases_in(one)) > 1 and not equates(one)]
        if not tests:
            self.reason = "a join by equal values alone"
            return False
        known = {side.alias for side in sides}
        before = [one for one in kept if len(aliases_in(one)) == 1 and aliases_in(one) < known]
        before = [one for one in before if not one.find(exp.Query, exp.Is)]
        before = [*before, *(one for one in on if one not in tests)]
        core = exp.select(exp.Star())
        self._read_from(core, "", sides, [*before, *tests])
        try:
            # A call takes some 0.3 ms, and a key that comes often makes many of few pairs each.
            is_ours = COMPUTED in self.engine.written(core, self.schemas).lower()
        except QueryError:  # the engine cannot run it
            is_ours = True
        if is_ours:
            self.reason = "only Penstock tests the conditions beside equal values"
            return True
        core = exp.select(exp.Star())
        self._read_from(core, "", sides, before)
        equals = self.engine.equal_pairs(core)
        self.reason = "" if equals is None else str(equals)
        self.estimated.append((core, _are_many(equals)))
        return _are_many(equals)

    def _projected(self, side: JoinSide, computed: Mapping[str, exp.Expr]) -> str:
        """Make a part that has the columns of a side, and computed ones."""
        named = {column.name.lower() for column in self.words.tree.find_all(exp.Column)}
        kept = [
            column_of(side.alias, field.name)
            for field in self.schemas[side.table]
            if field.name.lower() in named or not is_unread(field.type)
        ]
        items = [exp.alias_(one.copy(), name, quoted=True) for name, one in computed.items()]
        tree = exp.Select(expressions=[*kept, *items])
        tree.set("from_", exp.From(this=side.tree()))
        return self.add_relational(tree)

    def _conditions(
        self, sides: list[JoinSide], conditions: list[exp.Expr]
    ) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """Expressions that Penstock computes, of columns that are made for it, and the others."""
        before = self._before(sides)
        pairs = [(one, before.expression(one)) for one in conditions]
        self._compute(sides, before)
        lowered = self._lowered(sides)
        on = [condition for _, condition in pairs if lowered.knows(condition)]
        return on, [one for one, condition in pairs if not lowered.knows(condition)]

    def _before(self, sides: list[JoinSide]) -> ComputedBefore:
        relations = () if self.engine.makes_relations else self.relations
        sides_before = [side for side in sides if side.source not in relations]
        columns = {side.alias: {} for side in sides_before}
        return ComputedBefore(self._lowered(sides), columns, self.words)

    def _lowered(self, sides: list[JoinSide]) -> Lowered:
        return Lowered({side.alias: self.schemas[side.table] for side in sides}, self.options)

    def _compute(self, sides: list[JoinSide], before: ComputedBefore) -> None:
        """Make parts that have the columns of sides and computed ones."""
        for side in sides:
            computed = before.columns.get(side.alias)
            if computed:
                side.table = self._projected(side, computed)

    def _read_from(
        self, core: exp.Select, kind: str, sides: list[JoinSide], on: list[exp.Expr]
    ) -> None:
        core.set("from_", exp.From(this=sides[0].tree()))
        if len(sides) == 1:
            set_where(core, on)
            return
        joined = exp.Join(this=sides[1].tree(), on=exp.and_(*on) if on else exp.true())
        if kind in ("SEMI", "ANTI"):
            joined.set("kind", kind)
        joined.set("side", "LEFT" if joined.args.get("kind") else kind)
        core.set("joins", [joined])

    def _take_windows(self, select: exp.Select) -> None:
        """Write the pairs of a join once for each of the sliding windows that they are in."""
        calls, pairs = calls_in(select), select.args["from_"].this
        if not calls or pairs.name not in self.clocks.joined or select.args.get("joins"):
            return
        name = self._projected(JoinSide(pairs.name, pairs.name, pairs.name), calls)
        self.clocks.note_windows(name, pairs.name, calls)
        put_columns(select, calls, name)
        select.set("from_", exp.From(this=table_as(name, name)))

    # -- groups -----------------------------------------------------------------------------------

    def _take_groups(self, select: exp.Select) -> bool:
        """Replace a join and the groups of its pairs, or groups of one table, by a part."""
        joins, group = select.args.get("joins") or [], select.args.get("group")
        keys = [] if group is None else group.expressions
        sets = (exp.Rollup, exp.Cube, exp.GroupingSets)
        if group is not None and (
            any(arg for key, arg in group.args.items() if key != "expressions")
            or any(isinstance(key, sets) for key in keys)
        ):
            return False
        if select.find(exp.Filter):  # those that groups fold are written without
            return False
        tail = [arg for key, arg in select.args.items() if key not in _OF_GROUPS]
        outputs = Outputs(self.words)
        for one in expressions(tail):
            with_ends(one)
            add_needed(one, keys, select, outputs)
        is_grouped = group is not None or any(
            tree.find(exp.AggFunc) for _, tree in outputs.names.values()
        )
        has_sessions = any(is_session(key) for key in keys)
        if not is_grouped or len(joins) > 1 or not (joins or has_sessions or not self.ends):
            return False
        count = len(self.parts)
        items = [select.args["from_"], *joins]
        aliases = [one.this.alias_or_name for one in items]
        name = self._make_groups(select, keys, outputs)
        if name is None:
            self._back_to(count)
            return False
        select.set("from_", exp.From(this=table_as(name, name)))
        having = select.args.pop("having", None)
        for clause in ("joins", "group", "where"):
            select.set(clause, None)
        if having is not None:
            select.set("where", exp.Where(this=having.this))
        # A part may have the name of its table.
        rows = [one for one in select.find_all(exp.Column) if one.table in aliases]
        outputs.put(select, name)
        left = {id(column) for column in select.find_all(exp.Column)}
        for column in rows:
            if id(column) in left:
                if column.table.startswith("_"):  # named by the parser
                    column.set("table", None)
                raise refused(NO_KEY.format(snippet(column)), column)
        return True

    def _make_groups(
        self, select: exp.Select, keys: list[exp.Expr], outputs: Outputs
    ) -> str | None:
        if select.args.get("joins"):
            first = self._read_first(select)
            if first is None:
                return None
            kind, sides, conditions, kept = first
            if select.args["joins"][0].args.get(NEAREST):
                return None
            is_first = not any(side.source in self.clocks.joined for side in sides)
            if kind or kept or not (self.ends or is_first):
                return None
        else:
            if not is_closed(select.args["from_"].this):
                return None
            kind, sides = "", [self._side(select.args["from_"].this)]
            conditions = conditions_of(select.args.get("where"))
        before = self._before(sides)
        on = [before.expression(one) for one in conditions]
        grouped = [before.expression(key) for key in keys]
        core = exp.Select(expressions=outputs.selected(before))
        self._compute(sides, before)
        self._read_from(core, kind, sides, on)
        if grouped:
            core.set("group", exp.Group(expressions=grouped))
        left = {column.table for column in core.find_all(exp.Column)} - {s.alias for s in sides}
        choices = self.clocks.choices(sides, is_grouped=True)
        return None if left else self._joined(core, sides, choices)


def _put_back(copied: exp.Select, select: exp.Select) -> None:
    """Replace the clauses of a SELECT by those of its copy."""
    for key in {**select.args, **copied.args}:
        select.set(key, copied.args.get(key))
