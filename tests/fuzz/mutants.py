"""Mends taken out again, and how many queries it takes until the generator notices.

``python -m tests.fuzz --mutant N`` and ``test_mutants.py`` show that the generator finds each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from sqlglot import exp

from penstock.around import carried, computed_values
from penstock.expr import ops
from penstock.expr.node import Expr, Op
from penstock.host.relational import computed, engine, stream
from penstock.plan import plan, ranges
from penstock.query import compiler
from penstock.query.dialect import Penstock, refused
from penstock.query.expressions import Lowering
from penstock.query.options import KeptQueries
from penstock.query.time_rules import TimeRules
from penstock.types import Kind, Type
from penstock.zones import zone_of
from tests.fuzz import twins
from tests.fuzz.campaign import Finding, Tally, run_seed
from tests.fuzz.check import check
from tests.fuzz.oracle import Oracle
from tests.penstock.kit.devices import InterpretingCpu

SURFACE: dict[Op, Callable[..., Expr]] = {
    Op.ADD: ops.add,
    Op.SUB: ops.sub,
    Op.MUL: ops.mul,
    Op.MOD: ops.mod,
    Op.NEG: ops.neg,
    Op.ABS: ops.absolute,
    Op.LEAST: ops.least,
    Op.GREATEST: ops.greatest,
    Op.EQ: ops.eq,
    Op.LT: ops.lt,
    Op.LE: ops.le,
}


@contextmanager
def scales_aligned_twice() -> Iterator[None]:
    """Aggregates of nullable columns without NULL rebuild expressions as if from SQL."""

    def remake(expr: Expr, args: tuple[Expr, ...]) -> Expr:
        if args == expr.args:
            return expr
        surface = SURFACE.get(expr.op)
        return surface(*args) if surface else ops.remake(expr, args)

    older = SimpleNamespace(**{**vars(ops), "remake": remake})
    with patch.object(plan, "ops", older):
        yield


@contextmanager
def constant_where_in_on() -> Iterator[None]:
    """A WHERE that is FALSE or NULL whatever the row becomes a part of ON."""
    mended = compiler.conditions

    def conditions(statement: Any) -> tuple[list[list[Expr]], list[Expr]]:
        filters, conjuncts = mended(statement)
        constant = [c for c in filters[0] if c.is_const]
        return [[c for c in own if not c.is_const] for own in filters], conjuncts + constant

    with patch.object(compiler, "conditions", conditions):
        yield


@contextmanager
def bounds_stop_at_the_ends() -> Iterator[None]:
    """Window bounds beyond int64 stop at its ends, where they meet rows of that time."""

    def places(window: Any, times: Any, by: int, side: Any, search: Any) -> Any:
        return search(window, ranges.shifted(times, by), side).astype(np.int64)

    with patch.object(ranges, "_places", places):
        yield


def _moved_of(patches: Callable[[], tuple[Any, ...]]) -> Callable[[], Any]:
    """Take out a mend by some patches, in queries that are compiled anew."""

    @contextmanager
    def applied() -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(patch.object(compiler, "_kept", KeptQueries()))
            for one in patches():
                stack.enter_context(one)
            yield

    return applied


def _microseconds() -> tuple[Any, ...]:
    def is_coded(dtype: Type) -> bool:
        return dtype.kind is Kind.DURATION

    def sent(table: pa.Table) -> pa.Table:
        for place, (name, dtype) in enumerate(
            zip(table.column_names, table.schema.types, strict=True)
        ):
            if pa.types.is_timestamp(dtype) and dtype.unit == "ns":
                cut = table[name].cast(pa.timestamp("us", dtype.tz), safe=False)
                table = table.set_column(place, name, cut)
        return computed.sent(table)

    modules = (carried, computed_values, computed)
    coded = tuple(patch.object(module, "is_coded", is_coded) for module in modules)
    return (*coded, patch.object(engine, "sent", sent))


def _in_utc(*kinds: type[exp.Expr]) -> tuple[Any, ...]:
    mended = computed_values.Values._lower

    def lower(self: computed_values.Values, tree: exp.Expr) -> Expr:
        if not isinstance(tree, kinds):
            return mended(self, tree)
        with patch.object(self, "rules", TimeRules(zone_of("UTC"))):
            return mended(self, tree)

    return (patch.object(computed_values.Values, "_lower", lower),)


def _without_integer_windows() -> tuple[Any, ...]:
    mended = computed_values.Values.window

    def window(self: computed_values.Values, tree: exp.Anonymous) -> Any:
        if self.lower(tree.expressions[0]).type.kind is Kind.INT:
            raise refused("window takes a time", tree)
        return mended(self, tree)

    return (patch.object(computed_values.Values, "window", window),)


def _columns_of_duckdb() -> tuple[Any, ...]:
    mended = carried._typed

    def typed(dtype: Type, tree: exp.Expr) -> exp.Expr:
        return tree if isinstance(tree, exp.Column) else mended(dtype, tree)

    return (patch.object(carried, "_typed", typed),)


def _types_of_duckdb() -> tuple[Any, ...]:
    mended = computed.returned

    def returned(table: Any, outputs: Any, zone: str | None) -> Any:
        known = {
            name: carried.Known(one.type) if one and (one.type.unit or one.type.is_text) else one
            for name, one in outputs.items()
        }
        return mended(table, known, zone)

    return (patch.object(engine, "returned", returned),)


def _moment_in(query: Any, side: Any, time: int, dtype: pa.DataType) -> pa.Array:
    stored = dtype if pa.types.is_integer(dtype) else pa.int64()
    return pa.array([time], stored).cast(dtype)


def _counts_of_duckdb() -> tuple[Any, ...]:
    class Nothing:
        pass

    return (
        patch.object(computed_values, "exp", SimpleNamespace(**{**vars(exp), "CountIf": Nothing})),
    )


@dataclass(frozen=True)
class Mutant:
    name: str
    apply: Callable[[], Any]
    #: Whether queries and their twins find it.
    is_of_twins: bool = False


MUTANTS = {
    1: Mutant("aggregates over tables align scales twice", scales_aligned_twice),
    2: Mutant("a WHERE that folds to FALSE becomes part of ON", constant_where_in_on),
    3: Mutant("window bounds saturate at the ends of int64", bounds_stop_at_the_ends),
    **{
        place: Mutant(name, _moved_of(patches), is_of_twins=True)
        for place, (name, patches) in enumerate(
            {
                "around joins, nanoseconds are microseconds": _microseconds,
                "around joins, NULL is where DuckDB puts it": lambda: (
                    patch.object(Penstock, "NULL_ORDERING", "nulls_are_last"),
                ),
                "around joins, count_if of no row is NULL": _counts_of_duckdb,
                "around joins, date_trunc is in UTC": partial(
                    _in_utc, exp.DateTrunc, exp.TimestampTrunc
                ),
                "around joins, a sum has the type of its argument": lambda: (
                    patch.object(carried, "sum_type", lambda dtype: dtype),
                ),
                "beside a join, a row without a time is in a window": lambda: (
                    patch.object(Lowering, "timed", lambda self, others=(): ()),
                ),
                "around joins, a day of an interval has 24 hours": partial(
                    _in_utc, exp.Add, exp.Sub, exp.TimestampAdd
                ),
                "around joins, windows of integers are refused": _without_integer_windows,
                "around joins, integers are added in the types of columns": _columns_of_duckdb,
                "around joins, decimals have DuckDB's digits": lambda: (
                    patch.object(carried, "_as_decimals", lambda one, args: args),
                ),
                "around joins, an average of decimals is a float": lambda: (
                    patch.object(computed_values.Values, "_average", lambda self, tree: None),
                ),
                "around joins, times and texts come back in DuckDB's types": _types_of_duckdb,
                "around joins, an error under ANSI is NULL": lambda: (
                    patch.object(computed_values, "checked", lambda expr, names: expr),
                ),
                "streams end where their times have no integer": lambda: (
                    patch.object(stream, "moment_in", _moment_in),
                ),
            }.items(),
            start=4,
        )
    },
}


def search_twins(mutant: Mutant, start: int, most: int) -> tuple[int, str]:
    """Pairs until one differs with the mutant and not without it, and what was found."""
    count = 0
    seed = start
    while count < most:
        case = twins.random_case(seed)
        for name, one, other in twins.pairs(case.query, Random(seed)):
            if name == "two workers":  # processes in which nothing is taken out
                continue
            count += 1
            with mutant.apply():
                found = twins.difference(case, name, one, other)
            anew = twins.random_case(seed)
            if found is not None and twins.difference(anew, name, one, other) is None:
                return count, f"{name}: {found.what}, {found.sort}\n{case.query.text()}"
        seed += 1
    return count, ""


def search(mutant: Mutant, start: int, most: int) -> tuple[int, Finding | None]:
    """Queries until one fails with the mutant and passes without it, and what was found.

    Parameters
    ----------
    start
        The first seed.
    most
        Queries after which the search ends without a finding.
    """
    tally = Tally()
    seed = start
    with InterpretingCpu() as device:
        while tally.queries < most:
            before = len(tally.findings)
            with mutant.apply():
                run_seed(seed, device, tally)
            seed += 1
            for finding in tally.findings[before:]:
                oracle = Oracle(finding.case.query)
                if check(finding.case, oracle, finding.mode, device).kind != "finding":
                    return tally.queries, finding
    return tally.queries, None
