"""What a query gives, worked out in plain Python by its definition: all pairs, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from tests.fuzz.evaluate import Compiler, MisfitError, Value, floating, less, limits_of
from tests.fuzz.expr import E, conjunction, conjuncts
from tests.fuzz.query import Case, Query
from tests.fuzz.types import comparable, value_of

Rows = list[tuple[Any, ...]]


@dataclass
class Expected:
    """Rows that must come out, and what makes a comparison of them less strict."""

    names: list[str]
    rows: Rows
    ties: bool = False
    """Whether min_by or max_by had several rows to choose from with different values."""

    open_ties: bool = False
    """Whether the docs leave open which of them it is."""

    misfit: bool = False
    """Whether some CAST over some row does not fit its type."""

    failed: bool = False
    """Whether the evaluator itself came upon it, so that there are no rows."""

    largest_sum: Fraction | int = 0
    """The largest exact sum by size, in units of its last digit."""

    rounded: bool = False
    """Whether sums of floats are in it, whose last digits depend on the order."""


class GroupCompiler(Compiler):
    """Compiles expressions over keys (the left "row") and aggregates (the right one)."""

    def __init__(self) -> None:
        super().__init__(({}, {}))
        self.aggregates: list[E] = []

    def _key(self, e: E) -> Value:
        at = e.value
        return lambda a, b, p: a[at]

    def _agg(self, e: E) -> Value:
        if e not in self.aggregates:
            self.aggregates.append(e)
        at = self.aggregates.index(e)
        return lambda a, b, p: b[at]

    def _window_start(self, e: E) -> Value:
        return self.compile(e.args[0])

    def _window_end(self, e: E) -> Value:
        size = e.args[0].args[0].value[0]
        return self._unary(e, lambda x: x + size)


class Oracle:
    """A query compiled for the plain evaluator; ``run`` gives its rows for one data set."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.inner = query.join in ("inner", "comma")
        visible = tuple({n: i for i, n in enumerate(query.visible(s))} for s in (0, 1))
        compiler = Compiler((visible[0], visible[1]))
        self._time = tuple(v["t"] for v in visible)
        self._widths = tuple(len(v) for v in visible)
        self._layers = tuple(self._compile_layers(side) for side in (0, 1))
        before: tuple[list[Value], list[Value]] = ([], [])
        self._after: list[Value] = []
        where = [term for whole in query.where for term in conjuncts(whole)]
        if query.join == "comma":
            # Of a comma join all conditions are of WHERE.
            where += [term for whole in query.on for term in conjuncts(whole)]
        for term in where:
            sides = term.sides()
            if len(sides) == 1:
                before[next(iter(sides))].append(compiler.compile(term))
            else:
                self._after.append(compiler.compile(term))
        self._before = before
        self._on = compiler.compile(conjunction([] if query.join == "comma" else list(query.on)))
        self._casts = [
            (compiler.compile(e), e.sides(), e)
            for whole in (*query.on, *query.where, *query.group, *(e for e, _ in query.outputs()))
            for e in whole.walk()
            if e.op == "cast" and limits_of(e.value)
        ]
        self._names = [name for _, name in query.outputs()]
        self._compile_outputs(compiler)

    def _compile_layers(self, side: int) -> list[tuple[list[Value] | None, Value | None]]:
        query = self.query
        layers = []
        known = [c.name for c in query.columns[side]]
        for layer in query.layers[side]:
            at = {name: i for i, name in enumerate(known)}
            compiler = Compiler((at, {}) if side == 0 else ({}, at))
            items = None
            if layer.items is not None:
                items = [compiler.compile(e) for e, _ in layer.items]
                known = [name for _, name in layer.items]
            where = None if layer.where is None else compiler.compile(layer.where)
            layers.append((items, where))
        return layers

    def _compile_outputs(self, compiler: Compiler) -> None:
        query = self.query
        outputs = [e for e, _ in query.outputs()]
        if query.distinct or not query.aggregated:
            self._outputs = [compiler.compile(e) for e in outputs]
            return
        groups = GroupCompiler()
        self._keys = [compiler.compile(e) for e in query.group]
        self._outputs = [groups.compile(e) for e in outputs]
        self._having = None if query.having is None else groups.compile(query.having)
        self._aggregates = groups.aggregates
        self._folds = [[compiler.compile(arg) for arg in e.args] for e in groups.aggregates]

    def _source(self, case: Case, side: int, p: dict[str, Any]) -> Rows:
        """The rows of a side behind its subqueries and its WHERE."""
        columns = self.query.columns[side]
        declared = self.query.times.declared[side]
        unit = self.query.times.unit(side)
        none: tuple[Any, ...] = ()
        rows = [
            tuple(
                x * unit if declared and c.name == "t" and x is not None else value_of(x, c.arrow)
                for x, c in zip(raw, columns, strict=True)
            )
            for raw in case.rows[side]
        ]
        for items, where in self._layers[side]:
            new = []
            for row in rows:
                both = (row, none) if side == 0 else (none, row)
                if where is not None and where(*both, p) is not True:
                    continue
                new.append(row if items is None else tuple(f(*both, p) for f in items))
            rows = new
        return [
            row
            for row in rows
            if all(
                f(*((row, none) if side == 0 else (none, row)), p) is True
                for f in self._before[side]
            )
        ]

    def _pairs(self, left: Rows, right: Rows, p: dict[str, Any]) -> list[tuple[int, int]]:
        at, bt = self._time
        query = self.query
        admitted: Callable[[int, int], bool] | None = None
        if query.rows is not None:
            admitted = self._rows_window(left, right)
        found = []
        on = self._on
        span = query.within
        for i, a in enumerate(left):
            if a[at] is None:
                continue
            for j, b in enumerate(right):
                if b[bt] is None or (admitted and not admitted(i, j)):
                    continue
                if span is not None and abs(a[at] - b[bt]) > span:
                    continue
                if on(a, b, p) is True:
                    found.append((i, j))
        return found

    def _rows_window(self, left: Rows, right: Rows) -> Callable[[int, int], bool]:
        """Whether rows meet: each, on arrival, the last n rows of the other side."""
        arrivals = []
        for side, rows in enumerate((left, right)):
            at = self._time[side]
            arrivals += [(r[at], side, i) for i, r in enumerate(rows) if r[at] is not None]
        met: set[tuple[int, int]] = set()
        before: tuple[list[int], list[int]] = ([], [])
        sizes = self.query.rows or (0, 0)
        for _, side, i in sorted(arrivals):
            other = 1 - side
            for j in before[other][-sizes[other] :]:
                met.add((i, j) if side == 0 else (j, i))
            before[side].append(i)
        return lambda i, j: (i, j) in met

    def run(self, case: Case) -> Expected:
        query = self.query
        p = {name: value[0] for name, value in case.params.items()}
        left, right = (self._source(case, side, p) for side in (0, 1))
        expected = Expected(self._names, [], misfit=self._misfit(case, left, right, p))
        try:
            joined = self._joined(left, right, p)
            if query.aggregated and not query.distinct:
                self._group(joined, (left, right), p, expected)
            else:
                expected.rows = [tuple(self._output(a, b, p)) for a, b in joined]
                if query.distinct:
                    unique = {tuple(map(comparable, row)): row for row in expected.rows}
                    expected.rows = list(unique.values())
        except MisfitError:
            expected.misfit = expected.failed = True
        return expected

    def _output(self, a: Any, b: Any, p: dict[str, Any]) -> list[Any]:
        out = []
        for (e, _), f in zip(self.query.outputs(), self._outputs, strict=True):
            x = f(a, b, p)
            if e.type.kind == "clock" and x is not None:
                x //= self.query.times.unit(e.value[0])
            out.append(x)
        return out

    def _misfit(self, case: Case, left: Rows, right: Rows, p: dict[str, Any]) -> bool:
        if not self._casts:
            return False
        nulls = tuple((None,) * width for width in self._widths)
        try:
            for f, sides, _ in self._casts:
                for a in left if 0 in sides else nulls[:1]:
                    for b in right if 1 in sides else nulls[1:]:
                        f(a, b, p)
        except MisfitError:
            return True
        return False

    def _joined(self, left: Rows, right: Rows, p: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Pairs of rows behind WHERE, with rows of NULLs where an outer join adds them."""
        join = self.query.join
        pairs = self._pairs(left, right, p)
        no_left, no_right = ((None,) * width for width in self._widths)
        if join in ("semi", "anti"):
            matched = {i for i, _ in pairs}
            out = [(a, no_right) for i, a in enumerate(left) if (i in matched) == (join == "semi")]
        else:
            out = [(left[i], right[j]) for i, j in pairs]
            if join in ("left", "full"):
                matched = {i for i, _ in pairs}
                out += [(a, no_right) for i, a in enumerate(left) if i not in matched]
            if join in ("right", "full"):
                matched = {j for _, j in pairs}
                out += [(no_left, b) for j, b in enumerate(right) if j not in matched]
        return [(a, b) for a, b in out if all(f(a, b, p) is True for f in self._after)]

    def _group(
        self,
        joined: list[tuple[Any, Any]],
        sources: tuple[Rows, Rows],
        p: dict[str, Any],
        out: Expected,
    ) -> None:
        groups: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[tuple[Any, Any]]]] = {}
        for a, b in joined:
            key = tuple(f(a, b, p) for f in self._keys)
            groups.setdefault(tuple(map(comparable, key)), (key, []))[1].append((a, b))
        if not self.query.group and not groups:
            groups[()] = ((), [])
        order = self._arrival(sources)
        for key, members in groups.values():
            folded = []
            for e, fs in zip(self._aggregates, self._folds, strict=True):
                folded.append(self._fold(e, fs, members, p, out, order))
            if self._having is not None and self._having(key, folded, p) is not True:
                continue
            row = []
            for (e, _), f in zip(self.query.outputs(), self._outputs, strict=True):
                x = f(key, folded, p)
                if e.type.kind == "clock" and x is not None:
                    x //= self.query.times.unit(min(e.sides()))
                row.append(x)
            out.rows.append(tuple(row))

    def _arrival(self, sources: tuple[Rows, Rows]) -> Callable[[Any, Any], tuple[Any, ...]]:
        """The order in which min_by and max_by prefer pairs of equal order."""
        own = 1 if any(1 in key.sides() for key in self.query.group) else 0
        seats = [{id(row): i for i, row in enumerate(rows)} for rows in sources]

        def when(side: int, row: Any) -> tuple[Any, ...]:
            time = row[self._time[side]]
            return (time is not None, time or 0, seats[side].get(id(row), -1))

        return lambda a, b: (when(1 - own, (a, b)[1 - own]), when(own, (a, b)[own]))

    def _fold(
        self,
        e: E,
        fs: list[Value],
        members: list[tuple[Any, Any]],
        p: dict[str, Any],
        out: Expected,
        order: Callable[[Any, Any], tuple[Any, ...]],
    ) -> Any:
        if e.value == "count" and not fs:
            return len(members)
        values = [fs[0](a, b, p) for a, b in members]
        if e.value == "count":
            return sum(x is not None for x in values)
        if e.value == "count_if":
            return sum(x is True for x in values)
        if e.value in ("min_by", "max_by"):
            return self._nearest(e, fs, members, p, out, order)
        known = [x for x in values if x is not None]
        if not known:
            return None
        if e.value in ("sum", "avg"):
            if isinstance(known[0], float):
                out.rounded = True
            total = sum(known)
            if e.args[0].type.exact:
                out.largest_sum = max(out.largest_sum, abs(total) * 10 ** e.args[0].type.scale)
            if e.value == "sum":
                return total
            if isinstance(total, float):
                return total / len(known)
            if e.type.kind == "dec":
                unit = 10**e.type.scale
                raw = Fraction(abs(total)) * unit / len(known) + Fraction(1, 2)
                return Fraction(floor(raw) * (-1 if total < 0 else 1), unit)
            return floating(Fraction(total) / len(known))
        best = known[0]
        for x in known[1:]:
            if less(x, best) if e.value == "min" else less(best, x):
                best = x
        return best

    def _nearest(
        self,
        e: E,
        fs: list[Value],
        members: list[tuple[Any, Any]],
        p: dict[str, Any],
        out: Expected,
        order: Callable[[Any, Any], tuple[Any, ...]],
    ) -> Any:
        ranked = [(fs[1](a, b, p), fs[0](a, b, p), order(a, b)) for a, b in members]
        ranked = [r for r in ranked if r[0] is not None]
        if not ranked:
            return None
        best = ranked[0][0]
        for x, _, _ in ranked:
            if less(x, best) if e.value == "min_by" else less(best, x):
                best = x
        near = [r for r in ranked if comparable(r[0]) == comparable(best)]
        if len({comparable(r[1]) for r in near}) > 1:
            out.ties = True
            # The docs say which row counts where keys are of one side and both rows are real.
            real = all(when[-1] >= 0 for _, _, order in near for when in order)
            out.open_ties |= not (self.query.group and real)
        return min(near, key=lambda r: r[2])[1]
