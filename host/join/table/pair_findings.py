"""Findings of a join of tables: why its pairs take long, or none of them matches.

Rules look at a sample of the pairs that the window admits, and, after a run, at its counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from textwrap import shorten

import numpy as np

from penstock.errors import DataError
from penstock.expr.columns import evaluate_all, evaluate_columns
from penstock.expr.node import Expr, Op, show, walk
from penstock.plan.band import BandForm
from penstock.plan.logic import conjuncts_of, equalities
from penstock.plan.plan import Output
from penstock.plan.query import JoinQuery, TimeWindow, other
from penstock.types import Kind
from penstock.words import many, percent

from ...device.cut import spread
from ...execute.units import sampled_pairs
from ...metrics.findings import Finding
from ...prune.costed import Costed
from ...prune.zones import POSITION
from ...rows.sides import SideRows
from .directions import Direction
from .table_join import TableJoin

#: Fewest pairs to test that are worth a remark: some milliseconds of a core.
WORTH = 1 << 22
#: Most tuples of a sample, and most pairs of them and window rows: a tenth of a second.
_TUPLES, _PAIRS = 512, 1 << 18
#: Fewest sampled pairs that a share is taken of, and most rows whose keys are counted.
_LEAST, _ROWS = 100, 1 << 14
#: Least share of tested pairs that fail one comparison only, of rows with one key, of the time.
_ONLY, _ONE_KEY, _COPYING = 0.9, 1 / 3, 0.5
#: Most characters of a value in a text.
_VALUE = 40
#: Fewest seconds of copying that are worth a remark.
_LEAST_S = 0.05
#: From the coarsest.
_NUMBERS = {Kind.INT, Kind.DECIMAL, Kind.FLOAT32, Kind.FLOAT64}
_UNITS = ("s", "ms", "us", "ns")


def sampled(join: TableJoin, direction: Direction) -> dict[Expr, np.ndarray]:
    """Evaluate the conjuncts of a predicate on a sample of the pairs that the window admits.

    Returns
    -------
    dict of Expr to ndarray of bool, shape (pairs,)
        Where each is TRUE.

    Raises
    ------
    DataError
        A conjunct fails on one of them.
    """
    conjuncts = conjuncts_of(direction.evaluation.form.predicate)
    at, i, positions = sampled_pairs(direction.start, direction.end, _TUPLES, _PAIRS)
    rows = {other(direction.side): positions, direction.side: (at + direction.rows.start)[i]}
    used = {node.attr for node in walk(*conjuncts) if node.op is Op.COLUMN}
    columns = {
        name: column.at(rows[side])
        for side, some in join.tables.sides.items()
        for name, column in some.columns.items()
        if name in used
    }
    values = evaluate_all(conjuncts, columns, len(i))
    return {one: vector.true for one, vector in zip(conjuncts, values, strict=True)}


def of_join(join: TableJoin, costed: Mapping[str, Costed]) -> list[Finding]:
    """Look at a join of tables, before or after its run.

    Parameters
    ----------
    costed : mapping of form to Costed
        Orders that are expected to be used, or were, by directions' forms.
    """
    findings = [*_unmet(join), *_one_key(join), *_copying(join)]
    for one in join.directions:
        orders, ran = costed.get(one.form, Costed()), join.costed.get(one.form)
        if ran and orders.chosen and orders.chosen.kind not in ran.used:
            orders = replace(orders, chosen=None)  # it did not pay
        expected = orders.tested(orders.chosen) * orders.tuples
        tested = join.stats.pairs_evaluated if join.stats.seconds else expected
        # A run that ended without a row is looked at whatever its size.
        is_empty = join.stats.seconds > 0 and not join.stats.rows and one.pairs > 0
        is_empty = is_empty and join.plan.output is Output.PAIRS
        if tested < WORTH and not is_empty:
            continue
        try:
            sample = sampled(join, one)
        except DataError:  # of a pair that the join itself may not test
            continue
        if is_empty:
            findings += _nothing_passes(join.query, sample)
        if tested >= WORTH:
            findings += [*_last_comparison(join.query, one, orders, sample), *_general(join, one)]
    return findings


def _unmet(join: TableJoin) -> Iterator[Finding]:
    """Sides without a row that can match, or no row of which meets one of the other."""
    names, sides = join.query.names, join.tables.sides
    empty = [side for side, base in join.tables.base.items() if base.num_rows and not sides[side]]
    for side in empty:
        yield Finding(
            "no rows",
            f"no row of {names[side]} can match: each fails its filter, or has no time",
            f"see what SELECT ... FROM {_name(join.query.side(side).table)} gives with that filter",
            names[side],
        )
    window = join.query.window
    if empty or join.pairs_in_window or not all(map(len, sides.values())):
        return
    if not isinstance(window, TimeWindow) or join.query.sessions is not None:
        return
    spans = {names[side]: (int(s.time.min()), int(s.time.max())) for side, s in sides.items()}
    texts = (f"those of {name} are {low:,} to {high:,}" for name, (low, high) in spans.items())
    unit = f" (in {window.unit})" if window.unit else ""
    yield Finding(
        "no times meet",
        f"no times of both sides meet within the window: {' and '.join(texts)}{unit}",
        "see whether both are of one zone and epoch" if unit else _unit_remedy(join.query, spans),
    )


def _unit_remedy(query: JoinQuery, spans: Mapping[str, tuple[int, int]]) -> str:
    """Name the units of integers that look like times since 1970, if they differ."""
    # 1e9 s after 1970 was in 2001; each finer unit has three digits more.
    places = {name: (len(str(max(high, 1))) - 10) // 3 for name, (_, high) in spans.items()}
    coarse, fine = (choose(places, key=places.__getitem__) for choose in (min, max))
    if not 0 <= places[coarse] < places[fine] < len(_UNITS):
        return "see whether the times of both have one unit and epoch"
    factor = 1_000 ** (places[fine] - places[coarse])
    side = next(side for side in query.sides if side.alias == coarse)
    times = (node.attr[1] for node in walk(side.time) if node.op is Op.COLUMN) if side.time else ()
    time, table = _name(next(iter(times), "t")), _name(side.table)
    units = f"{_UNITS[places[coarse]]} since 1970, those of {fine} {_UNITS[places[fine]]}"
    return (
        f"those of {coarse} look like {units}: multiply the former by {factor:,} in a subquery, "
        f"FROM (SELECT ..., {time} * {factor} AS {time} FROM {table}) AS {_name(coarse)}"
    )


def _name(name: str) -> str:
    """Write a name as SQL has it."""
    return name if name.isidentifier() else f"`{name.replace('`', '``')}`"


def _one_key(join: TableJoin) -> Iterator[Finding]:
    """Values that a compared column has too often."""
    if join.pairs_in_window < WORTH:
        return
    names, sides = join.query.names, join.tables.sides
    conjuncts = conjuncts_of(join.plan.query.predicate)
    for side, rows in sides.items():
        for _, key, _ in equalities(conjuncts, side):
            values, counts, looked_at = _frequencies(rows, key)
            most = int(counts.argmax()) if len(counts) else 0
            if len(counts) < 10 or counts[most] < _ONE_KEY * looked_at:
                continue
            text = show(key, names)
            is_plain = key.type.kind in (Kind.INT, Kind.STRING)
            value = (
                f" ({shorten(str(values[most]), _VALUE, placeholder='...')})" if is_plain else ""
            )
            yield Finding(
                "one key",
                f"one value of {text}{value} has {percent(counts[most] / looked_at)} of the "
                f"rows of {names[side]}",
                "if it stands for unknown, leave it out in WHERE; else compare one more value",
                names[side],
            )


def _frequencies(rows: SideRows, key: Expr) -> tuple[np.ndarray, np.ndarray, int]:
    """Values of a sample of rows that are not NULL, how often each is there, and the rows."""
    some = rows.pick(spread(0, len(rows), _ROWS))
    try:
        known = evaluate_columns(key, some.columns, len(some)).known
    except DataError:
        known = np.empty(0)
    return *np.unique(known, return_counts=True), len(some)


def _copying(join: TableJoin) -> Iterator[Finding]:
    stats = join.stats
    share = stats.rows_s / max(stats.rows_s + stats.busy_s, 1e-9)
    if stats.rows_s >= _LEAST_S and share >= _COPYING:
        columns = len(join.schema)
        yield Finding(
            "copying",
            f"{percent(share)} of the time is copying rows out: {many(stats.rows, 'row')} of "
            f"{many(columns, 'column')}",
            "select fewer columns, or let the join count: GROUP BY, SEMI JOIN",
            "output",
        )


def _nothing_passes(query: JoinQuery, sample: Mapping[Expr, np.ndarray]) -> Iterator[Finding]:
    """Conjuncts that no sampled pair passes, though there are pairs."""
    for conjunct, passed in sample.items():
        if len(passed) >= _LEAST and not passed.any():
            yield Finding(
                "no match",
                f"no pair of {len(passed):,} sampled ones passes {show(conjunct, query.names)}",
                "see whether both sides have the same unit, spelling and case there",
            )


def _last_comparison(
    query: JoinQuery, direction: Direction, costed: Costed, sample: Mapping[Expr, np.ndarray]
) -> Iterator[Finding]:
    """A comparison that most tested pairs fail, and no other, since no order has its key."""
    search, names = direction.evaluation.search, query.names
    keys = (*search.keys, *search.halves)
    texts, chosen = costed.keys(), () if costed.chosen is None else costed.chosen.tests
    tests = {texts[d] for d in chosen if d != POSITION}
    exact, searched = set[Expr](), set[Expr]()
    for key in keys:
        searched.update(conjuncts_of(key.conjunct))
        if show(key.test.key, names) in tests:
            exact.update(conjuncts_of(key.conjunct))
    every = np.ones(max(map(len, sample.values()), default=0), bool)
    tested = reduce(np.logical_and, (p for c, p in sample.items() if c in exact), every)
    if tested.sum() < _LEAST:
        return
    refused = search.refused(names)
    for conjunct, passed in sample.items():
        if conjunct in searched:
            continue  # the order that is cheapest was chosen
        remaining = reduce(np.logical_and, (p for c, p in sample.items() if c != conjunct), tested)
        share = float((remaining & ~passed).sum() / tested.sum())
        if share < _ONLY:
            continue
        reasons = {why for fact, why in refused if fact in set(walk(conjunct))}
        why = f" ({min(reasons)})" if reasons else ""
        yield Finding(
            "last comparison",
            f"{percent(share)} of the pairs tested fail only {show(conjunct, names)}, which gives "
            f"no key to search by{why}",
            "add to ON a comparison that every match passes, too: of a column with its bounds from "
            f"the other side{_example(conjunct, direction, names)}, or an equality",
            f"{names[direction.side]} probes {names[other(direction.side)]}",
        )


def _example(conjunct: Expr, direction: Direction, names: Mapping[str, str]) -> str:
    """A comparison of columns of a conjunct that would give a key, if they are numbers."""
    columns = {node.attr[0]: node for node in walk(conjunct) if node.op is Op.COLUMN}
    if len(columns) < 2 or not all(one.type.kind in _NUMBERS for one in columns.values()):
        return ""
    tuples, rows = (show(columns[side], names) for side in (direction.side, other(direction.side)))
    return f", such as {rows} BETWEEN {tuples} - 3 AND {tuples} + 3"


def _general(join: TableJoin, direction: Direction) -> Iterator[Finding]:
    """A predicate that a cast or an option would make a band."""
    form, names = direction.evaluation.form, join.query.names
    if isinstance(form.form, BandForm):
        return
    why = form.why_general(names)
    remedy = None
    if "is switched off" in why:
        remedy = "leave out --no-band"
    elif "may round" in why:
        nodes = list(walk(form.predicate))
        columns = [show(one, names) for one in nodes if one.type.is_float and one.op is Op.COLUMN]
        # Functions of decimals are floats, too.
        if columns and not any(one.op is Op.FUNCTION for one in nodes):
            example = f"CAST({columns[0]} AS DECIMAL(18, 2))"
            remedy = f"if the columns hold fixed-point numbers, cast them: {example}"
    if remedy is not None:
        yield Finding("general", f"each pair tested is computed, since {why}", remedy)
