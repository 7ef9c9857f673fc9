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
from ..expr.tumbling import Tumbling
from ..plan.query import Aggregate, Aggregation, SessionKey
from ..plan.window import MOST_GAP
from ..types import TIMES
from .aggregates import OF_PAIRS_INSTEAD, has_aggregate, read_aggregate
from .dialect import beyond, mistaken, not_compared, refused, snippet
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
        raise refused(
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
            raise refused("DISTINCT ON is not supported", tree)
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
    if isinstance(item, exp.Literal) and not item.is_string:
        text = str(item.this)
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
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
        #: The call of ``session_window`` in GROUP BY: its time and its gap.
        self.session_of: tuple[Expr, Expr] | None = None
        #: Keys with their numbers.
        self.keys: dict[Expr, int] = {}
        times = set()
        for tree in key_trees:
            key = self._key(tree)
            self.keys.setdefault(key, len(self.keys))
            if not is_session(tree):
                times.add(key)
        #: Whether the time of the session is a key by itself: then all rows of a session have it.
        self._has_one_time = self.session_of is not None and self.session_of[0] in times
        #: Windows within keys, such as ``window(...).start``, too.
        self.used = [
            plain.window(part)
            for tree in key_trees
            for part in tree.walk()
            if isinstance(part, exp.Anonymous) and is_window(part)
        ]
        self.used += self._session_as_window()
        #: Trees, by id, with an aggregate or a field of a window in them.
        self.special: set[int] = set()
        self.aggregates: list[Aggregate] = []
        # Aggregates without their text by number, so that the same one is computed once.
        self.numbers: dict[Aggregate, int] = {}

    def _session_as_window(self) -> list[Tumbling]:
        """The session in GROUP BY, as a window whose time the groups follow."""
        if self.session_of is None:
            return []
        time, gap = self.session_of
        return [Tumbling(time, time, gap)]

    @property
    def session_key(self) -> SessionKey | None:
        """The key that is a session, if one is and its rows may have several times."""
        if self.session_of is None or self._has_one_time:
            return None
        time, gap = self.session_of
        most = min(ticks(gap, time.type.unit), MOST_GAP)
        return SessionKey(self.keys[time], self._number(self._last()), most)

    def _last(self) -> Aggregate:
        """The time of a session's last row."""
        assert self.session_of is not None
        time = self.session_of[0]
        return Aggregate("max", time, None, time.type, "the last time of a session")

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
            raise refused(error, tree) from None
        return self.windows[-1].start

    def _session(self, tree: exp.Expr) -> Expr:
        if self.session_of is not None:
            raise refused("GROUP BY takes one session_window", tree)
        try:
            self.session_of = self.plain.session(tree)
        except ExprTypeError as error:
            raise refused(error, tree) from None
        if self.windows:
            raise mistaken("GROUP BY takes a window or a session_window, not both", tree)
        return self.session_of[0]

    def mark(self, *trees: exp.Expr) -> None:
        """Note where aggregates and fields of windows are, for trees that are to be lowered."""
        for tree in trees:
            for part in tree.walk():
                is_dot = isinstance(part, exp.Dot) and is_session(part.this)
                is_field = self._is_field(part) or self._is_field(part, "session_window") or is_dot
                if isinstance(part, exp.AggFunc) or is_field:
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
        window = self._window_of(tree)
        if window is not None:
            return window_field(replace(window, start=self._output(window.start)), tree.name, tree)
        if (name := self._session_field(tree)) is not None:
            return self._bound(name, tree)
        if id(tree) not in self.special:
            known = self.plain.value(tree)
            if known in self.keys:
                return self._output(known)
            if not known.sides:
                return known
            if isinstance(tree, exp.Column):
                raise refused(NO_KEY.format(snippet(tree)), tree)
        return super().lower(tree)

    def _session_field(self, tree: exp.Expr) -> str | None:
        """The name of a field of the session; None for other trees."""
        if isinstance(tree, exp.Dot) and is_session(tree.this):
            if self.session_of is None or self.plain.session(tree.this) != self.session_of:
                raise refused("GROUP BY has no such session_window", tree)
            return tree.expression.name.lower()
        return tree.name.lower() if self._is_field(tree, "session_window") else None

    def _bound(self, name: str, tree: exp.Expr) -> Expr:
        """``session_window.start`` or ``session_window.end``."""
        if self.session_of is None:
            raise refused(
                "GROUP BY has no session_window(...); write session_window(t, '10 seconds')."
                f"{name} of one that it has",
                tree,
            )
        time, gap = self.session_of
        if name == "start":
            start = self._output(time)
            # Computed, as the end is: instants of both are in the session's zone.
            is_instant = time.type.kind in TIMES
            return ops.sub(ops.add(start, gap), gap) if is_instant else start
        if name != "end":
            raise refused(f"a session has start and end, not {name}", tree)
        if self._has_one_time:
            return ops.add(self._output(time), gap)
        last = ops.column("agg", str(self._number(self._last())), time.type)
        return ops.add(last, gap)

    def _output(self, key: Expr) -> Expr:
        """A key as a column of the groups."""
        return ops.column("key", str(self.keys[key]), key.type)

    def _window_of(self, tree: exp.Expr) -> Tumbling | None:
        """The key of a field ``window.start`` or ``window(...).start``; None for others."""
        if self._is_bare(tree):
            raise refused("a window is not one value; take window.start or window.end", tree)
        if self._is_field(tree):
            if len(self.windows) != 1:
                count = "no" if not self.windows else "more than one"
                raise refused(
                    f"GROUP BY has {count} window(...); write window(t, '10 seconds')."
                    f"{tree.name} of one that it has",
                    tree,
                )
            return self.windows[0]
        if not isinstance(tree, exp.Dot) or not is_window(tree.this):
            return None
        start = self.plain.window(tree.this).start
        return next((w for w in self.windows if w.start is start), None)

    def _is_field(self, tree: exp.Expr, name: str = "window") -> bool:
        """Whether it is ``window.something``, and no table is named so."""
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
