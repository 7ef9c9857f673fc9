"""Reads a SELECT with GROUP BY, DISTINCT or aggregates.

The output is computed from two kinds of columns that no table has: ``("key", k)``, the group's
k-th key, and ``("agg", k)``, its k-th aggregate.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ..expr import ops
from ..expr.node import Expr, Op
from ..expr.ops import ExprTypeError
from ..expr.periods import Tumbling
from ..plan.query import Aggregate, Aggregation, SessionKey
from ..plan.window import MOST_GAP
from ..types import TIMES
from .aggregates import OF_PAIRS_INSTEAD, has_aggregate, read_aggregate
from .dialect import beyond, misfit, not_compared, refused, snippet
from .expressions import Lowering
from .scope import check_output, is_star, output_name
from .window_function import is_session, is_window, ticks, window_field

#: What is said of a column whose value a group does not have.
NO_KEY = (
    "{} is neither a key of GROUP BY nor inside an aggregate; add it to GROUP BY, or take min, max "
    "or min_by of it"
)
#: Most values computed from both tables that one query may aggregate: each takes some half a second
#: to compile once.
_MOST_COMPUTED = 8


def has_groups(tree: exp.Select) -> bool:
    """Whether the query gives groups rather than pairs."""
    clauses = any(tree.args.get(key) for key in ("group", "having", "distinct"))
    return clauses or any(map(has_aggregate, tree.expressions))


def read_aggregation(tree: exp.Select, plain: Lowering) -> tuple[Aggregation, tuple[Tumbling, ...]]:
    """Read keys, aggregates and output of a SELECT with groups, and the windows in its keys.

    Raises
    ------
    QueryError
        A column is neither a key nor in an aggregate, or an aggregate cannot be computed.
    """
    lowering = _GroupLowering(plain, _key_trees(tree, plain))
    having = tree.args.get("having")
    lowering.mark(*tree.expressions, *([] if having is None else [having.this]))
    select = []
    for item in tree.expressions:
        if is_star(item):
            raise refused("* cannot be grouped; list the keys", item)
        select.append((output_name(item), lowering.lower(item.unalias())))
    check_output(select, tree)
    condition = ops.TRUE if having is None else lowering.condition(having.this)
    sides = frozenset().union(*(key.sides for key in lowering.keys))
    side = None if len(sides) > 1 else next(iter(sides), "l")
    session, aggregates = lowering.session_key, tuple(lowering.aggregates)
    groups = Aggregation(side, tuple(lowering.keys), aggregates, tuple(select), condition, session)
    return groups, tuple(lowering.used)


def check_joined(groups: Aggregation, tree: exp.Select) -> None:
    """Refuse aggregates that cannot be computed from the matches of a join.

    Raises
    ------
    QueryError
    """
    if groups.session is not None:
        raise beyond(
            "session_window in GROUP BY is of one table; join first, and group what that gives",
            tree.args["group"],
        )
    computed = {a.value for a in groups.aggregates if a.value and len(a.value.sides) > 1}
    if len(computed) > _MOST_COMPUTED:
        raise beyond(
            f"the query has aggregates of {len(computed)} values that are computed from both "
            f"tables, more than {_MOST_COMPUTED}: each is a program of its own; ask for some of "
            "them in a second query",
            tree,
        )
    for one in groups.aggregates:
        if groups.side is None and one.by is not None:
            raise beyond(
                f"{one.text} over groups of columns of both tables is not supported: "
                f"{OF_PAIRS_INSTEAD}",
                tree.args["group"],
            )


def _key_trees(tree: exp.Select, plain: Lowering) -> list[exp.Expr]:
    """Syntax trees of the group keys."""
    group, distinct = tree.args.get("group"), tree.args.get("distinct")
    if distinct:
        if group or any(map(has_aggregate, tree.expressions)):
            raise beyond("DISTINCT beside aggregates is not supported", tree)
        if distinct.args.get("on"):
            raise beyond("DISTINCT ON is not supported", tree)
        for item in filter(is_star, tree.expressions):
            raise refused("* cannot be grouped; list the columns", item)
        return [item.unalias() for item in tree.expressions]
    if group is None:
        return []
    for name, part in group.args.items():
        if part and name != "expressions":
            clause = name.upper().replace("_", " ")
            raise beyond(f"GROUP BY {clause} is not supported; list the keys", group)
    return [_referred(item, tree, plain) for item in group.expressions]


def _referred(item: exp.Expr, tree: exp.Select, plain: Lowering) -> exp.Expr:
    """The tree that a key of GROUP BY means: itself, or an output column by number or name."""
    if isinstance(item, exp.Literal) and item.is_int:
        number = int(item.this)
        if not 1 <= number <= len(tree.expressions):
            raise refused(
                f"GROUP BY {item.this}: there are {len(tree.expressions)} output columns", tree
            )
        referred = tree.expressions[number - 1]
    elif isinstance(item, exp.Column) and not item.table:
        if plain.scope.find(None, item.name) is not None:
            return item
        alike = (e for e in tree.expressions if e.alias.lower() == item.name.lower())
        referred = next(alike, item)
    else:
        return item
    referred = referred.unalias()
    if has_aggregate(referred):
        raise refused("an aggregate cannot be a key of GROUP BY", referred)
    return referred


class _GroupLowering(Lowering):
    """Lowers output expressions over keys and aggregates."""

    def __init__(self, plain: Lowering, key_trees: list[exp.Expr]) -> None:
        super().__init__(plain.scope, plain.params, plain.functions, plain.rules)
        self.plain = plain
        self.windows: list[Tumbling] = []
        #: The call of ``session_window`` in GROUP BY, as a window from its time on.
        self.key_session: Tumbling | None = None
        #: Keys with their numbers.
        self.keys: dict[Expr, int] = {}
        times = set()
        for tree in key_trees:
            key = self._key(tree)
            self.keys.setdefault(key, len(self.keys))
            if not is_session(tree):
                times.add(key)
        #: Whether the time of the session is a key by itself: then all rows of a session have it.
        self._has_one_time = self.key_session is not None and self.key_session.time in times
        #: Windows within keys, such as ``window(...).start``, too.
        self.used = [
            plain.window(part)
            for tree in key_trees
            for part in tree.walk()
            if isinstance(part, exp.Anonymous) and is_window(part)
        ]
        self.used += self._sessions
        #: Trees, by id, with an aggregate or a field of a window in them.
        self.special: set[int] = set()
        self.aggregates: list[Aggregate] = []
        # Aggregates without their text by number, so that the same one is computed once.
        self.numbers: dict[Aggregate, int] = {}

    @property
    def _sessions(self) -> list[Tumbling]:
        return [] if self.key_session is None else [self.key_session]

    @property
    def session_key(self) -> SessionKey | None:
        """The key that is a session, if one is and its rows may have several times."""
        if self.key_session is None or self._has_one_time:
            return None
        time = self.key_session.time
        gap = min(ticks(self.key_session.size, time.type.unit), MOST_GAP)
        return SessionKey(self.keys[time], self._last(time), gap)

    def _last(self, time: Expr) -> int:
        """The number of the time of a session's last row."""
        last = Aggregate("max", time, None, time.type, "the last time of a session")
        return self._number(last)

    def _key(self, tree: exp.Expr) -> Expr:
        if is_session(tree):
            return self._session(tree)
        if not isinstance(tree, exp.Anonymous) or not is_window(tree):
            key = self.plain.value(tree)
            if key.type.nested:
                raise beyond(not_compared(snippet(tree), key.type.nested), tree)
            return key
        try:
            self.windows.append(self.plain.window(tree))
        except ExprTypeError as error:
            raise misfit(error, tree) from None
        return self.windows[-1].start

    def _session(self, tree: exp.Expr) -> Expr:
        if self.key_session is not None:
            raise refused("GROUP BY takes one session_window", tree)
        try:
            self.key_session = self.plain.session(tree)
        except ExprTypeError as error:
            raise misfit(error, tree) from None
        if self.windows:
            raise refused("GROUP BY takes a window or a session_window, not both", tree)
        return self.key_session.time

    def mark(self, *trees: exp.Expr) -> None:
        """Note where aggregates and fields of windows are, for trees that are to be lowered."""
        for tree in trees:
            for part in tree.walk():
                is_dot = isinstance(part, exp.Dot) and is_session(part.this)
                is_field = any(self._is_field(part, one) for one in ("window", "session_window"))
                if isinstance(part, exp.AggFunc) or is_field or is_dot:
                    while part is not None and id(part) not in self.special:
                        self.special.add(id(part))
                        part = part.parent

    def _members(self, tree: exp.Expr) -> list[exp.Expr]:
        if any(key.op in (Op.AND, Op.OR) for key in self.keys):
            return [tree.this, tree.expression]  # the first members may be a key together
        return super()._members(tree)

    def lower(self, tree: exp.Expr) -> Expr:
        if isinstance(tree, exp.AggFunc):
            return self._aggregate(tree)
        span = self._span_of(tree)
        if span is not None:
            return self._bound(span, tree)
        if id(tree) not in self.special:
            known = self.plain.value(tree)
            if known in self.keys:
                return self._output(known)
            if not known.sides:
                return known
            if isinstance(tree, exp.Column):
                raise refused(NO_KEY.format(snippet(tree)), tree)
        return super().lower(tree)

    def _bound(self, span: Tumbling, tree: exp.Expr) -> Expr:
        """The start or end of a window or session."""
        start = self._output(span.start)
        if span is not self.key_session:
            return window_field(replace(span, start=start), tree.name, tree)
        name, gap = tree.name.lower(), span.size
        if name == "start":
            # Computed, as the end is: instants of both are in the session's zone.
            is_instant = span.time.type.kind in TIMES
            return ops.sub(ops.add(start, gap), gap) if is_instant else start
        if name != "end":
            raise refused(f"a session has start and end, not {name}", tree)
        if self._has_one_time:
            return ops.add(start, gap)
        last = ops.column("agg", str(self._last(span.time)), span.time.type)
        return ops.add(last, gap)

    def _output(self, key: Expr) -> Expr:
        """A key as a column of the groups."""
        return ops.column("key", str(self.keys[key]), key.type)

    def _span_of(self, tree: exp.Expr) -> Tumbling | None:
        """The key of a field such as ``window.start`` or ``window(...).start``; None for others."""
        if self._is_bare(tree):
            raise misfit("a window is not one value; take window.start or window.end", tree)
        for name, spans in (("window", self.windows), ("session_window", self._sessions)):
            if self._is_field(tree, name):
                if len(spans) != 1:
                    count = "no" if not spans else "more than one"
                    raise refused(
                        f"GROUP BY has {count} {name}(...); write {name}(t, '10 seconds')."
                        f"{tree.name} of one that it has",
                        tree,
                    )
                return spans[0]
        call = tree.this if isinstance(tree, exp.Dot) else None
        if is_session(call):
            if self.key_session != self.plain.session(tree.this):
                raise refused("GROUP BY has no such session_window", tree)
            return self.key_session
        if not is_window(call):
            return None
        start = self.plain.window(tree.this).start
        return next((w for w in self.windows if w.start is start), None)

    def _is_field(self, tree: exp.Expr, name: str) -> bool:
        """Whether it is a field of this name, as ``window.start``, and no table is named so."""
        is_named = isinstance(tree, exp.Column) and tree.table.lower() == name
        return is_named and self.plain.scope.source(name) is None

    def _is_bare(self, tree: exp.Expr) -> bool:
        """Whether it is ``window`` alone, and no column is named so."""
        is_named = isinstance(tree, exp.Column) and not tree.table and tree.name.lower() == "window"
        return is_named and bool(self.windows) and self.plain.scope.find(None, tree.name) is None

    def _aggregate(self, tree: exp.AggFunc) -> Expr:
        aggregate = read_aggregate(tree, self.plain)
        return ops.column("agg", str(self._number(aggregate)), aggregate.type)

    def _number(self, aggregate: Aggregate) -> int:
        """The number of an aggregate."""
        same = replace(aggregate, text="")
        if same not in self.numbers:
            self.numbers[same] = len(self.aggregates)
            self.aggregates.append(aggregate)
        return self.numbers[same]
