"""Plans of a join, each of which can be forced; forced ones are for measuring alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

import penstock
from bench.regret.joins import Join
from penstock.api import around
from penstock.around import parts
from penstock.host.devices.cpu.band_kernel import BandKernel
from penstock.host.devices.cpu.resident_window import NEVER
from penstock.host.join.table import directions
from penstock.host.prune import choice, chooser
from penstock.host.prune.sizes import Pruning
from penstock.plan.query import LEFT, RIGHT
from penstock.program import MAX_BAND_TESTS
from penstock.query.options import KeptQueries

CHOSEN, DUCKDB, PENSTOCK = "chosen", "DuckDB", "Penstock"
#: Plans by one kind of order, and their names.
ORDERS = {"cells alone": "cells", "zones alone": "zones"}
ALL_PAIRS, WITHOUT_MASKS, FINEST = "all pairs", "all pairs, no masks", "finest cells"
#: Most keys that are forced one by one, and most pairs of keys.
MOST_KEYS, MOST_PAIRS = 6, 8
#: Threads of DuckDB.
THREADS = 2
#: Sides that can be the window, as they are numbered.
SIDES = (RIGHT, LEFT)


@dataclass
class Seen:
    """How many keys a join's window can be searched by, and how many evaluations there are."""

    keys: int = 0
    evaluations: int = 0
    in_duckdb: bool = False

    def plans(self) -> list[str]:
        """All plans to force."""
        if not self.evaluations:
            return [CHOSEN, DUCKDB]
        keys = [str(n) for n in range(min(self.keys, MOST_KEYS))]
        pairs = [" ".join(pair) for pair in combinations(keys, 2)][:MOST_PAIRS]
        sides = [f"side {n}" for n in range(self.evaluations)] if self.evaluations > 1 else []
        forced = [ALL_PAIRS, WITHOUT_MASKS, FINEST, *ORDERS, *sides]
        return [CHOSEN, PENSTOCK, *forced, *(f"keys {one}" for one in (*keys, *pairs)), DUCKDB]


@contextmanager
def _set(target: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, before)


#: Splits in which Penstock runs all joins.
_FORCED = KeptQueries()


@contextmanager
def on_penstock() -> Iterator[None]:
    """Let Penstock run each join that it can run."""
    with _set(parts, "MANY_PAIRS", (-1, -1)), _set(around, "_kept", _FORCED):
        yield


@contextmanager
def noting(seen: Seen) -> Iterator[None]:
    """Note what can be chosen in the joins that run meanwhile."""
    tests_of, rank = chooser.searched_tests, directions._rank

    def noted_tests(program: Any) -> list[int]:
        tests = tests_of(program)
        seen.keys = max(seen.keys, len(tests))
        return tests

    def noted_rank(*args: Any) -> Any:
        ranked, windows = rank(*args), set()

        def noted(one: Any) -> Any:
            windows.add(one.form.window)
            seen.evaluations = max(seen.evaluations, len(windows))
            return ranked(one)

        return noted

    with (
        _set(chooser, "searched_tests", noted_tests),
        _set(directions, "_rank", noted_rank),
    ):
        yield


@contextmanager
def _by_keys(numbers: Sequence[int]) -> Iterator[None]:
    """Search by some of the keys, whether that pays or not."""
    tests_of = chooser.searched_tests

    def some(program: Any) -> list[int]:
        tests = tests_of(program)
        return [test for n, test in enumerate(tests) if n in numbers]

    with ExitStack() as stack:
        stack.enter_context(_set(chooser, "searched_tests", some))
        stack.enter_context(_set(chooser.Chooser, "gain", lambda *_: math.inf))
        stack.enter_context(_set(chooser.Chooser, "look", lambda *_: (0.0, math.inf)))
        stack.enter_context(_set(choice, "MOST_SHARE", math.inf))
        yield


def run(join: Join, plan: str) -> pa.Table:
    """Run a join by a plan."""
    if plan == DUCKDB:
        return _in_duckdb(join)
    sql: Callable[..., pa.Table] = partial(penstock.sql, join.text, join.tables)
    if plan == CHOSEN:
        return sql()
    with on_penstock(), ExitStack() as stack:
        if plan == PENSTOCK:
            return sql()
        if plan == FINEST:
            return sql(pruning=Pruning(always=True))
        if plan == ALL_PAIRS:
            return sql(pruning=False)
        if plan == WITHOUT_MASKS:
            stack.enter_context(_set(BandKernel, "limits", NEVER))
            return sql(pruning=False)
        if plan in ORDERS:
            every = range(MAX_BAND_TESTS)
            stack.enter_context(_by_keys(every))
            return sql(pruning=Pruning(least_pairs=1, free_rows=1 << 40, orders=(ORDERS[plan],)))
        what, numbers = plan.split(" ", 1)
        if what == "side":
            window = SIDES[int(numbers)]
            stack.enter_context(_set(directions, "COSTED_TUPLES", math.inf))
            stack.enter_context(
                _set(directions, "_rank", lambda *_: lambda one: one.form.window != window)
            )
            return sql()
        stack.enter_context(_by_keys([int(n) for n in numbers.split()]))
        return sql(pruning=Pruning(least_pairs=1, free_rows=1 << 40))


@cache
def _connection() -> Any:
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("SET enable_progress_bar = false")
    return connection


def _in_duckdb(join: Join) -> pa.Table:
    connection = _connection()
    for name, table in join.tables.items():
        connection.register(name, table)
    return connection.sql(join.text).to_arrow_table()


def digest(rows: pa.Table) -> tuple[int, int]:
    """Number of rows, and a hash that does not depend on their order."""
    if not rows.num_rows:
        return 0, 0
    x, y = (rows[name].to_numpy().astype(np.uint64) for name in ("x", "y"))
    mixed = (x * np.uint64(0x9E37_79B9_7F4A_7C15)) ^ (y + np.uint64(0x632B_E59B_D9B4_E019))
    mixed *= np.uint64(0xBF58_476D_1CE4_E5B9)
    mixed ^= mixed >> np.uint64(31)
    return rows.num_rows, int(mixed.sum(dtype=np.uint64))
